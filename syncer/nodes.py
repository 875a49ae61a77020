"""The tenant's nodes: one virtual Node per host node of the pool, kept as the host's, cut to the GPUs that the tenant can have.

A virtual Node is made before a pod is bound to it, repaired when the tenant edits it, and removed when the host node leaves
the pool. Cordons, taints and labels of the tenant's own are kept beside the host's. Nodes that somebody else made in the plane
(without our platform label) are never touched.
"""

import asyncio
import logging
from typing import Final

from bulkhead.api import accelerators
from bulkhead.api import labels as marks
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Obj, uid_of, version_of
from bulkhead.kube.resources import NODES
from bulkhead.work.queue import Lane
from syncer import metrics
from syncer.logs import about
from syncer.translate import mergepatch
from syncer.translate.kinds import node as pure
from syncer.translate.kinds import nodemarks
from syncer.translate.kinds import podstatus as statuses
from syncer.watch.informers import Caches
from syncer.work import Item, Queue
from syncer.write.identity import PlaneIdentity

_log = logging.getLogger(__name__)

# Stands for all nodes whose share is another.
EVERY: Final = Item("Node", Key("", ""))
_SHARE_DELAY: Final = 0.5
_RISE_DELAY: Final = 0.3
_NOTHING: Final[tuple[str, dict[str, int]]] = ("", {})


