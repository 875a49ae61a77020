"""Pods and claims for devices that the quota has no room for, and when to try them again.

What was refused waits here. When a host pod or claim goes or the quota's numbers change, those that waited longest are tried
again, a bounded number at once; the slow retry of each key is the fallback. Only memory, no I/O.
"""

from collections.abc import Iterable
from typing import Final

from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key
from syncer.translate.registry import KINDS
from syncer.watch.informers import Subscription
from syncer.work import Item, Queue

_AT_ONCE: Final = 64


class Starved:
    """Keys that wait for quota, longest waiting first."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._waiting: dict[Item, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key, kind: str = "Pod") -> None:
        """There was no room for this pod, or object of another kind."""
        self._waiting.setdefault(Item(kind, key))

    def forget(self, key: Key, kind: str = "Pod") -> None:
        """It is there, or gone."""
        self._waiting.pop(Item(kind, key), None)

    def subscriptions(self) -> Iterable[Subscription]:
        """The host's quotas, and its copies of the kinds whose devices are counted."""
        counted = (Subscription("host", kind, self.gone) for kind, each in KINDS.items() if each.counted)
        return (*counted, Subscription("host", "ResourceQuota", self.room))

    def room(self, _change: Change) -> None:
        """Something on the host changed that may have made room."""
        if not self._waiting:
            return
        for item in list(self._waiting)[:_AT_ONCE]:
            self._queue.add(item)

    def gone(self, change: Change) -> None:
        """A host pod or claim changed: only its end makes room."""
        if change.kind == "deleted":
            self.room(change)
