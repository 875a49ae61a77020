"""The tenant's nodes: one virtual Node per host node of the pool, kept as the host's, cut to the GPUs that the tenant can have.

A virtual Node is made before a pod is bound to it, repaired when the tenant edits it, and removed when the host node leaves
the pool, which only a read of the host proves. Cordons, taints and labels of the tenant's own are kept beside the host's
(`nodepatch`). Nodes that the tenant made (without our platform label) are never touched. `quota.shares` decides how many of
the limited devices each node shows.
"""

import asyncio
import logging
from typing import Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound
from bulkhead.kube.objects import Key, uid_of
from bulkhead.kube.resources import NODES
from syncer import metrics
from syncer.logs import about
from syncer.quota.shares import EVERY, NodeShares
from syncer.translate.kinds import node, nodepatch
from syncer.watch.informers import Caches
from syncer.write.budget import WriteBudget

_log = logging.getLogger(__name__)

_BEHIND_SECONDS: Final = 1.0


class Nodes:
    """Reconciles virtual nodes."""

    def __init__(self, caches: Caches, plane: Client, host: Client, shares: NodeShares, budget: WriteBudget) -> None:
        self._caches = caches
        self._plane = plane
        self._host = host
        self._shares = shares
        self._budget = budget
        self._made: set[str] = set()
        # Whether the plane's API server keeps what nodes declare. One before 1.36 drops it, and would be told again and again.
        self._keeps_features = True
        self._turn = asyncio.Lock()

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one node, or queue all whose share is another."""
        if key == EVERY.key:
            self._shares.share_out()
            return None
        host = self._caches.host["Node"].store.get(key)
        virtual = self._caches.virtual["Node"].store.get(key)
        if host is None:
            return await self._remove(key, virtual)
        desired = self._desired(host, key.name)
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
            await self._make(self._desired(host, name))
            return True

    def _desired(self, host: Obj, name: str) -> Obj:
        desired = node.to_virtual(host, self._caches.view(), self._shares.of(name))
        if not self._keeps_features:
            del desired["status"][node.FEATURES]
        return desired

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
        made = await self._write_status(name, status)
        # The API server marks every new node not-ready; there is no node controller here that would take it away. What the
        # tenant marks on it at the same time stays.
        await self._repair(made, desired)
        _log.info("virtual node made", extra=about("Node", name))

    async def _repair(self, virtual: Obj, desired: Obj) -> None:
        name = desired["metadata"]["name"]
        body = nodepatch.object_patch(virtual, desired)
        if body:
            metrics.virtual_write("Node", "patch")
            await self._plane.patch(NODES, name, body)
        status = nodepatch.status_patch(virtual, desired)
        if status:
            metrics.virtual_write("Node", "status")
            await self._write_status(name, {"status": status})

    async def _write_status(self, name: str, body: Obj) -> Obj:
        written = await self._plane.patch(NODES, name, body, subresource="status")
        if body["status"].get(node.FEATURES) and not mapping(written.get("status")).get(node.FEATURES):
            self._keeps_features = False
        return written

    async def _remove(self, key: Key, virtual: Obj | None) -> float | None:
        if virtual is None or not marks.is_platforms(virtual) or not self._caches.host["Node"].has_synced:
            return None
        # The plane deletes the pods of a node that is missing, and the cache may stand still. A tenant can make nodes with our
        # label as fast as it likes, and each has the host asked.
        await self._budget.take_read()
        there = await self._host.list(NODES, label_selector=self._caches.pool, field_selector=f"metadata.name={key.name}")
        if there.items:
            return _BEHIND_SECONDS
        self._made.discard(key.name)
        metrics.virtual_write("Node", "delete")
        try:
            await self._plane.delete(NODES, key.name, uid=uid_of(virtual))
        except NotFound:
            return None
        _log.info("virtual node removed", extra=about("Node", key))
        return None
