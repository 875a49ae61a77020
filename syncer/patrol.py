"""A round now and then over everything: a difference for which no event came is found here, and counted.

Every virtual object that is mirrored and every host object that is marked is queued in the backfill lane, so that a round never
delays news. The round itself does no I/O. In health it changes nothing: `bulkhead_syncer_patrol_repairs_total` stays at zero,
and whatever it counts is a bug or an outside hand.
"""

import logging
from collections.abc import Collection, Iterable

from bulkhead.work.clock import Clock
from bulkhead.work.queue import Lane
from syncer import metrics
from syncer.mirrors.references import ON_REFERENCE, ReferenceIndex
from syncer.translate.kinds import drain, nodeports
from syncer.watch.informers import Caches
from syncer.work import Item, Queue

_log = logging.getLogger(__name__)


class Patrol:
    """Queues every key once in a while."""

    def __init__(self, caches: Caches, queue: Queue, references: ReferenceIndex, clock: Clock, seconds: float) -> None:
        self._caches = caches
        self._queue = queue
        self._references = references
        self._clock = clock
        self._seconds = seconds
        # Keys of the running round: what is written for one of them without an event is a repair.
        self.pending: set[Item] = set()
        self._began = 0.0

    async def run(self) -> None:
        """Walk for ever."""
        while True:
            await self._clock.sleep(self._seconds)
            if not self._caches.unready():
                self.round()

    def round(self) -> int:
        """Queue everything; returns how many keys that are."""
        items = set(self._virtual()) | set(self._host())
        # The same set is changed, not replaced: the caches take news out of it.
        self._began = self._clock.monotonic()
        self.pending.clear()
        for item in items:
            # A key that waits, also for its time, or is in work has a reason of its own: what is written is not our find.
            held = self._queue.holds(item)
            if self._queue.add(item, Lane.BACKFILL) and not held:
                self.pending.add(item)
        _log.info("patrol: %d objects", len(items))
        return len(items)

    def all_again(self) -> None:
        """Queue everything because the settings changed; writes that follow do not count as repairs."""
        self._requeue({*self._virtual(), *self._host()})

    def again(self, kinds: Collection[str]) -> None:
        """Queue the tenant's objects of these kinds, because what they may name has changed."""
        mirrored = [kind for kind in kinds if kind in self._caches.kinds]
        self._requeue(Item(kind, key) for kind in mirrored for key in self._caches.virtual[kind].store.keys())  # noqa: SIM118 -- a store

    def _requeue(self, items: Iterable[Item]) -> None:
        for item in items:
            self.visited(item)
            self._queue.add(item, Lane.BACKFILL)

    def visited(self, item: Item) -> None:
        """A key of the round was reconciled, or an event came for it."""
        if item not in self.pending:
            return
        self.pending.discard(item)
        if not self.pending:
            metrics.PATROL_ROUNDS.inc()
            metrics.PATROL_ROUND_SECONDS.set(self._clock.monotonic() - self._began)

    def _virtual(self) -> list[Item]:
        found = [
            Item(kind, key)
            for kind in self._caches.kinds
            if kind not in ON_REFERENCE
            for key in self._caches.virtual[kind].store.keys()  # noqa: SIM118 -- a store, not a dict
        ]
        found += [Item("Node", key) for key in self._caches.virtual["Node"].store.keys()]  # noqa: SIM118 -- a store, not a dict
        found += [Item(nodeports.KIND, item.key) for item in found if item.kind == "Service"]
        found += [
            Item(kind, key)
            for kind in ON_REFERENCE
            for key in self._caches.virtual[kind].store.keys()  # noqa: SIM118 -- a store, not a dict
            if self._references.refers(kind, key)
        ]
        return found

    def _host(self) -> list[Item]:
        nodes = list(self._caches.host["Node"].store.keys())
        found = [Item(kind, key) for kind in ("Node", drain.KIND) for key in nodes]
        for kind in self._caches.kinds:
            for meta in self._caches.host[kind].store.metas():
                item = self._caches.work_of(kind, meta)
                if item is not None:
                    found.append(item)
        return found
