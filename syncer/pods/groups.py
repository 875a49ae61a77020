"""Pods that wait for their PodGroup to be on the host: the group is created first, and its creation wakes them.

A pod that may not follow yet waits here under its group. When the group changes on either side its pods are tried again; the
slow retry of each key is the fallback. Only memory, no I/O; what a group must look like is `translate/kinds/podgroup.py`.
"""

from collections.abc import Iterable

from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Obj
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds import podgroup
from syncer.translate.references import POD_GROUP, group_of
from syncer.watch.informers import Caches, Subscription
from syncer.work import Item, Queue


class PodGroups:
    """Which pods wait for which group."""

    def __init__(self, caches: Caches, queue: Queue) -> None:
        self._caches = caches
        self._queue = queue
        self._waiting: dict[Key, dict[Key, None]] = {}
        self._group: dict[Key, Key] = {}

    def check(self, key: Key, virtual: Obj) -> None:
        """Raise the refusal where the pod's group is not on the host; the pod then waits for it."""
        self.forget(key)
        name = group_of(virtual)
        if not name:
            return
        group = Key(key.namespace, name)
        try:
            self._check(group, virtual)
        except Untranslatable:
            self._group[key] = group
            self._waiting.setdefault(group, {})[key] = None
            raise

    def _check(self, group: Key, virtual: Obj) -> None:
        if not self._caches.serves(POD_GROUP):
            raise Untranslatable(Reason.NOT_SUPPORTED, self._caches.unserved(POD_GROUP), "spec.schedulingGroup")
        own = self._caches.virtual[POD_GROUP].store.get(group)
        mirrored = self._caches.host[POD_GROUP].store.get(self._caches.host_key(POD_GROUP, group))
        podgroup.check_ready(virtual, own, mirrored)

    def forget(self, key: Key) -> None:
        """The pod runs, or is gone."""
        group = self._group.pop(key, None)
        if group is None:
            return
        waiting = self._waiting[group]
        del waiting[key]
        if not waiting:
            del self._waiting[group]

    def subscriptions(self) -> Iterable[Subscription]:
        """The groups of both sides."""
        return (
            Subscription("virtual", POD_GROUP, self.virtual_changed),
            Subscription("host", POD_GROUP, self.host_changed),
        )

    def virtual_changed(self, change: Change) -> None:
        """A virtual group changed."""
        self._wake(change.key)

    def host_changed(self, change: Change) -> None:
        """A host group changed."""
        who = self._caches.origin(change.meta)
        if who is not None and who.kind == POD_GROUP:
            self._wake(Key(who.namespace, who.name))

    def _wake(self, group: Key) -> None:
        for key in self._waiting.get(group, ()):
            self._queue.add(Item("Pod", key))
