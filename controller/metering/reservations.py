"""Hears from the ledger which free devices it reserves, and counts them until the usage is stored.

    a decision of the ledger ──> show(rooms) ──> ReservedMeter ──> count(), every minute ──> Usage ──> the open page

One for each reign: what was counted and not stored when the lease was lost is dropped, as another process may have counted it.
"""

from collections.abc import Iterable

from bulkhead.api.quotalines import ReservedRoom
from bulkhead.metering.meter import Tally
from bulkhead.metering.reserved import ReservedMeter
from bulkhead.metering.steady import Steady
from bulkhead.work.clock import Clock


class Reservations:
    """What the ledger reserves, for one reign."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steady = Steady(self._wall(), self._monotonic())
        self._meter = ReservedMeter()

    def show(self, rooms: Iterable[ReservedRoom]) -> None:
        """The ledger has decided: from now on these are reserved."""
        self._meter.see(rooms, self._steady.now(self._wall(), self._monotonic()))

    def count(self) -> tuple[Tally, ...]:
        """All that is known up to the last decision and was not counted yet."""
        return tuple(self._meter.count())

    def _wall(self) -> int:
        return round(self._clock.now().timestamp() * 1000)

    def _monotonic(self) -> int:
        return round(self._clock.monotonic() * 1000)
