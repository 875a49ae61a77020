"""Pods that wait in the plane for room in the quota, and for each resource the best of them. Only memory."""

from typing import Final

from bulkhead.kube.objects import Key
from syncer.quota.order import Entry
from syncer.quota.ranked import Ranked


class Heads:
    """See the module."""

    def __init__(self) -> None:
        self._waiting: Final[dict[Key, Entry]] = {}
        self._lines: Final[dict[str, Ranked[Key]]] = {}

    def get(self, key: Key) -> Entry | None:
        """A pod that waits."""
        return self._waiting.get(key)

    def add(self, entry: Entry) -> None:
        """Have a pod wait, or wait for what it asks for now."""
        self.discard(entry.key)
        self._waiting[entry.key] = entry
        for name in entry.asks:
            self._lines.setdefault(name, Ranked()).set(entry.key, entry.rank)

    def discard(self, key: Key) -> None:
        """It does not wait any more."""
        entry = self._waiting.pop(key, None)
        for name in entry.asks if entry is not None else ():
            self._lines[name].discard(key)

    def first(self, resource: str) -> Entry | None:
        """The best of those that wait for a resource."""
        line = self._lines.get(resource)
        key = None if line is None else line.first()
        return None if key is None else self._waiting[key]
