"""Creates the host pod of a virtual pod: what it needs first, then the pod, or the refusal as the tenant reads it.

    runtime class known -> translated -> group on the host -> ConfigMaps and Secrets on the host -> room and devices claimed
                        -> created

From the moment before the request on, the host pod may exist whether or not an answer comes (`Expectations`).
"""

import logging
from typing import Final

from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.kube.resources import PODS
from syncer import metrics
from syncer.events import Recorder
from syncer.logs import about
from syncer.mirrors.classes import HostClasses
from syncer.mirrors.reconcile import Mirrors
from syncer.mirrors.references import ReferenceIndex
from syncer.pods.expectations import Expectations
from syncer.pods.groups import PodGroups
from syncer.pods.unchanged import Unchanged
from syncer.quota.claims import Claims
from syncer.quota.extent import Extent
from syncer.quota.hostqueue import HostQueue
from syncer.quota.waiting import Starved
from syncer.tracing import Untraced
from syncer.translate import Reason, TenantView, Untranslatable, diff
from syncer.translate.kinds import pod
from syncer.translate.podspec import placement, scheduling, tolerations, users
from syncer.watch.informers import Caches
from syncer.work import Again, Item, Stale
from syncer.write import refusals
from syncer.write.host import HostWriter
from syncer.write.plane import VirtualWriter

_log = logging.getLogger(__name__)

_RETRY_QUOTA: Final = 30.0
_RETRY_REFUSED: Final = 600.0


class PodCreation:
    """Creates host pods, and reports on the virtual pod what keeps one from being created."""

    def __init__(
        self,
        caches: Caches,
        host: HostWriter,
        virtual: VirtualWriter,
        *,
        mirrors: Mirrors,
        references: ReferenceIndex,
        starved: Starved,
        groups: PodGroups,
        classes: HostClasses,
        claims: Claims,
        extent: Extent,
        host_queue: HostQueue,
        recorder: Recorder,
        expectations: Expectations,
        unchanged: Unchanged,
        way: Untraced,
    ) -> None:
        self._caches = caches
        self._host = host
        self._virtual = virtual
        self._mirrors = mirrors
        self._references = references
        self._starved = starved
        self._groups = groups
        self._classes = classes
        self._claims = claims
        self._extent = extent
        self._host_queue = host_queue
        self._recorder = recorder
        self._expectations = expectations
        self._unchanged = unchanged
        self._way = way

    async def create(self, key: Key, virtual: Obj) -> float | None:
        """Create the host pod, or say on the virtual pod why not; returns seconds until the next try.

        Raises `Stale` where a predecessor's host pod has its place.
        """
        self._way.note("seen", virtual)
        try:
            desired, view = await self._prepared(key, virtual)
        except Untranslatable as refused:
            # Room in the quota would not bring it to the host, so it does not hold up other pods.
            self._host_queue.forget(key)
            return await self._refuse(virtual, refused)
        try:
            await self._create(key, virtual, desired, view)
        except Untranslatable as refused:
            return await self._refuse(virtual, refused)
        self._starved.forget(key)
        self._groups.follow(key, virtual)
        return None

    def no_longer_waits(self, key: Key) -> None:
        """The pod should no longer be on the host."""
        self._starved.forget(key)
        self._groups.forget(key)
        self._host_queue.forget(key)

    async def _prepared(self, key: Key, virtual: Obj) -> tuple[Obj, TenantView]:
        """The host pod to create and the view that it was computed from; the objects that it needs are on the host."""
        if runtime := (virtual.get("spec") or {}).get("runtimeClassName"):
            await self._classes.learn_runtime(str(runtime))
        around, view = self._groups.around(key, virtual), self._caches.view()
        with metrics.IN_TRANSLATION.time():
            desired = pod.for_creation(virtual, view, around)
        self._groups.check(key, virtual)
        for item in sorted(self._references.of(Item("Pod", key))):
            await self._mirrors.ensure(item)
        return desired, view

    async def _create(self, key: Key, virtual: Obj, desired: Obj, view: TenantView) -> None:
        made = await self._claimed(key, virtual, desired, view)
        if narrowed := tolerations.narrowed(virtual.get("spec") or {}, view):
            self._recorder.warn(virtual, tolerations.NARROWED, narrowed)
        if mapped := scheduling.mapped(virtual.get("spec") or {}):
            self._recorder.warn(virtual, scheduling.MAPPED, mapped)
        if short := pod.shortened(virtual.get("spec") or {}, view):
            self._recorder.warn(virtual, pod.SHORTENED, short)
        if why := users.shared(desired["spec"], virtual.get("spec") or {}, view):
            self._recorder.warn(virtual, users.SHARED, why)
        # The comparison uses the view from before the create; a later change has queued this key again.
        unchanged = self._caches.view() is view and not diff.pod_patches(desired, made)
        # And `made` may be what an earlier create made, when the marks on nodes were others.
        unchanged = unchanged and placement.digest_of(desired) == placement.digest_of(made)
        # So may the pod's own node affinity have been.
        unchanged = unchanged and not placement.asks_otherwise(virtual, made)
        if unchanged and not (virtual.get("spec") or {}).get("ephemeralContainers"):
            self._unchanged.note_patched(virtual, made)

    async def _claimed(self, key: Key, virtual: Obj, desired: Obj, view: TenantView) -> Obj:
        """Claim the pod's room and devices and create it; the claims are dropped if the host refuses the pod."""
        place = key_of(desired)
        self._host_queue.attempt(key, virtual, desired)
        try:
            self._extent.claim_pod(place, desired)
            self._claims.claim(place, desired)
        except Untranslatable:
            self._extent.drop_pod(place)
            self._host_queue.forget(key)
            raise
        self._expectations.expect_creation(key, uid_of(virtual))
        try:
            with metrics.IN_CREATION.time():
                made = await self._host.create(PODS, desired, view)
        except (Stale, Again):
            self._drop(key, place)
            raise
        except Untranslatable:
            self._drop(key, place)
            self._expectations.refused(key)
            raise
        except ApiError as error:
            self._claims.drop(place)
            self._extent.drop_pod(place)
            # Only a server that fails may have created it all the same.
            if 400 <= error.status < 500:
                self._expectations.refused(key)
            refused = refusals.explain(error, key.name)
            if refused is not None and refusals.is_quota(refused):
                self._host_queue.refused(key)
            else:
                self._host_queue.forget(key)
            if refused is None:
                raise
            raise refused from error
        self._expectations.created(key, made)
        self._way.note("created", virtual)
        self._host_queue.made(desired, made)
        return made

    def _drop(self, key: Key, place: Key) -> None:
        self._claims.drop(place)
        self._extent.drop_pod(place)
        self._host_queue.forget(key)

    async def _refuse(self, virtual: Obj, refused: Untranslatable) -> float:
        key = key_of(virtual)
        if refusals.is_quota(refused):
            self._starved.add(key, rank=self._host_queue.rank(virtual))
        if refused.reason is Reason.WAITING_FOR_SCHEDULER and _is_told(virtual):
            return _RETRY_QUOTA
        if await self._virtual.refusal(virtual, refused):
            metrics.REFUSED.labels(str(refused.reason)).inc()
            _log.info("pod refused", extra=about("Pod", key, reason=refused.reason, why=str(refused)))
        self._recorder.warn(virtual, str(refused.reason), str(refused))
        return _RETRY_QUOTA if refused.retriable else _RETRY_REFUSED


def _is_told(virtual: Obj) -> bool:
    """Whether the pod already says why it has no node, by the tenant's own scheduler or the author of its gate."""
    return condition_of(virtual, "PodScheduled").get("status") == "False"
