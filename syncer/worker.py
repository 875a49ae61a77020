"""The workers: each takes a key from the queue, has it reconciled by its kind, and says when it is due again.

    queue ── Item ─> granted ─> reconciler of its kind ──> done, due in n s | Again | Conflict | error ──> backed off ──> queue

One bad key is one bad key: its error is logged, counted, backed off, and no worker ends of it. What a reconciler does is its
own; nothing here knows a kind.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from bulkhead.kube.errors import Conflict, KubeError, Throttled, Unavailable
from bulkhead.kube.objects import Key
from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.queue import QueueClosed
from syncer import metrics
from syncer.logs import about
from syncer.patrol import Patrol
from syncer.work import Again, Item, Queue

_log = logging.getLogger(__name__)

RECONCILE_SECONDS: Final = 60.0

# Brings the world forward for one item; returns seconds after which the item is due again.
Reconciler = Callable[[Item], Awaitable[float | None]]


def by_key(reconcile: Callable[[Key], Awaitable[float | None]]) -> Reconciler:
    """A reconciler of one kind of work, which needs no more than the key."""
    return lambda item: reconcile(item.key)


async def _at_once() -> None:
    """Wait for nothing."""


class Worker:
    """One loop over the queue; several may run at once, since the queue gives a key to one of them only."""

    def __init__(
        self,
        queue: Queue,
        backoff: PerKeyBackoff[Item],
        patrol: Patrol,
        reconcilers: Mapping[str, Reconciler],
        granted: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self._granted = granted
        self._queue = queue
        self._backoff = backoff
        self._patrol = patrol
        self._reconcilers = reconcilers

    async def run(self) -> None:
        """Work until the queue is closed."""
        while True:
            try:
                item = await self._queue.get()
            except QueueClosed:
                return
            if item.kind == "Pod":
                metrics.IN_QUEUE.observe(self._queue.waited)
            try:
                await self._granted()
                await self._one(item)
            finally:
                self._queue.done(item)
                metrics.QUEUE_DEPTH.set(len(self._queue))

    async def _one(self, item: Item) -> None:
        found_by_patrol = item in self._patrol.pending
        written: list[str] = []
        token = metrics.writes.set(written)
        with metrics.RECONCILE_SECONDS.labels(item.kind).time():
            result = await self._reconcile(item)
        metrics.writes.reset(token)
        self._patrol.visited(item)
        if found_by_patrol and written and result == "done":
            metrics.PATROL_REPAIRS.labels(item.kind).inc()
            _log.warning("patrol repaired a difference without an event", extra=about(item.kind, item.key, writes=written))
        metrics.RECONCILES.labels(item.kind, result).inc()

    async def _reconcile(self, item: Item) -> str:
        """Reconcile one item and queue it again where it is due again; returns the result as the metric names it."""
        try:
            async with asyncio.timeout(RECONCILE_SECONDS):
                after = await self._reconcilers[item.kind](item)
        except Again as again:
            self._queue.add_after(item, again.seconds)
            return "again"
        except Conflict:
            self._queue.add_after(item, max(0.02, self._backoff.next(item)))
            return "conflict"
        except (KubeError, TimeoutError) as error:
            delay = self._retry(item, error)
            _log.warning("reconcile failed: %s", error, extra=about(item.kind, item.key, retry_in=round(delay, 2)))
            return "error"
        except Exception as error:  # noqa: BLE001 -- whatever a hostile object brings about stays with its key
            _log.exception("reconcile failed", extra=about(item.kind, item.key))
            self._retry(item, error)
            return "error"
        self._backoff.forget(item)
        if after is not None:
            self._queue.add_after(item, after)
        return "done"

    def _retry(self, item: Item, error: Exception) -> float:
        """Queue a failed item again; returns the seconds until then."""
        delay = max(0.05, self._backoff.next(item))
        if isinstance(error, (Throttled, Unavailable)) and error.retry_after is not None:
            delay = max(delay, error.retry_after)
        self._queue.add_after(item, delay)
        return delay
