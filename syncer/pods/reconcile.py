"""One virtual pod and its host pod, from what both are to what both should be. Level-triggered: a key in, an outcome out.

    observe (caches, memory) ──> decide ──┬─> read server-side, decide again
                                          └─> apply

    virtual gone                  -> host pod deleted, once the plane itself proves the absence
    virtual is another UID        -> old host pod deleted; the new one waits until it is gone
    virtual pending deletion      -> host deleted with the same grace; virtual deleted when the host pod is gone
    virtual started, host gone    -> virtual deleted: a pod never runs twice; if it had ended before, that is reported
    virtual new, host missing     -> group and references first, then the host pod; the virtual pod's status shows a refusal
    host pod placed               -> noted on the host, before anything else; also one that was gone before it was seen
    both there, node chosen       -> virtual bound
    bound by the tenant meanwhile -> host pod that has no node yet deleted, to be recreated for that one
    both there                    -> its tokens queued; status reported, changes patched
    both there, node marks changed-> host pod that has no node yet deleted, to be recreated
    both there, its group is gone -> host pod that has no node yet deleted, its virtual pod waits; also for one made again
    both there, a better one waits-> host pod at the ledger's gate deleted, its virtual pod waits
    host pending deletion         -> virtual deleted with its grace

What is to be done is decided in `decide`, from the caches, with server-side reads before every step that cannot be undone. Here
it is done, and nothing is decided.
"""

import logging
from typing import Final, assert_never

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended, is_pending_deletion, placed_on
from bulkhead.kube.errors import KubeError
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.kube.resources import PODS
from syncer.events import Recorder
from syncer.logs import about
from syncer.mirrors.classes import HostClasses
from syncer.mirrors.reconcile import Mirrors
from syncer.mirrors.references import ReferenceIndex, mirrored_references
from syncer.nodes import Nodes
from syncer.pods.actions import (
    Answer,
    AwaitEnd,
    Bind,
    Confirm,
    CreateHost,
    DeleteMisplaced,
    DeleteOrphan,
    DeletePredecessor,
    DeleteVirtual,
    Deletion,
    EndHost,
    EvictVirtual,
    Follow,
    Forget,
    NotePlaced,
    ReadHost,
    ReadVirtual,
    ReleaseReferences,
    Repin,
    ReportEnd,
    Step,
    Wait,
)
from syncer.pods.creation import PodCreation
from syncer.pods.decide import UNREAD, Memory, Reads, decide, may_have_predecessor, may_wait_again
from syncer.pods.expectations import Expectations
from syncer.pods.groups import PodGroups
from syncer.pods.patches import PodPatches
from syncer.pods.report import PodReport
from syncer.pods.tokens import Tokens
from syncer.pods.unchanged import Unchanged
from syncer.quota.claims import Claims
from syncer.quota.extent import Extent
from syncer.quota.hostqueue import HostQueue
from syncer.quota.waiting import Starved
from syncer.tracing import UNTRACED, Untraced
from syncer.translate.kinds import podstatus
from syncer.translate.origin import virtual_uid
from syncer.watch.deletions import ObservedDeletions
from syncer.watch.informers import Caches
from syncer.watch.lastpods import LastPods
from syncer.work import UNPLACED, Again, Item, Stale
from syncer.write.host import HostWriter
from syncer.write.massdelete import MassDeleteBreaker
from syncer.write.placed import PlacedPods
from syncer.write.plane import VirtualWriter

_log = logging.getLogger(__name__)

