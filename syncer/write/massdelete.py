"""A breaker for deletions that follow from absence.

A virtual object that vanished without its deletion being observed is deleted on the host only within a limit per window. More
than that looks like a plane that lost its data, so these deletions stop and an alarm is raised. The breaker stays open until an
operator restarts the syncer; it never closes by itself. A deletion that was observed in an event is never counted. For some
time after an admin has accepted the plane's data (`identity`), no deletion is counted.
"""

import logging
from collections import deque
from typing import Final

from bulkhead.kube.objects import Key
from bulkhead.work.clock import Clock
from syncer import metrics
from syncer.watch.deletions import ObservedDeletions

_log = logging.getLogger(__name__)

WINDOW_SECONDS: Final = 60.0


class MassDeleteBreaker:
    """Counts deletions by absence over a sliding window."""

    def __init__(self, limit: int, clock: Clock, deletions: ObservedDeletions) -> None:
        self._limit = limit
        self._clock = clock
        self._deletions = deletions
        self._times: deque[float] = deque()
        self._accepted_until = float("-inf")
        self.open = False

    def may_delete(self, kind: str, key: Key) -> bool:
        """Whether the host object of a virtual object that is gone may be deleted now; the caller has proven the absence."""
        # An observed deletion stays observed until an object of this name comes again: a retried delete is not a new absence.
        return self._deletions.observed(kind, key) or self.allow()

    def allow(self) -> bool:
        """Whether one more object may be deleted because it is absent; counts it if so."""
        now = self._clock.monotonic()
        if now < self._accepted_until:
            return True
        if self.open:
            return False
        while self._times and now - self._times[0] > WINDOW_SECONDS:
            self._times.popleft()
        if len(self._times) >= self._limit:
            self._trip()
            return False
        self._times.append(now)
        return True

    def accept(self, seconds: float) -> None:
        """An admin knows what the plane has lost, and accepts the data that it has; that counts for so long."""
        self._accepted_until = self._clock.monotonic() + seconds
        self._times.clear()
        self.open = False
        metrics.MASS_DELETE.set(0)

    def _trip(self) -> None:
        self.open = True
        metrics.MASS_DELETE.set(1)
        _log.error(
            "mass-delete breaker open: more than %d virtual objects vanished within %d s; their host objects are kept",
            self._limit,
            int(WINDOW_SECONDS),
        )
