"""What happens when a side answers again: nothing that failed because of it waits for its own next attempt.

One informer reaches the server first, between half a second and 24 s after it is back. Its siblings then try within a second,
and keys that failed are queued again. No more often than every ten seconds, so that a server that comes and goes does not
set the pace of our requests.
"""

from collections.abc import Collection
from typing import Final

from bulkhead.kube.informer import Informer
from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.clock import Clock
from bulkhead.work.queue import KeyedQueue
from syncer.work import Item

LEAST_SECONDS: Final = 10.0


class Reconnect:
    """One side's informers, and the work of the tenant."""

    def __init__(
        self, informers: Collection[Informer], backoff: PerKeyBackoff[Item], queue: KeyedQueue[Item], clock: Clock
    ) -> None:
        self._informers = informers
        self._backoff = backoff
        self._queue = queue
        self._clock = clock
        self._at: float | None = None

    def __call__(self) -> None:
        """An informer of the side has reached its server again."""
        now = self._clock.monotonic()
        if self._at is not None and now - self._at < LEAST_SECONDS:
            return
        self._at = now
        for informer in self._informers:
            informer.try_now()
        for item in self._backoff.failing():
            self._queue.add(item)
