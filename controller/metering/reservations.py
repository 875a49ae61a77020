"""Receives from the ledger which free devices it reserves, and counts them until the usage is stored.

    a decision of the ledger ──> show(rooms) ──> ReservedMeter ──> count(), every minute ──> Usage ──> the open page

There is one for each time that the process leads. Counts that are not stored when the lease is lost are dropped, because
another process may have counted the same time.
"""

from collections.abc import Iterable

from bulkhead.api.quotalines import ReservedRoom
from bulkhead.metering.meter import Tally
from bulkhead.metering.reserved import ReservedMeter
from bulkhead.metering.steady import Steady
from bulkhead.work.clock import Clock


class Reservations:
    """The ledger's reservations, from when the process began to lead until it loses the lease."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steady = Steady(self._wall(), self._monotonic())
        self._meter = ReservedMeter()

    def show(self, rooms: Iterable[ReservedRoom]) -> None:
        """Take the reservations of a new decision of the ledger."""
        self._meter.see(rooms, self._steady.now(self._wall(), self._monotonic()))

    def count(self) -> tuple[Tally, ...]:
        """Everything up to the last decision that was not counted yet."""
        return tuple(self._meter.count())

    def _wall(self) -> int:
        return round(self._clock.now().timestamp() * 1000)

    def _monotonic(self) -> int:
        return round(self._clock.monotonic() * 1000)