class Nodes:
    """Reconciles virtual nodes."""

    def __init__(self, caches: Caches, queue: Queue, plane: Client, identity: PlaneIdentity) -> None:
        self._caches = caches
        self._queue = queue
        self._plane = plane
        self._identity = identity
        # As of the last time that they were counted and shared out.
        self._shares: pure.Shares = {}
        self._rooms: dict[str, pure.Room] = {}
        # Host nodes with an annotation that is not ours.
        self._unread: set[str] = set()
        self._made: set[str] = set()
        # Own host pods that ask for accelerators: where and what they hold by now.
        self._holders: dict[Key, tuple[str, dict[str, int]]] = {}
        self._turn = asyncio.Lock()

    def changed(self, change: Change) -> None:
        """A host node came, went or changed: where its room is another, every share may be."""
        name = change.key.name
        before = self._rooms.pop(name, None)
        host = None if change.kind == "deleted" else self._caches.host["Node"].store.get(change.key)
        readable = True
        if host is not None:
            self._rooms[name], readable = pure.room(host, self._caches.settings.gpu_resources)
        self._say(name, readable=readable)
        if self._rooms.get(name) != before:
            self._recount()

    def _say(self, name: str, *, readable: bool) -> None:
        if readable:
            self._unread.discard(name)
        elif name not in self._unread:
            self._unread.add(name)
            _log.warning("what pods hold on a host node cannot be read: taken for nothing", extra=about("Node", name))
        metrics.NODES_UNREAD.set(len(self._unread))

    def pod_changed(self, change: Change) -> None:
        """A host pod came, was bound, ended or went: what its node shows follows, not at once."""
        if not self._caches.settings.limits or (change.kind == "modified" and change.key not in self._holders):
            return
        before = self._holders.pop(change.key, _NOTHING)
        host = None if change.kind == "deleted" else self._caches.host["Pod"].store.get(change.key)
        resources = self._caches.settings.gpu_resources
        if host is not None and accelerators.requested(host, resources):
            self._holders[change.key] = accelerators.holds(host, resources)
        if self._holders.get(change.key, _NOTHING) != before:
            self._recount()

    def _recount(self) -> None:
        self._queue.add_after(EVERY, _SHARE_DELAY, Lane.BACKFILL)

    def _share_out(self) -> None:
        """Queue the nodes that have to show another share, those that lose something first: the sum should not swell."""
        before, self._shares = self._shares, self._count()
        for name, now in self._shares.items():
            was = before.get(name, {})
            if now != was:
                rises = all(count >= was.get(resource, 0) for resource, count in now.items())
                self._queue.add_after(Item("Node", Key("", name)), _RISE_DELAY if rises else 0.0, Lane.BACKFILL)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one node forward, or all whose share is another."""
        if key == EVERY.key:
            self._share_out()
            return None
        host = self._caches.host["Node"].store.get(key)
        virtual = self._caches.virtual["Node"].store.get(key)
        if host is None:
            await self._remove(key, virtual)
            return None
        desired = pure.to_virtual(host, self._caches.view(), self._share(key.name))
        if virtual is None:
            await self._make(desired)
            return None
        if marks.is_platforms(virtual) or key.name in self._made:
            await self._repair(virtual, desired)
        return None

    async def ensure(self, name: str) -> bool:
        """Make sure that a node exists before a pod is bound to it; False when the host does not show it to us."""
        key = Key("", name)
        if key in self._caches.virtual["Node"].store or name in self._made:
            return True
        async with self._turn:
            host = self._caches.host["Node"].store.get(key)
            if host is None:
                return False
            await self._make(pure.to_virtual(host, self._caches.view(), self._share(name)))
            return True

    def _share(self, name: str) -> dict[str, int]:
        """A node that came since the last count shows nothing, so that all of them together never show too much."""
        self._shares = self._shares or self._count()
        return self._shares.get(name, {})

    def _count(self) -> pure.Shares:
        limits = self._caches.settings.limits
        shown = {each: limits.get(each, 0) for each in self._caches.settings.gpu_resources}
        return pure.gpu_shares(self._rooms, shown, accelerators.by_node(self._holders.values()))

    async def _make(self, desired: Obj) -> None:
        name = desired["metadata"]["name"]
        metrics.virtual_write("Node", "create")
        try:
            made = await self._plane.create(NODES, {key: value for key, value in desired.items() if key != "status"})
        except AlreadyExists:
            made = await self._plane.get(NODES, name)
            if not marks.is_platforms(made):
                return
        self._made.add(name)
        status = {"metadata": {"uid": uid_of(made)}, "status": desired["status"]}
        made = await self._plane.patch(NODES, name, status, subresource="status")
        # The API server marks every new node not-ready; there is no node controller here that would take it away. What the
        # tenant marks on it at the same time stays.
        await self._repair(made, desired)
        _log.info("virtual node made", extra=about("Node", name))

    async def _repair(self, virtual: Obj, desired: Obj) -> None:
        name = desired["metadata"]["name"]
        labels = mergepatch.between((virtual["metadata"].get("labels") or {}), desired["metadata"]["labels"])
        # Labels that the tenant added stay; ours are set right.
        body: Obj = (
            {"metadata": {"labels": {key: value for key, value in labels.items() if value is not None}}}
            if any(labels.values())
            else {}
        )
        wanted, held = desired.get("spec") or {}, virtual.get("spec") or {}
        spec: Obj = {}
        notes: Obj = {}
        taints = nodemarks.settle_taints(virtual, wanted.get("taints") or ())
        if _plain(taints.taints) != (_plain(held.get("taints") or [])) or taints.note != nodemarks.noted_taints(virtual):
            spec["taints"] = taints.taints or None
            notes[marks.HOST_TAINTS] = taints.note
        found = nodemarks.settle(virtual, by_host=wanted.get("unschedulable") is True)
        if (found.unschedulable, found.note) != (held.get("unschedulable") is True, nodemarks.note(virtual)):
            spec["unschedulable"] = found.unschedulable or None
            notes[marks.CORDONED_BY] = found.note
        if spec:
            body["spec"] = spec
            # What the tenant did meanwhile must not be taken for the host's doing: a conflict, and the key comes again.
            meta = body.setdefault("metadata", {})
            meta |= {"annotations": notes, "resourceVersion": version_of(virtual)}
        if body:
            metrics.virtual_write("Node", "patch")
            await self._plane.patch(NODES, name, body)
        status = mergepatch.between(
            {key: (virtual.get("status") or {}).get(key) for key in desired["status"]}, desired["status"]
        )
        if status and not statuses.same(virtual.get("status"), (virtual.get("status") or {}) | desired["status"]):
            metrics.virtual_write("Node", "status")
            await self._plane.patch(NODES, name, {"status": status}, subresource="status")

    async def _remove(self, key: Key, virtual: Obj | None) -> None:
        if virtual is None or not marks.is_platforms(virtual):
            return
        if not self._caches.host["Node"].has_synced:
            return
        self._made.discard(key.name)
        metrics.virtual_write("Node", "delete")
        try:
            await self._plane.delete(NODES, key.name, uid=uid_of(virtual))
        except NotFound:
            return
        _log.info("virtual node removed", extra=about("Node", key))


def _plain(value: object) -> object:
    """Taints without the time at which they were added."""
    if not isinstance(value, list):
        return value
    plain = [
        {part: each[part] for part in ("key", "value", "effect") if each.get(part)} for each in value if isinstance(each, dict)
    ]
    return sorted(plain, key=lambda taint: (taint.get("key", ""), taint.get("effect", "")))
