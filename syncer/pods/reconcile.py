"""One virtual pod and its host pod, from what both are to what both should be. Level-triggered: a key in, an outcome out.

    virtual gone                  -> host pod deleted, once the plane itself proves the absence
    virtual is another UID        -> old host pod deleted; the new one waits until it is gone
    virtual deleting              -> host deleted with the same grace; virtual ended when the host pod is gone
    virtual started, host gone    -> virtual deleted: a pod never runs twice
    virtual new, host missing     -> group and references first, then the host pod; a refusal is told on the pod
    both there                    -> binding up; its tokens' turn; status up, changes down
    both there, node marks changed-> host pod that has no node yet deleted, to be made anew
    host deleting                 -> virtual deleted with its grace

Decides from the caches, but every step that cannot be undone reads past them first.
"""

import logging
from typing import Any, Final

from bulkhead.api import labels as marks
from bulkhead.api.podphase import has_ended, placed_on
from bulkhead.kube.errors import ApiError, Conflict
from bulkhead.kube.objects import Key, Obj, key_of, uid_of
from bulkhead.kube.resources import PODS
from syncer import metrics
from syncer.events import Recorder
from syncer.logs import about
from syncer.mirrors.classes import HostClasses
from syncer.mirrors.reconcile import Mirrors
from syncer.mirrors.references import ReferenceIndex, mirrored_references
from syncer.nodes import Nodes
from syncer.pods.expectations import Expectations
from syncer.pods.groups import PodGroups
from syncer.pods.patches import PodPatches
from syncer.pods.tokens import Tokens
from syncer.pods.unchanged import Unchanged
from syncer.quota.claims import Claims
from syncer.quota.waiting import Starved
from syncer.translate import Untranslatable, diff
from syncer.translate.kinds import pod
from syncer.translate.kinds import podstatus as statuses
from syncer.translate.origin import virtual_uid
from syncer.translate.podspec import placement, tolerations
from syncer.translate.registry import KINDS
from syncer.watch.deletions import ObservedDeletions
from syncer.watch.informers import Caches
from syncer.work import UNPLACED, Again, Item, Stale
from syncer.write import refusals
from syncer.write.host import HostWriter
from syncer.write.massdelete import MassDeleteBreaker
from syncer.write.plane import VirtualWriter

_log = logging.getLogger(__name__)

_POD: Final = KINDS["Pod"]
# What a forced deletion above becomes below. Never 0: the host keeps the pod, and its GPUs taken, until the kubelet says that
# the containers are gone, so that nobody else is given a device that is still in use.
_FORCED_GRACE: Final = 1
_RETRY_QUOTA: Final = 30.0
_RETRY_REFUSED: Final = 60.0


