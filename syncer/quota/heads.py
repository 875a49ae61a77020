"""Pods that wait in the plane for room in the quota, and for each resource the best of them. Only memory.

The best is asked for at every try of every pod, so it is the head of a heap; entries that are not waiting any more are dropped
when they come to its head, or when they are more than those that wait.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from bulkhead.kube.objects import Key
from syncer.quota.order import Entry, Rank

_SPARE: Final = 64


class Heads:
    """See the module."""

    def __init__(self) -> None:
        self._waiting: dict[Key, Entry] = {}
        self._heaps: dict[str, list[tuple[Rank, Key]]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._waiting.values())

    def get(self, key: Key) -> Entry | None:
        """A pod that waits."""
        return self._waiting.get(key)

    def add(self, entry: Entry) -> None:
        """Have a pod wait."""
        if self._waiting.get(entry.key) == entry:
            return
        self._waiting[entry.key] = entry
        for name in entry.asks:
            heap = self._heaps.setdefault(name, [])
            heapq.heappush(heap, (entry.rank, entry.key))
            if len(heap) > 2 * len(self._waiting) + _SPARE:
                heap[:] = [(each.rank, each.key) for each in self if name in each.asks]
                heapq.heapify(heap)

    def pop(self, key: Key) -> bool:
        """It does not wait any more; whether it did."""
        return self._waiting.pop(key, None) is not None

    def first(self, resource: str) -> Entry | None:
        """The best of those that wait for a resource."""
        heap = self._heaps.get(resource, [])
        while heap:
            rank, key = heap[0]
            entry = self._waiting.get(key)
            if entry is not None and entry.rank == rank and resource in entry.asks:
                return entry
            heapq.heappop(heap)
        return None
