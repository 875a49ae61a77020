"""Workloads that wait in the plane for room in the quota, and for each resource the best of them. Only memory.

A gang waits with those of its pods that do, and comes where its best pod does, wherever that one is.
"""

from dataclasses import dataclass
from typing import Final

from bulkhead.api.workloads import WorkloadKey
from bulkhead.kube.objects import Key
from syncer.quota.order import QueuedPod, QueueOrder
from syncer.quota.podset import PodSet
from syncer.quota.ranked import Ranked


@dataclass(frozen=True, slots=True)
class Head:
    """The best workload of those that wait for a resource, and the best of its pods that do."""

    workload: WorkloadKey
    rank: QueueOrder
    key: Key


class Heads:
    """See the module."""

    def __init__(self) -> None:
        self._waiting: Final[dict[Key, QueuedPod]] = {}
        self._workloads: Final[dict[WorkloadKey, PodSet]] = {}
        self._lines: Final[dict[str, Ranked[WorkloadKey]]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    def add(self, entry: QueuedPod) -> None:
        """Have a pod wait, or wait for what it asks for now; where its workload comes, `rank` is told next."""
        self.discard(entry.key)
        self._waiting[entry.key] = entry
        self._workloads.setdefault(entry.workload, PodSet()).add(entry)

    def discard(self, key: Key) -> None:
        """The workload no longer waits."""
        entry = self._waiting.pop(key, None)
        if entry is None:
            return
        pods = self._workloads[entry.workload]
        pods.discard(key)
        for name in entry.asks.keys() - pods.asked_for():
            if name in self._lines:
                self._lines[name].discard(entry.workload)
        if not pods:
            del self._workloads[entry.workload]

    def rank(self, workload: WorkloadKey, rank: QueueOrder) -> None:
        """Have a workload, if any of it waits, come there."""
        pods = self._workloads.get(workload)
        for name in pods.asked_for() if pods is not None else ():
            self._lines.setdefault(name, Ranked()).set(workload, rank)

    def first(self, resource: str) -> Head | None:
        """The best of those that wait for a resource."""
        found = self._lines[resource].first() if resource in self._lines else None
        best = self._workloads[found[0]].first() if found is not None else None
        return None if found is None or best is None else Head(*found, best.key)
