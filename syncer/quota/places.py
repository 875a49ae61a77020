"""Where each of the tenant's gated pods is: on the host, on its way there, or waiting in the plane, and why. Only memory.

    on the host                 as the host shows it; by workload, the worst first, those that may give their place
    in the plane    OPEN        let onto the host, which does not show it yet
                    WAITS       there is no room
                    BEHIND      there may be room, and a better one waits for it
                    BEYOND      requests more than can ever be in use: waits for nothing, but counts as a member of its gang

A pod has one place in the plane or none; besides it there may be a host pod of the same key that belongs to its predecessor.
Methods that move a pod return the pods to try again.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from enum import Enum, auto
from typing import Final

from bulkhead.api.workloads import WorkloadKey, workload_key
from bulkhead.kube.objects import Key
from syncer.quota.gangs import Gangs
from syncer.quota.heads import Head, Heads
from syncer.quota.order import Gang, QueuedPod, QueueOrder
from syncer.quota.podset import PodSet
from syncer.quota.ranked import Ranked
from syncer.quota.verdict import Others

AT_ONCE: Final = 64


class Place(Enum):
    """Where a pod is in the plane."""

    OPEN = auto()
    WAITS = auto()
    BEHIND = auto()
    BEYOND = auto()


_WAITING: Final = frozenset({Place.WAITS, Place.BEHIND})


class Places:
    """See the module."""

    def __init__(self) -> None:
        self._hosted: Final[dict[Key, QueuedPod]] = {}
        self._workloads: Final[dict[WorkloadKey, PodSet]] = {}
        self._order: Final[Ranked[WorkloadKey]] = Ranked()
        self._places: Final[dict[Key, tuple[Place, QueuedPod]]] = {}
        self._waiting: Final = Heads()
        self._behind: Final[Ranked[Key]] = Ranked()
        self._gangs: Final = Gangs()
        # The number of changes to the set of pods on the host.
        self.changes = 0

    # -- on the host

    def hosted(self, key: Key) -> QueuedPod | None:
        """The pod that the host shows."""
        return self._hosted.get(key)

    def show(self, entry: QueuedPod) -> list[Key]:
        """The host shows a pod, or a change of it."""
        self._unhost(entry.key)
        self._hosted[entry.key] = entry
        self._workloads.setdefault(entry.workload, PodSet()).add(entry)
        if entry.gang is None:
            self._order.set(entry.workload, entry.rank)
        return self._count(entry.key)

    def hide(self, key: Key) -> list[Key]:
        """The host no longer shows the pod."""
        self._unhost(key)
        return self._count(key)

    def worst_first(self, *, but: WorkloadKey) -> Iterator[tuple[QueueOrder, PodSet]]:
        """The other workloads on the host, and their ranks."""
        return ((rank, self._workloads[workload]) for workload, rank in self._order.worst_first() if workload != but)

    def _unhost(self, key: Key) -> None:
        self.changes += 1
        entry = self._hosted.pop(key, None)
        if entry is None:
            return
        workload = self._workloads[entry.workload]
        workload.discard(key)
        if not workload:
            del self._workloads[entry.workload]
            self._order.discard(entry.workload)

    # -- in the plane

    def put(self, entry: QueuedPod, place: Place) -> list[Key]:
        """A pod has this place now."""
        waited = entry.key in self._waiting
        self._places[entry.key] = place, entry
        self._behind.discard(entry.key)
        if place is Place.BEHIND:
            self._behind.set(entry.key, entry.rank)
        if place in _WAITING:
            self._waiting.add(entry)
            if entry.gang is None:
                self._waiting.rank(entry.workload, entry.rank)
            return self._count(entry.key)
        self._waiting.discard(entry.key)
        return [*self._count(entry.key), *(self._next() if waited else ())]

    def leave(self, key: Key) -> list[Key]:
        """The pod no longer has a place in the plane."""
        waited = key in self._waiting
        self._places.pop(key, None)
        self._waiting.discard(key)
        self._behind.discard(key)
        return [*self._count(key), *(self._next() if waited else ())]

    def refuse(self, key: Key, word: Gang) -> list[Key]:
        """Refuse a pod that contradicts its gang: it has no place until the gang changes."""
        again = self.leave(key)
        self._gangs.is_odd(key, word)
        return again

    def opened(self, key: Key) -> QueuedPod | None:
        """The pod that was let onto the host and is not shown by it."""
        place, entry = self._places.get(key, (None, None))
        return entry if place is Place.OPEN else None

    def heads(self, entry: QueuedPod) -> list[Head]:
        """The best that wait for what a pod asks for."""
        return [head for name in entry.asks if (head := self._waiting.first(name)) is not None]

    def _next(self) -> list[Key]:
        """The pods that waited behind another one; if that goes, there may be room for the best of them."""
        found = self._behind.best(AT_ONCE)
        for waiter in found:
            self._behind.discard(waiter)
        return found

    # -- gangs

    def others(self, entry: QueuedPod) -> AbstractContextManager[Others]:
        """The other pods of a pod's gang, as long as nothing is changed."""
        return self._gangs.without(entry)

    def gang_of(self, entry: QueuedPod) -> Others:
        """All pods of a pod's gang, as they change."""
        return self._gangs.of(entry)

    def _count(self, key: Key) -> list[Key]:
        place, entry = self._places.get(key, (None, None))
        is_open, before = place is Place.OPEN, self._gangs.names(key)
        on_host = self._hosted.get(key) or (entry if is_open else None)
        again = self._gangs.place(key, on_host, None if is_open else entry)
        for name in dict.fromkeys((*before, *self._gangs.names(key))):
            workload, rank = workload_key("", name.namespace, gang=name.name, pod=""), self._gangs.rank(name)
            self._waiting.rank(workload, rank)
            if workload in self._workloads and self._order.set(workload, rank):
                self.changes += 1
        return again
