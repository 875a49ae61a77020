"""How host pods were when the host's watch reported their end, for the reconcile that comes after it.

    host pod gone in an event ──> as the event has it, with a status and a reclaim that no reconcile may have seen
    missing in a list         ──> as the copy had it

A pod may be marked, end and be gone within one turn of its key, and then the copy has nothing left to report. Only memory: what
is forgotten, or went while the syncer was away, is not known.
"""

from collections.abc import Iterable
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import PODS
from bulkhead.kube.store import Entry, Store
from syncer.translate.origin import virtual_uid
from syncer.watch.informers import Subscription

# More than one line of a watch may be, so that any pod can be kept; usually a thousand pods and more.
_MOST_BYTES: Final = 16 * 1024 * 1024


class LastPods:
    """The host pods that have gone lately, by their key on the host."""

    def __init__(self) -> None:
        self._pods = Store(PODS, {}, max_bytes=_MOST_BYTES, rolling=True)

    def subscriptions(self) -> Iterable[Subscription]:
        """The host's pods."""
        return (Subscription("host", "Pod", self.changed),)

    def changed(self, change: Change) -> None:
        """Keep a pod that went; another one of its name takes its place."""
        if change.kind == "deleted" and change.last:
            self._pods.put(Entry(change.meta, bytes(change.last)))
        elif change.kind == "added":
            self._pods.drop(change.key)

    def of(self, host_key: Key, virtual: str) -> Obj | None:
        """The host pod of this virtual UID as it was last; None if that is not known, or if it never had a node."""
        last = self._pods.get(host_key)
        return last if last is not None and placed_on(last) and virtual_uid(last) == virtual else None

    def forget(self, host_key: Key) -> None:
        """Its end was reported."""
        self._pods.drop(host_key)
