"""What a pod's place in a gang and at the ledger's gate depends on, and the pods that wait for it: groups, claims for devices.

    pod to be made ──> `around`: the groups and claims that it names, as the caches have them ──> translation
                  └──> `check`: a group that is mirrored has to be on the host first

A pod that may not follow yet waits here under what it names. When that changes on either side its pods are tried again; the
slow retry of each key is the fallback. A pod that is on the host and has no node stays here under its group: a group may go
just before its first pod is seen on either side, and the host's scheduler says nothing of a pod whose group is not there. The
ledger knows a gang by its group's UID: pods that wait as members of an earlier group would never be whole with later ones.

Where the host serves no PodGroups and the ledger holds gangs together, none is awaited there. Only memory, no I/O; what a group
must look like is `translate/kinds/podgroup.py`, what a gang is `kinds/gang.py`.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from bulkhead.api import deviceclaims, ledger
from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key
from syncer.translate import Reason, Untranslatable, podgroupapi
from syncer.translate.kinds import deviceclaim, gang, podgroup
from syncer.translate.kinds.gate import Around, may_be_taken_back
from syncer.translate.references import POD_GROUP
from syncer.watch.informers import Caches, Subscription
from syncer.work import Item, Queue

_KINDS: Final = (POD_GROUP, gang.OWN_GROUP, deviceclaim.KIND)


class PodGroups:
    """Which pods wait for which group or claim."""

    def __init__(self, caches: Caches, queue: Queue) -> None:
        self._caches = caches
        self._queue = queue
        self._waiting: dict[Item, dict[Key, None]] = {}
        self._named: dict[Key, tuple[Item, ...]] = {}
        # The gang under which a pod waits at the ledger's gate.
        self._gangs: dict[Key, str] = {}

    def around(self, key: Key, virtual: Obj) -> Around:
        """The groups and claims that the pod names now. A change of them retries the pod, until it is forgotten."""
        self.forget(key)
        named = tuple(self._names(key, virtual))
        self._register(key, named)
        return Around(self._groups(named), self._asks_by_claim(named))

    def _groups(self, named: Iterable[Item]) -> gang.Groups:
        held = {item.kind: self._caches.virtual[item.kind].store.get(item.key) for item in named}
        own = self._caches.virtual.get(gang.OWN_GROUP)
        return gang.Groups(
            upstream=held.get(POD_GROUP),
            own=held.get(gang.OWN_GROUP),
            serves_own=own is not None and own.has_synced and own.served,
            mirrored=self._on_host(),
        )

    def check(self, key: Key, virtual: Obj) -> None:
        """Raise a refusal if the pod's group must be on the host and is not."""
        name = podgroupapi.named(virtual)
        if not name:
            return
        if not self._caches.serves(POD_GROUP):
            if gang.offered(self._caches.view()) and not self._on_host():
                return
            raise Untranslatable(Reason.NOT_SUPPORTED, self._caches.unserved(POD_GROUP), "spec.schedulingGroup")
        group = Key(key.namespace, name)
        own = self._caches.virtual[POD_GROUP].store.get(group)
        mirrored = self._caches.host[POD_GROUP].store.get(self._caches.host_key(POD_GROUP, group))
        podgroup.check_ready(virtual, own, mirrored)

    def follow(self, key: Key, virtual: Obj, host: Obj | None = None) -> None:
        """The pod is on the host, as `host` if that has been seen, and has no node yet: a change of its group queues it."""
        self.forget(key)
        named = ((POD_GROUP, podgroupapi.named(virtual)), (gang.OWN_GROUP, gang.own_group_of(virtual)))
        items = (Item(kind, Key(key.namespace, name)) for kind, name in named if name and kind in self._caches.virtual)
        self._register(key, tuple(items))
        if key in self._named and host is not None and may_be_taken_back(host):
            self._gangs[key] = text(mapping(host["metadata"].get("annotations")).get(ledger.GANG))

    def lost(self, key: Key) -> Item | None:
        """The group of a pod that is on the host and has no node, if it would not be sent there now; None if it would.

        A copy on the host that is missing is made again under its name. One that ends, or is of an earlier group, makes place
        for the present one only once no pod of the host names it.
        """
        for item in self._named.get(key, ()):
            if (item.kind == POD_GROUP and self._is_lost(item.key)) or self._is_of_earlier(key, item):
                return item
        return None

    def is_absent(self, group: Item) -> bool:
        """Whether the plane's group is missing as far as the cache shows; only a read proves that."""
        return self._caches.virtual[group.kind].store.meta(group.key) is None

    def _is_of_earlier(self, key: Key, group: Item) -> bool:
        """Whether the pod waits at the ledger's gate as a member of an earlier group of this name."""
        noted, watched = self._gangs.get(key), self._caches.virtual[group.kind]
        if not noted or not (watched.has_synced and watched.served):
            return False
        own, virtual = watched.store.meta(group.key), self._caches.virtual_pod(key)
        if own is None or virtual is None or noted == gang.name_of(group.key.name, own.uid):
            return False
        # It may be of another gang than of this group's, which has no minimum.
        try:
            now = gang.of_pod(virtual, self._caches.view(), self._groups(self._named[key]))
        except Untranslatable:
            return False
        return now is None or now.name != noted

    def _is_lost(self, group: Key) -> bool:
        watched = self._caches.virtual[POD_GROUP]
        if not (watched.has_synced and watched.served):
            return False
        own = watched.store.meta(group)
        if own is None:
            return True
        if not self._on_host():
            return False
        copy = self._caches.host[POD_GROUP].store.meta(self._caches.host_key(POD_GROUP, group))
        return copy is not None and (copy.deleting or (copy.labels or {}).get(marks.VIRTUAL_UID) != own.uid)

    def _register(self, key: Key, named: tuple[Item, ...]) -> None:
        if named:
            self._named[key] = named
        for item in named:
            self._waiting.setdefault(item, {})[key] = None

    def _names(self, key: Key, virtual: Obj) -> Iterator[Item]:
        """The groups and claims that a pod names, of kinds that are watched."""
        found = [(POD_GROUP, podgroupapi.named(virtual)), (gang.OWN_GROUP, gang.own_group_of(virtual))]
        if self._caches.view().gated_resources:
            found += [(deviceclaim.KIND, name) for name in deviceclaim.named_by(virtual)]
        return (Item(kind, Key(key.namespace, name)) for kind, name in found if name and kind in self._caches.virtual)

    def _on_host(self) -> bool:
        """Whether the host is known to serve PodGroups."""
        return POD_GROUP in self._caches.host and self._caches.host[POD_GROUP].served

    def _asks_by_claim(self, named: Iterable[Item]) -> bool:
        gated, stands_for = self._caches.view().gated_resources, self._caches.settings.device_class_resources
        found = False
        for item in named:
            if item.kind != deviceclaim.KIND:
                continue
            claim = self._caches.virtual[item.kind].store.get(item.key)
            if claim is None:
                # Without it, it is unknown whether the pod has to wait for the ledger.
                raise Untranslatable(
                    Reason.REFERENCE_MISSING, f"waiting for the claim {item.key.name!r}", "spec.resourceClaims"
                )
            found = found or not gated.isdisjoint(deviceclaims.charged(claim, stands_for))
        return found

    def forget(self, key: Key) -> None:
        """The pod has a node, or is gone."""
        self._gangs.pop(key, None)
        for item in self._named.pop(key, ()):
            waiting = self._waiting[item]
            waiting.pop(key, None)
            if not waiting:
                del self._waiting[item]

    def subscriptions(self) -> Iterable[Subscription]:
        """The groups of both sides, and the plane's claims."""
        yield from (Subscription("virtual", kind, partial(self.virtual_changed, kind)) for kind in _KINDS)
        yield Subscription("host", POD_GROUP, self.host_changed)

    def virtual_changed(self, kind: str, change: Change) -> None:
        """A virtual group or claim changed."""
        self._wake(Item(kind, change.key))

    def host_changed(self, change: Change) -> None:
        """A host group changed."""
        identity = self._caches.origin(change.meta)
        if identity is not None and identity.kind == POD_GROUP:
            self._wake(Item(POD_GROUP, Key(identity.namespace, identity.name)))

    def _wake(self, named: Item) -> None:
        for key in self._waiting.get(named, ()):
            self._queue.add(Item("Pod", key))
