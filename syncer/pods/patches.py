"""What may still change on a pod, on its way down: patches of the host pod in their order, or a host pod made anew.

    both unchanged since they were compared -> nothing
    host pod ahead of the virtual pod       -> nothing: the cache of the plane is behind, and its event comes
    node marks changed, no node yet         -> host pod deleted; the next look makes it anew
    anything else that differs              -> patches; a refusal of the host's is told on the tenant's pod

An exact patch names the version that it is for, the next one the version that the one before left: where somebody else wrote in
between, Conflict is raised, and the pod is looked at again.
"""

from collections.abc import Sequence

from bulkhead.api.podphase import placed_on
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Obj, key_of, uid_of, version_of
from bulkhead.kube.resources import PODS
from syncer.events import Recorder
from syncer.pods.expectations import Expectations
from syncer.pods.unchanged import Unchanged
from syncer.quota.waiting import Starved
from syncer.translate import Untranslatable, diff
from syncer.translate.kinds import pod
from syncer.translate.kinds import podstatus as statuses
from syncer.translate.podspec import placement
from syncer.watch.informers import Caches
from syncer.write import refusals
from syncer.write.host import HostWriter
from syncer.write.plane import VirtualWriter


class PodPatches:
    """See the module."""

    def __init__(
        self,
        caches: Caches,
        host: HostWriter,
        virtual: VirtualWriter,
        *,
        unchanged: Unchanged,
        expectations: Expectations,
        starved: Starved,
        recorder: Recorder,
    ) -> None:
        self._caches = caches
        self._host = host
        self._virtual = virtual
        self._unchanged = unchanged
        self._expectations = expectations
        self._starved = starved
        self._recorder = recorder

    async def push(self, virtual: Obj, host: Obj) -> bool:
        """Carry what changed down; whether anything was written, or could not be."""
        pushed = False
        if not self._unchanged.nothing_to_patch(virtual, host):
            if diff.is_ahead(host, virtual) and await self._is_behind(virtual):
                return True
            desired = self._desired(virtual, host)
            if desired is None or await self._recreate(desired, virtual, host):
                return True
            late = self._late(virtual, host)
            if late is None:
                _keep_generation(desired, host)
            changes = diff.pod_patches(desired, host, late or ())
            if await self._apply(virtual, host, changes):
                self._starved.forget(key_of(virtual))
            if not changes and late is not None:
                self._unchanged.note_patched(virtual, host)
            pushed = bool(changes) or late is None
        gates = statuses.readiness_to_host(virtual, host)
        if gates is not None:
            await self._apply(virtual, host, (diff.Patch(gates, "status"),))
        return pushed or gates is not None

    async def _is_behind(self, virtual: Obj) -> bool:
        """Whether the plane has another virtual pod by now; if not, it is back from an older backup, and means what it says."""
        fresh = await self._virtual.read(PODS, key_of(virtual))
        return fresh is None or version_of(fresh) != version_of(virtual)

    def _desired(self, virtual: Obj, host: Obj) -> Obj | None:
        """The host pod that should be there."""
        try:
            return pod.for_patch(virtual, host, self._caches.view())
        except Untranslatable as refused:
            self._recorder.warn(virtual, str(refused.reason), str(refused))
            return None

    def _late(self, virtual: Obj, host: Obj) -> list[Obj] | None:
        """Ephemeral containers to add, which no create may have; None where one is refused, which stops nothing else."""
        if not (virtual.get("spec") or {}).get("ephemeralContainers"):
            return []
        there = [each.get("name") for each in (host.get("spec") or {}).get("ephemeralContainers") or ()]
        try:
            return pod.ephemeral_containers(virtual, self._caches.view(), there)
        except Untranslatable as refused:
            self._recorder.warn(virtual, str(refused.reason), str(refused))
            return None

    async def _recreate(self, desired: Obj, virtual: Obj, host: Obj) -> bool:
        """Delete a host pod that was made when the tenant's own marks on nodes were others, or its pool, unless it is placed.

        The version is that of a pod without a node, so the scheduler that is faster wins. A pod that something on the host
        holds with a finalizer is left alone: it would be seen as deleted by the host.
        """
        if placed_on(virtual) or placed_on(host) or host["metadata"].get("finalizers"):
            return False
        if placement.digest_of(desired) == placement.digest_of(host) and not placement.in_another_pool(desired, host):
            return False
        self._expectations.expect_recreation(key_of(virtual), uid_of(host))
        why = "nodes were cordoned, tainted or labelled above, or the pool became another, before it was placed"
        return await self._host.delete(PODS, key_of(host), uid_of(host), grace=None, why=why, version=version_of(host))

    async def _apply(self, virtual: Obj, host: Obj, changes: Sequence[diff.Patch]) -> bool:
        """Write on a host pod as it was looked at; False where the host refused one of them, which the tenant is told."""
        refused = False
        for change in changes:
            if refused and change.last:
                continue
            written = await self._patch(virtual, host, change)
            refused |= written is None
            host = written or host
        return not refused

    async def _patch(self, virtual: Obj, host: Obj, change: diff.Patch) -> Obj | None:
        body = change.body
        if change.exact:
            body = body | {"metadata": body["metadata"] | {"resourceVersion": version_of(host)}}
        try:
            return await self._host.patch(
                PODS, key_of(host), body, subresource=change.subresource, content_type=change.content_type
            )
        except ApiError as error:
            refused = refusals.explain(error, key_of(virtual).name, "It is changed when enough is free.")
            if refused is None:
                raise
            if refusals.is_quota(refused):
                self._starved.add(key_of(virtual))
            self._recorder.warn(virtual, str(refused.reason), str(refused))
            return None


def _keep_generation(desired: Obj, host: Obj) -> None:
    """Leave the note of a generation as it is on the host pod, which lacks something of what the newer one asks for."""
    notes, noted = desired["metadata"]["annotations"], (host["metadata"].get("annotations") or {}).get(pod.GENERATION)
    if noted is None:
        notes.pop(pod.GENERATION, None)
    else:
        notes[pod.GENERATION] = noted
