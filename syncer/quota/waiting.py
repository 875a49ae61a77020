"""Pods and claims for devices that the quota has no room for, and when to try them again.

What was refused waits here. When a host pod or claim goes or the quota's numbers change, the best are tried again, of equals
those that waited longest, a bounded number at once; the slow retry of each key is the fallback. Only memory, no I/O.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key
from syncer.quota.order import QueueOrder
from syncer.quota.ranked import Ranked
from syncer.translate.registry import KINDS
from syncer.watch.informers import Subscription
from syncer.work import Item, Queue

_AT_ONCE: Final = 64
# Of what has no priority.
_UNRANKED: Final[QueueOrder] = (0, 0, 0, "", "")


class Starved:
    """Keys that wait for quota, the best first."""

    def __init__(self, queue: Queue, *, quota: Callable[[Key], Obj | None]) -> None:
        self._queue = queue
        self._quota = quota
        # By quota, as last seen.
        self._numbers: dict[Key, int] = {}
        self._waiting: Final[Ranked[Item]] = Ranked()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key, kind: str = "Pod", rank: QueueOrder = _UNRANKED) -> None:
        """There was no room for this pod, or object of another kind."""
        self._waiting.set(Item(kind, key), rank)

    def forget(self, key: Key, kind: str = "Pod") -> None:
        """It is there, or gone."""
        self._waiting.discard(Item(kind, key))

    def subscriptions(self) -> Iterable[Subscription]:
        """The host's quotas, and its copies of the kinds whose devices are counted."""
        counted = (Subscription("host", kind, self.gone) for kind, translation in KINDS.items() if translation.counted)
        return (*counted, Subscription("host", "ResourceQuota", self.counted))

    def room(self, _change: Change) -> None:
        """Something on the host changed that may have made room."""
        for item in self._waiting.best(_AT_ONCE):
            self._queue.add(item)

    def counted(self, change: Change) -> None:
        """A quota changed: what the ledger notes on it, time and again, makes no room."""
        quota = self._quota(change.key) or {}
        numbers = hash(msgspec.json.encode([mapping(quota.get("spec")).get("hard"), quota.get("status")], order="sorted"))
        if self._numbers.get(change.key) != numbers:
            self._numbers[change.key] = numbers
            self.room(change)

    def gone(self, change: Change) -> None:
        """A host pod or claim changed: only its end makes room."""
        if change.kind == "deleted":
            self.room(change)