# Until the plane is trusted again, or the mass-delete breaker is closed.
_RETRY_KEPT: Final = 60.0
_LOST: Final = "the pod was placed and has disappeared from its node; it is deleted, because no pod runs twice"
_MISPLACED: Final = (
    "bound to node {!r}, but the platform had already placed the pod on {!r}; it is deleted. "
    "Give pods that you bind yourself a schedulerName of your own: the platform leaves those to you"
)


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
        extent: Extent,
        host_queue: HostQueue,
        recorder: Recorder,
        deletions: ObservedDeletions,
        last: LastPods,
        breaker: MassDeleteBreaker,
        placed: PlacedPods,
        way: Untraced = UNTRACED,
    ) -> None:
        self._caches = caches
        self._host = host
        self._virtual = virtual
        self._mirrors = mirrors
        self._references = references
        self._tokens = tokens
        self._nodes = nodes
        self._host_queue = host_queue
        self._groups = groups
        self._deletions = deletions
        self._last = last
        self._breaker = breaker
        self._placed = placed
        self._way = way
        self._recorder = recorder
        self._expectations = Expectations()
        self._unchanged = Unchanged(caches)
        self._report = PodReport(caches, host, virtual, recorder, way)
        self._creation = PodCreation(
            caches,
            host,
            virtual,
            mirrors=mirrors,
            references=references,
            starved=starved,
            groups=groups,
            classes=classes,
            claims=claims,
            extent=extent,
            host_queue=host_queue,
            recorder=recorder,
            expectations=self._expectations,
            unchanged=self._unchanged,
            way=way,
        )
        self._patches = PodPatches(
            caches,
            host,
            virtual,
            unchanged=self._unchanged,
            expectations=self._expectations,
            starved=starved,
            extent=extent,
            recorder=recorder,
        )

    def forget_plane(self) -> None:
        """The plane's data was replaced: every pod is compared again."""
        self._unchanged.forget_plane()

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one pod, or queue all pods without a node; returns seconds until the next reconcile."""
        if key == UNPLACED.key:
            self._caches.queue_unplaced()
            return None
        calls = self._host_queue.gives_way(key) or self._groups.lost(key) is not None
        if not calls and self._unchanged.nothing_to_do(key):
            return None
        virtual, host = self._caches.virtual_pod(key), self._caches.host_pod(key)
        self._observe(key, virtual, host)
        try:
            return await self._advance(key, virtual, host)
        except Stale as stale:
            # The host showed a pod that the cache does not: decided once more, on that.
            return await self._advance(key, virtual, stale.host)

    # -- observe

    def _observe(self, key: Key, virtual: Obj | None, host: Obj | None) -> None:
        """Remember what the caches show."""
        self._expectations.observe(key, host)
        if virtual is None or is_pending_deletion(virtual) or has_ended(virtual):
            self._creation.no_longer_waits(key)
        elif host is not None and placed_on(host):
            self._groups.forget(key)
        if virtual is not None and host is not None and virtual_uid(host) == uid_of(virtual):
            self._expectations.note_host(key, uid_of(virtual))

    def _memory(self, key: Key, virtual: Obj | None, host: Obj | None) -> Memory:
        expected = self._expectations.expected(key)
        last = self._last_of(key, virtual) if virtual is not None and host is None else None
        return Memory(
            expected=expected,
            superseded=host is not None and self._expectations.is_superseded(key, host),
            may_be_there=virtual is not None and self._expectations.may_be_there(key, uid_of(virtual)),
            recreated=self._expectations.is_recreated(key),
            had_host=virtual is not None and self._expectations.had_host(key, uid_of(virtual)),
            placed=virtual is not None and uid_of(virtual) in self._placed,
            deletion_observed=self._deletions.observed("Pod", virtual_uid(host) if host is not None else expected),
            went_placed=last is not None,
            went_ended=last is not None and virtual is not None and _ended_before(last, virtual),
            namespace_ending=self._caches.namespace_ending(key.namespace),
            behind=virtual is not None and self._virtual.behind(virtual),
            max_grace=self._caches.view().max_grace_seconds,
        )

    def _last_of(self, key: Key, virtual: Obj) -> Obj | None:
        return self._last.of(self._caches.host_key("Pod", key), uid_of(virtual))

    # -- decide

    async def _advance(self, key: Key, virtual: Obj | None, host: Obj | None) -> float | None:
        reads = UNREAD
        while True:
            memory = self._memory(key, virtual, host)
            action = decide(virtual, host, memory, reads)
            match action:
                case ReadHost():
                    answer = Answer(await self._host.read(PODS, self._caches.host_key("Pod", key)))
                    reads = Reads(virtual=reads.virtual, host=answer)
                case ReadVirtual():
                    reads = Reads(virtual=Answer(await self._virtual.read(PODS, key)), host=reads.host)
                case Confirm(confirmed):
                    self._expectations.confirm(key, confirmed)
                case NotePlaced(noted):
                    await self._placed.note(uid_of(noted))
                case _:
                    if virtual is not None and not may_have_predecessor(virtual, host, memory, reads):
                        self._refer(key, virtual, on_host=host is not None)
                    return await self._apply(key, action)

    # -- apply

    async def _apply(self, key: Key, step: Step) -> float | None:
        match step:
            case Wait(seconds, why):
                _log.debug("pod waits: %s", why, extra=about("Pod", key))
                return seconds
            case Forget():
                self._forget(key)
            case ReleaseReferences():
                self._release(self._references.forget(Item("Pod", key)))
            case ReportEnd(virtual):
                await self._report.report_gone(virtual, self._last_of(key, virtual), awaited=False)
            case CreateHost(virtual):
                return await self._creation.create(key, virtual)
            case Bind(virtual, node):
                await self._bind(virtual, node)
            case Follow(virtual, host):
                await self._follow(key, virtual, host)
            case Repin(virtual, host):
                return None if await self._patches.repin(virtual, host) else _RETRY_KEPT
            case AwaitEnd(virtual, host, again):
                await self._report.report(virtual, host)
                return again
            case _:
                return await self._delete(key, step)
        return None

    async def _delete(self, key: Key, step: Deletion) -> float | None:
        match step:
            case EndHost():
                return await self._end(step)
            case DeleteOrphan(host, _, grace, again) | DeletePredecessor(host, _, grace, again):
                if not await self._breaker.may_delete("Pod", virtual_uid(host), ended=has_ended(host)):
                    return _RETRY_KEPT
                return await self._delete_host(host, grace, again, step.why)
            case DeleteVirtual(virtual, _, lost, why):
                try:
                    told = await self._report.report_gone(virtual, self._last_of(key, virtual), awaited=lost)
                except KubeError:
                    if lost:
                        raise
                    # No client waits for its end, so the pod goes although the plane refuses the report.
                    told = False
                if not told and not is_pending_deletion(virtual):
                    self._recorder.warn(virtual, "Lost", _LOST, last=True)
                await self._virtual.delete_pod(virtual, grace=0, why=why)
            case EvictVirtual(virtual, host, grace):
                await self._report.report(virtual, host)
                await self._virtual.delete_pod(virtual, grace=grace, why="host pod is being deleted by the host")
            case DeleteMisplaced(virtual, node):
                text = _MISPLACED.format(placed_on(virtual)[:253], node)
                self._recorder.warn(virtual, "Misplaced", text, last=True)
                await self._virtual.delete_pod(virtual, grace=0, why="bound to another node than the host pod")
            case _:
                assert_never(step)
        return None

    def _forget(self, key: Key) -> None:
        self._unchanged.forget(self._expectations.forget(key))
        self._last.forget(self._caches.host_key("Pod", key))
        self._release(self._references.forget(Item("Pod", key)))
        self._tokens.forget(key)

    async def _bind(self, virtual: Obj, node: str) -> None:
        if not await self._nodes.ensure(node):
            raise Again(1.0, "the node of the host pod is not known yet")
        await self._virtual.bind(virtual, node)
        self._way.note("bound", virtual)

    async def _follow(self, key: Key, virtual: Obj, host: Obj) -> None:
        if self._host_queue.may_take_back(key, host):
            await self._patches.take_back(virtual, host)
            return
        if not placed_on(host):
            self._groups.follow(key, virtual, host)
            group = self._groups.lost(key)
            if group is not None and may_wait_again(virtual, host, self._memory(key, virtual, host)):
                await self._regroup(virtual, host, group)
                return
        if placed_on(virtual):
            self._tokens.queue(virtual, host)
        view = self._caches.view()
        reported, unreported = await self._reported(virtual, host)
        pushed = await self._patches.push(virtual, host)
        if unreported is not None:
            raise unreported
        if reported is not None and not pushed and self._caches.view() is view:
            self._unchanged.note_done(virtual, reported, host)

    async def _regroup(self, virtual: Obj, host: Obj, group: Item) -> None:
        """Take back a pod whose group is gone or another one; only a read of the plane proves that it is gone."""
        if self._groups.is_absent(group) and await self._virtual.read(self._caches.kinds[group.kind], group.key) is not None:
            raise Again(1.0, "the cache of the plane is behind")
        if not await self._patches.regroup(virtual, host):
            raise Again(_RETRY_KEPT, "the plane is not trusted, so nothing is deleted")

    async def _end(self, step: EndHost) -> float | None:
        virtual, host = step.virtual, step.host
        _, unreported = await self._reported(virtual, host)
        why = "virtual pod is being deleted"
        done, last = await self._host.end(PODS, key_of(host), uid_of(host), grace=step.grace, why=why)
        if unreported is not None:
            raise unreported
        if last is not None and has_ended(last) and not has_ended(host):
            # It ended just before: the host deletes such a pod at once, and no event would show how it ended.
            await self._report.report(virtual, last)
        return step.again if done else _RETRY_KEPT

    async def _reported(self, virtual: Obj, host: Obj) -> tuple[Obj | None, KubeError | Again | None]:
        """Report the status: the virtual pod as `PodReport.report` returns it, and what kept the status from the plane.

        The caller raises that after its step: what a webhook of the tenant makes of a status keeps none of their changes from
        the host, and nothing running that they deleted.
        """
        try:
            return await self._report.report(virtual, host), None
        except (KubeError, Again) as error:
            return None, error

    async def _delete_host(self, host: Obj, grace: int | None, again: float | None, why: str) -> float | None:
        done = await self._host.delete(PODS, key_of(host), uid_of(host), grace=grace, why=why)
        return again if done else _RETRY_KEPT

    # -- references

    def _refer(self, key: Key, virtual: Obj, *, on_host: bool) -> None:
        """Note what the pod refers to now. For a pod that is on the host already, new references are mirrored after it."""
        if has_ended(virtual):
            return
        first, last = self._references.set(Item("Pod", key), mirrored_references("Pod", virtual))
        for item in sorted(first) if on_host else ():
            self._mirrors.queue(item)
        self._release(last)

    def _release(self, items: frozenset[Item]) -> None:
        for item in items:
            self._mirrors.queue(item)


def _ended_before(last: Obj, virtual: Obj) -> bool:
    """Whether a host pod had ended before it was deleted, as far as its last copy may be reported."""
    return has_ended(last) and not is_pending_deletion(last) and not podstatus.goes_back(last, virtual)
