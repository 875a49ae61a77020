"""Sends what has to change on a host pod that is there: the patches of `changes` in their order, or a deletion to recreate it.

    both unchanged since they were compared -> nothing
    host pod ahead of the virtual pod       -> nothing: the cache of the plane is behind, and its event comes
    node marks changed, no node yet         -> host pod deleted; the next reconcile creates it again
    gated, and asks for other nodes         -> the same
    bound by the tenant, no node yet        -> the same
    its group is gone, no node yet          -> the same; its virtual pod waits
    a better one needs its place            -> host pod deleted while it is gated; its virtual pod waits
    it would take more than there is room for-> nothing; an event on the tenant's pod
    anything else that differs              -> patches; a refusal of the host's is an event on the tenant's pod

An exact patch names the version that it is for, the next one the version that the one before left: where another wrote in
between, Conflict is raised, and the pod is reconciled again.
"""

from collections.abc import Sequence

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import key_of, uid_of, version_of
from bulkhead.kube.resources import PODS
from syncer.events import Recorder
from syncer.pods.changes import Changes, changes
from syncer.pods.expectations import Expectations
from syncer.pods.unchanged import Unchanged
from syncer.quota.extent import Extent
from syncer.quota.waiting import Starved
from syncer.translate import Untranslatable, diff
from syncer.translate.kinds import podstatus
from syncer.watch.informers import Caches
from syncer.write import refusals
from syncer.write.host import HostWriter
from syncer.write.plane import VirtualWriter


class PodPatches:
    """Brings a host pod up to its virtual pod: patches it, deletes it to recreate it, or leaves it."""

    def __init__(
        self,
        caches: Caches,
        host: HostWriter,
        virtual: VirtualWriter,
        *,
        unchanged: Unchanged,
        expectations: Expectations,
        starved: Starved,
        extent: Extent,
        recorder: Recorder,
    ) -> None:
        self._caches = caches
        self._host = host
        self._virtual = virtual
        self._unchanged = unchanged
        self._expectations = expectations
        self._starved = starved
        self._extent = extent
        self._recorder = recorder

    async def push(self, virtual: Obj, host: Obj) -> bool:
        """Patch the host pod to match the virtual pod; returns whether anything was written or refused."""
        pushed = False
        if not self._unchanged.nothing_to_patch(virtual, host):
            if diff.is_ahead(host, virtual) and await self._is_behind(virtual):
                return True
            try:
                found = changes(virtual, host, self._caches.view())
            except Untranslatable as refused:
                self._warn(virtual, refused)
                return True
            if found.recreate and await self._recreate(virtual, host):
                return True
            if found.refused is not None:
                self._warn(virtual, found.refused)
            if not self._has_room(virtual, host, found):
                return True
            if await self._apply(virtual, host, found.patches):
                self._starved.forget(key_of(virtual))
            if not found.patches and found.refused is None:
                self._unchanged.note_patched(virtual, host)
            pushed = bool(found.patches) or found.refused is not None
        gates = podstatus.readiness_to_host(virtual, host)
        if gates is not None:
            await self._apply(virtual, host, (diff.Patch(gates, "status"),))
        return pushed or gates is not None

    def _has_room(self, virtual: Obj, host: Obj, found: Changes) -> bool:
        """Whether there is room for what the patches add to a host pod; if not, it stays as it is and the tenant reads so."""
        if not found.patches:
            return True
        try:
            self._extent.claim_growth(key_of(host), found.labels, found.grows)
        except Untranslatable as refused:
            self._starved.add(key_of(virtual))
            self._warn(virtual, refused)
            return False
        return True

    async def _is_behind(self, virtual: Obj) -> bool:
        """Whether the plane now has another virtual pod; if not, it was restored from an older backup, and its spec counts."""
        fresh = await self._virtual.read(PODS, key_of(virtual))
        return fresh is None or version_of(fresh) != version_of(virtual)

    async def _recreate(self, virtual: Obj, host: Obj) -> bool:
        why = "cordons, taints or labels of nodes, the pool or the pod's node affinity changed before the pod was placed"
        return await self._anew(virtual, host, why)

    async def repin(self, virtual: Obj, host: Obj) -> bool:
        """Recreate a host pod that could be placed elsewhere than its virtual pod; False if nothing may be deleted."""
        return await self._anew(virtual, host, "the tenant bound the pod to a node before the host had placed it")

    async def regroup(self, virtual: Obj, host: Obj) -> bool:
        """Take back a host pod whose group is gone: it waits in the plane, and says so. False if nothing may be deleted."""
        return await self._anew(virtual, host, "its PodGroup is gone or another one, for which the pod waits in the plane")

    async def _anew(self, virtual: Obj, host: Obj, why: str) -> bool:
        """Delete a host pod so that it is created again; False where nothing may be deleted.

        The version is that of a pod without a node, so the scheduler that is faster wins.
        """
        self._expectations.expect_recreation(key_of(virtual), uid_of(host))
        return await self._host.delete(PODS, key_of(host), uid_of(host), grace=None, why=why, version=version_of(host))

    async def take_back(self, virtual: Obj, host: Obj) -> None:
        """Delete a host pod that holds nothing but a place in the queue, for a better one; its virtual pod waits in the plane.

        The version is that of a pod at the gate, so the ledger that is faster wins.
        """
        self._expectations.expect_recreation(key_of(virtual), uid_of(host))
        why = "a pod that comes before it needs its place in the quota"
        await self._host.delete(PODS, key_of(host), uid_of(host), grace=None, why=why, version=version_of(host))

    async def _apply(self, virtual: Obj, host: Obj, patches: Sequence[diff.Patch]) -> bool:
        """Write on this version of a host pod; False where the host refused a patch, of which the tenant gets an event."""
        refused = False
        for patch in patches:
            if refused and patch.last:
                continue
            written = await self._patch(virtual, host, patch)
            refused |= written is None
            host = written or host
        return not refused

    async def _patch(self, virtual: Obj, host: Obj, patch: diff.Patch) -> Obj | None:
        body = patch.body
        if patch.exact:
            body = body | {"metadata": body["metadata"] | {"resourceVersion": version_of(host)}}
        try:
            return await self._host.patch(
                PODS, key_of(host), body, subresource=patch.subresource, content_type=patch.content_type
            )
        except ApiError as error:
            refused = refusals.explain(error, key_of(virtual).name, "It is changed when enough is free.")
            if refused is None:
                raise
            if refusals.is_quota(refused):
                self._starved.add(key_of(virtual))
            self._warn(virtual, refused)
            return None

    def _warn(self, virtual: Obj, refused: Untranslatable) -> None:
        self._recorder.warn(virtual, str(refused.reason), str(refused))