class Pods:
    """Reconciles pods."""

    def __init__(
        self,
        caches: Caches,
        host: HostWriter,
        virtual: VirtualWriter,
        *,
        mirrors: Mirrors,
        references: ReferenceIndex,
        tokens: Tokens,
        nodes: Nodes,
        starved: Starved,
        groups: PodGroups,
        classes: HostClasses,
        claims: Claims,
        recorder: Recorder,
        deletions: ObservedDeletions,
        breaker: MassDeleteBreaker,
    ) -> None:
        self._caches = caches
        self._host = host
        self._virtual = virtual
        self._mirrors = mirrors
        self._references = references
        self._tokens = tokens
        self._nodes = nodes
        self._starved = starved
        self._groups = groups
        self._classes = classes
        self._claims = claims
        self._recorder = recorder
        self._deletions = deletions
        self._breaker = breaker
        self._expectations = Expectations()
        self._unchanged = Unchanged(caches)
        self._patches = PodPatches(
            caches,
            host,
            virtual,
            unchanged=self._unchanged,
            expectations=self._expectations,
            starved=starved,
            recorder=recorder,
        )

    async def reconcile(self, key: Key) -> float | None:
        """Bring one pod forward, or queue those without a node; returns seconds after which to look again."""
        if key == UNPLACED.key:
            self._caches.queue_unplaced()
            return None
        return None if self._unchanged.nothing_to_do(key) else await self._look(key)

    async def _look(self, key: Key) -> float | None:
        virtual, host = self._caches.virtual_pod(key), self._caches.host_pod(key)
        self._expectations.observe(key, host)
        if host is not None and self._expectations.is_superseded(key, host):
            live = await self._read_host(key, virtual_uid(host))
            if live is None or uid_of(live) != uid_of(host):
                # Its node and its end say nothing of the one that there is now.
                return 1.0
            # The host is back from an older backup.
            self._expectations.confirm(key, host)
        if virtual is None:
            return await self._vanished(key, host)
        unshown = self._expectations.expected(key)
        if host is None and unshown and unshown != uid_of(virtual):
            # A predecessor's host pod may run although the cache does not show it yet.
            host = await self._read_host(key, unshown)
        if host is not None and virtual_uid(host) != uid_of(virtual):
            # What its predecessor refers to is kept until that is gone.
            return await self._replace_old(key, host)
        await self._refer(key, virtual, host)
        if host is not None:
            self._expectations.note_host(key, uid_of(virtual))
        if virtual["metadata"].get("deletionTimestamp"):
            return await self._deleting(key, virtual, host)
        if host is None:
            return await self._missing(key, virtual)
        return await self._both(virtual, host)

    # -- the virtual pod is not there

    async def _vanished(self, key: Key, host: Obj | None) -> float | None:
        self._no_longer_waits(key)
        if host is None and (unshown := self._expectations.expected(key)):
            host = await self._read_host(key, unshown)
        if host is None:
            self._unchanged.forget(self._expectations.forget(key))
            await self._release(self._references.forget(Item("Pod", key)))
            self._tokens.forget(key)
            return None
        if host["metadata"].get("deletionTimestamp"):
            return self._seconds_to_end(key)
        found = await self._virtual.read(PODS, key)
        if found is not None and uid_of(found) == virtual_uid(host):
            # The cache is behind: its event comes.
            return 1.0
        grace = _FORCED_GRACE if self._deletions.observed("Pod", key) else None
        if not self._breaker.may_delete("Pod", key):
            return _RETRY_REFUSED
        done = await self._host.delete(PODS, key_of(host), uid_of(host), grace=grace, why="virtual pod is gone")
        return self._seconds_to_end(key) if done else _RETRY_REFUSED

    async def _replace_old(self, key: Key, host: Obj) -> float | None:
        if host["metadata"].get("deletionTimestamp"):
            return self._seconds_to_end(key)
        found = await self._virtual.read(PODS, key)
        if found is not None and uid_of(found) == virtual_uid(host):
            return 1.0
        done = await self._host.delete(PODS, key_of(host), uid_of(host), grace=_FORCED_GRACE, why="virtual pod was replaced")
        return self._seconds_to_end(key) if done else _RETRY_REFUSED

    # -- deletion from above

    async def _deleting(self, key: Key, virtual: Obj, host: Obj | None) -> float | None:
        self._no_longer_waits(key)
        meta = virtual["metadata"]
        if host is None:
            host = await self._read_host(key, uid_of(virtual))
        if host is None:
            # Nothing of it is left on the host, so there is nothing to wait for.
            if meta.get("finalizers") and _started(virtual) and not has_ended(virtual):
                # Whoever holds it waits for its end, which nobody else will tell any more.
                await self._virtual.status(PODS, virtual, statuses.lost(virtual))
            await self._virtual.delete_pod(virtual, grace=0, why="host pod is gone")
            return None
        grace = meta.get("deletionGracePeriodSeconds")
        grace = min(max(_FORCED_GRACE, grace), self._caches.view().max_grace_seconds) if isinstance(grace, int) else None
        await self._report(virtual, host)
        host_meta = host["metadata"]
        left = host_meta.get("deletionGracePeriodSeconds")
        if host_meta.get("deletionTimestamp") and (grace is None or (isinstance(left, int) and left <= grace)):
            return self._seconds_to_end(key)
        done, last = await self._host.end(PODS, key_of(host), uid_of(host), grace=grace, why="virtual pod is being deleted")
        if last is not None and has_ended(last) and not has_ended(host):
            # It ended just before: the host deletes such a pod at once, and no event would tell how it ended.
            await self._report(virtual, last)
        return self._seconds_to_end(key) if done else _RETRY_REFUSED

    async def _read_host(self, key: Key, uid: str) -> Obj | None:
        """The host pod of a virtual UID, asked of the host itself."""
        found = await self._host.read(PODS, self._caches.host_key("Pod", key))
        return found if found is not None and marks.is_mirrored(found) and virtual_uid(found) == uid else None

    def _seconds_to_end(self, key: Key) -> float | None:
        """In how many seconds to ask for the end of a host pod that was deleted; None where an event shows it.

        Of a host pod that came and went while a watch was broken the next list knows nothing, so no event ever comes.
        """
        return 1.0 if self._expectations.expected(key) else None

    # -- the host pod is not there

    async def _missing(self, key: Key, virtual: Obj) -> float | None:
        if self._expectations.had_host(key, uid_of(virtual)):
            # Its host pod went. The cache may be from before it was placed, so the plane itself is asked whether it was.
            fresh = await self._virtual.read(PODS, key)
            if fresh is None or uid_of(fresh) != uid_of(virtual) or fresh["metadata"].get("deletionTimestamp"):
                return 1.0
            virtual = fresh
        if has_ended(virtual):
            await self._release(self._references.forget(Item("Pod", key)))
            return None
        if _started(virtual):
            if await self._read_host(key, uid_of(virtual)) is not None:
                return 1.0
            await self._virtual.delete_pod(virtual, grace=0, why="host pod is gone after it had been placed")
            return None
        return 5.0 if self._caches.namespace_ending(key.namespace) else await self._begin(key, virtual)

    async def _begin(self, key: Key, virtual: Obj) -> float | None:
        try:
            await self._create(key, virtual)
        except Untranslatable as refused:
            return await self._refuse(virtual, refused)
        except Stale as stale:
            return await self._replace_old(key, stale.host)
        self._no_longer_waits(key)
        return None

    async def _create(self, key: Key, virtual: Obj) -> None:
        if runtime := (virtual.get("spec") or {}).get("runtimeClassName"):
            await self._classes.learn_runtime(str(runtime))
        view = self._caches.view()
        with metrics.IN_TRANSLATION.time():
            desired = pod.for_creation(virtual, view)
        self._groups.check(key, virtual)
        for item in sorted(self._references.of(Item("Pod", key))):
            await self._mirrors.ensure(item)
        place = key_of(desired)
        self._claims.claim(place, desired)
        self._expectations.expect_creation(key, uid_of(virtual))
        try:
            with metrics.IN_CREATION.time():
                made = await self._host.create(PODS, desired, view)
            self._expectations.created(key, made)
        except (Stale, Again, Untranslatable):
            self._claims.drop(place)
            raise
        except ApiError as error:
            self._claims.drop(place)
            refused = refusals.explain(error, key.name)
            if refused is None:
                raise
            raise refused from error
        if narrowed := tolerations.narrowed(virtual.get("spec") or {}, view):
            self._recorder.warn(virtual, tolerations.NARROWED, narrowed)
        # Compared was what the view said before the create; a change since then, which queued this key again, is no part of it.
        unchanged = self._caches.view() is view and not diff.pod_patches(desired, made)
        # And `made` may be what an earlier create made, when the marks on nodes were others.
        unchanged = unchanged and placement.digest_of(desired) == placement.digest_of(made)
        if unchanged and not (virtual.get("spec") or {}).get("ephemeralContainers"):
            self._unchanged.note_patched(virtual, made)

    def _no_longer_waits(self, key: Key) -> None:
        self._starved.forget(key)
        self._groups.forget(key)

    async def _refuse(self, virtual: Obj, refused: Untranslatable) -> float:
        key = key_of(virtual)
        if refusals.is_quota(refused):
            self._starved.add(key)
        if await self._virtual.refusal(virtual, refused):
            metrics.REFUSED.labels(str(refused.reason)).inc()
            _log.info("pod refused", extra=about("Pod", key, reason=refused.reason))
        self._recorder.warn(virtual, str(refused.reason), str(refused))
        return _RETRY_QUOTA if refused.retriable else _RETRY_REFUSED * 10

    # -- both are there

    async def _both(self, virtual: Obj, host: Obj) -> float | None:
        meta = host["metadata"]
        if meta.get("deletionTimestamp"):
            if self._expectations.is_recreated(key_of(virtual)):
                return None
            await self._report(virtual, host)
            await self._virtual.delete_pod(
                virtual, grace=meta.get("deletionGracePeriodSeconds"), why="host pod is being deleted by the host"
            )
            return None
        # What was written comes back as an event, and with it this key.
        if self._virtual.behind(virtual) or await self._placed(virtual, host):
            return None
        if placed_on(virtual):
            self._tokens.queue(virtual, host)
        view = self._caches.view()
        told = await self._report(virtual, host)
        pushed = await self._patches.push(virtual, host)
        if told is not None and not pushed and self._caches.view() is view:
            self._unchanged.note_done(virtual, told, host)
        return None

    async def _placed(self, virtual: Obj, host: Obj) -> bool:
        """Carry the host's choice of node up; True when that wrote, a deletion where the two disagree."""
        chosen, held = placed_on(host), placed_on(virtual)
        if not chosen or held == chosen:
            return False
        if held:
            await self._virtual.delete_pod(virtual, grace=0, why="bound to another node than the host pod")
            return True
        if not await self._nodes.ensure(chosen):
            raise Again(1.0, "the node of the host pod is not known yet")
        await self._virtual.bind(virtual, chosen)
        return True

    async def _report(self, virtual: Obj, host: Obj) -> Obj | None:
        """Carry the status up; returns the virtual pod as it is then, None where that is not known to be what was looked at."""
        if _POD.status_to_virtual is None:
            return None
        if statuses.goes_back(host, virtual):
            # Told up, an older copy would make it look as if the pod had never run, and then it might run twice.
            live = await self._read_host(key_of(virtual), uid_of(virtual))
            if live is None:
                return None
            host = live
        desired = _POD.status_to_virtual(host, virtual, self._caches.view())
        try:
            written = await self._virtual.status(PODS, virtual, desired)
        except Conflict:
            # Somebody wrote in between, or our own binding did: once more on what is there now.
            fresh = await self._virtual.read(PODS, key_of(virtual))
            if fresh is None or uid_of(fresh) != uid_of(virtual):
                return None
            await self._virtual.status(PODS, fresh, _POD.status_to_virtual(host, fresh, self._caches.view()))
            return None
        if written is None:
            return virtual
        # What a webhook of the tenant made of it is looked at again when it comes.
        return written if statuses.same(written.get("status"), desired) else None

    # -- references

    async def _refer(self, key: Key, virtual: Obj, host: Obj | None) -> None:
        if has_ended(virtual):
            return
        first, last = self._references.set(Item("Pod", key), mirrored_references("Pod", virtual))
        if host is not None:
            for item in sorted(first):
                self._mirrors.queue(item)
        await self._release(last)

    async def _release(self, items: frozenset[Item]) -> None:
        for item in items:
            self._mirrors.queue(item)


def _started(virtual: Obj) -> bool:
    """Whether the pod ran, or was placed by the host, at any time before."""
    status: Any = virtual.get("status")
    if not isinstance(status, dict):
        return False
    if status.get("startTime"):
        return True
    conditions = status.get("conditions") or ()
    return bool(placed_on(virtual)) and any(
        isinstance(each, dict) and each.get("type") == "PodScheduled" and each.get("status") == "True" for each in conditions
    )
