"""A breaker for deletions that follow from absence.

A virtual object that vanished without its deletion being observed is deleted on the host only within a limit per window. More
than that looks like a plane that lost its data, so these deletions stop and an alarm is raised. The breaker stays open until an
admin accepts the plane's data (`identity`); it never closes by itself. For some time after that, no deletion is counted. A
deletion that was observed in an event is never counted, nor is that of a pod that had ended: no work is lost with it, and while
the syncer is away a plane may clean up many. Once the breaker is open, those stay as well.

A new process has observed no deletion, so all that the plane lost is an absence to it. It would delete as much again after each
restart. So what was counted is on the host before the deletion, beside the plane's identity, and so is that the breaker opened.

    absence ──> within the limit? ── yes ──> count noted on the host ──> may be deleted
                                  └─ no ───> open, noted on the host ──> kept, until an admin accepts
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from bulkhead.api.conditions import timestamp
from bulkhead.api.planeidentity import Recorded, absences_counted
from bulkhead.work.clock import Clock
from syncer import metrics
from syncer.watch.deletions import ObservedDeletions

_log = logging.getLogger(__name__)

WINDOW_SECONDS: Final = 60.0


class MassDeleteBreaker:
    """Counts deletions by absence over a sliding window."""

    def __init__(
        self, limit: int, clock: Clock, deletions: ObservedDeletions, note: Callable[[str, str], Awaitable[None]]
    ) -> None:
        """`note` records on the host what was counted, and why the breaker is open."""
        self._limit = limit
        self._clock = clock
        self._deletions = deletions
        self._note = note
        self._turn = asyncio.Lock()
        self._times: deque[float] = deque()
        # Whether the host knows that the breaker is open.
        self._noted = False
        self._accepted_until = float("-inf")
        self.open = False

    def resume(self, record: Recorded) -> None:
        """Go on from what an earlier process has noted."""
        number, age = absences_counted(record, self._clock.now())
        self._times.extend([self._clock.monotonic() - age] * min(number, self._limit))
        if record.breaker_open:
            self._noted = True
            self._open(record.breaker_open)

    async def may_delete(self, kind: str, uid: str, *, ended: bool = False) -> bool:
        """Whether the host object of the virtual object with this UID may be deleted now; the caller has proven the absence.

        `ended` is for a pod that had ended on the host. Raises KubeError where the host cannot take the note: then nothing may
        be deleted.
        """
        # An observed deletion stays observed: a retried delete is not a new absence.
        return self._deletions.observed(kind, uid) or (ended and not self.open) or await self.allow()

    async def allow(self) -> bool:
        """Whether one more object may be deleted because it is absent; counts it if so."""
        async with self._turn:
            now = self._clock.monotonic()
            if now < self._accepted_until:
                return True
            while self._times and now - self._times[0] > WINDOW_SECONDS:
                self._times.popleft()
            if not self.open and len(self._times) < self._limit:
                await self._note(f"{timestamp(self._clock.now())} {len(self._times) + 1}", "")
                self._times.append(now)
                return True
            why = (
                f"more than {self._limit} objects vanished from the plane within {WINDOW_SECONDS:g} s, and no watch reported "
                "their deletion; what the host has of them is kept"
            )
            if not self.open:
                self._open(why)
            if not self._noted:
                await self._note("", why)
                self._noted = True
            return False

    def accept(self, seconds: float) -> None:
        """An admin knows what the plane has lost, and accepts the data that it has; that counts for so long."""
        self._accepted_until = self._clock.monotonic() + seconds
        self._times.clear()
        self.open = self._noted = False
        metrics.MASS_DELETE.set(0)

    def _open(self, why: str) -> None:
        self.open = True
        metrics.MASS_DELETE.set(1)
        _log.error("mass-delete breaker open: %s", why)
