"""What is to be done for one pod, from what the caches show of both sides, what is remembered, and what servers answered. Pure.

Caches may be behind. Before a step that cannot be undone `decide` asks for a server-side read (`ReadHost`, `ReadVirtual`), and
is called again with the answer; each server is asked at most once. The order of the questions:

    host pod in the cache superseded? ─> virtual pod gone? ─> a predecessor's host pod? ─> virtual pod pending deletion?
    ─> host pod missing? ─> host pod pending deletion? ─> node chosen? ─> follow

The host keeps a record of the pods that it placed (`Memory.placed`), written before the plane learns of it. A node in the plane
proves nothing: the tenant, or a scheduler of its own, may bind its pods. The pod's `startTime`, which only kubelets write,
counts besides the record, for pods that are older than the record and for a lost record. A tenant that forges it gets its own
pod deleted, which it may do anyway. docs/decisions/0043-who-places-a-pod.md has the reasons.

`tests/syncer/pods/decisions.yaml` is the table of all answers.
"""

from dataclasses import dataclass
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended, is_pending_deletion, placed_on
from bulkhead.api.untrusted import mapping
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
    EndHost,
    EvictVirtual,
    Follow,
    Forget,
    NotePlaced,
    PodAction,
    ReadHost,
    ReadVirtual,
    ReleaseReferences,
    Repin,
    ReportEnd,
    Wait,
    uid,
)
from syncer.translate.kinds import gate
from syncer.translate.origin import virtual_uid
from syncer.translate.podspec import placement

# What a forced deletion by the tenant becomes on the host. Never 0: the host keeps the pod, and its GPUs taken, until the
# kubelet says that the containers are gone, so that no other pod is given a device that is still in use.
FORCED_GRACE: Final = 1
_SOON: Final = 1.0
_NAMESPACE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known besides the two pods, when a decision is made."""

    # The virtual UID of a host pod that there may be although the cache has not shown it.
    expected: str = ""
    # Its host pod was created, or may have been, as no refusal came back; the cache has not shown it yet.
    may_be_there: bool = False
    # Another host pod was created for the same virtual pod since the one that the cache shows.
    superseded: bool = False
    # The host pod that the cache shows was deleted to be recreated.
    recreated: bool = False
    # This virtual pod had a host pod, or may have had one.
    had_host: bool = False
    # The host placed a host pod of this virtual pod at some time: the host's own record of it.
    placed: bool = False
    # Its host pod is gone, and had a node when the host reported its end, whether or not that was seen before.
    went_placed: bool = False
    # It had ended by then, and was deleted only afterwards: as for any other pod that ended, the virtual pod stays.
    went_ended: bool = False
    # A watch event reported the deletion of the virtual pod; a list alone did not.
    deletion_observed: bool = False
    namespace_ending: bool = False
    # The last write to the virtual pod has not come back as an event yet.
    behind: bool = False
    max_grace: int = 3600

    @property
    def again(self) -> float | None:
        """Seconds after which to ask for the end of a deleted host pod; None where an event shows it.

        Of a host pod that came and went while a watch was broken the next list knows nothing, so no event ever comes.
        """
        return _SOON if self.expected else None


@dataclass(frozen=True, slots=True)
class Reads:
    """The answers of the servers in this reconcile; None if they were not asked."""

    virtual: Answer | None = None
    host: Answer | None = None


UNREAD: Final = Reads()


def decide(virtual: Obj | None, host: Obj | None, memory: Memory, reads: Reads = UNREAD) -> PodAction:
    """The next step for a pod, of which the caches show these two sides."""
    if host is not None and memory.superseded:
        return _superseded(host, reads)
    if virtual is None:
        return _gone(host, memory, reads)
    if may_have_predecessor(virtual, host, memory, reads):
        predecessor = _host_pod(host, memory, reads)
        return ReadHost() if predecessor is None else _without_virtual(predecessor, memory, reads, replaced=True)
    if host is not None and placed_on(host) and not memory.placed:
        return NotePlaced(virtual)
    if is_pending_deletion(virtual):
        return _ending(virtual, host, memory, reads)
    return _missing(virtual, memory, reads) if host is None else _both(virtual, host, memory)


def may_have_predecessor(virtual: Obj, host: Obj | None, memory: Memory, reads: Reads) -> bool:
    """Whether a host pod of an earlier virtual pod is there, or may be: what that one refers to is kept until it is gone."""
    if host is not None:
        return virtual_uid(host) != uid(virtual)
    if memory.expected in ("", uid(virtual)):
        return False
    # It may run although the cache does not show it yet.
    return reads.host is None or reads.host.host_pod_of(memory.expected) is not None


def has_started(virtual: Obj, memory: Memory) -> bool:
    """Whether the pod ran, or was placed by the host, at any time before."""
    return memory.placed or bool(mapping(virtual.get("status")).get("startTime"))


def _superseded(host: Obj, reads: Reads) -> PodAction:
    if reads.host is None:
        return ReadHost()
    found = reads.host.host_pod_of(virtual_uid(host))
    if found is not None and uid(found) == uid(host):
        # The host is back from an older backup.
        return Confirm(host)
    return Wait(_SOON, "the cache shows an earlier host pod: its node and its end say nothing of the one that is there now")


def _gone(host: Obj | None, memory: Memory, reads: Reads) -> PodAction:
    if host is None and memory.expected and reads.host is None:
        return ReadHost()
    host = _host_pod(host, memory, reads)
    return Forget() if host is None else _without_virtual(host, memory, reads, replaced=False)


def _host_pod(host: Obj | None, memory: Memory, reads: Reads) -> Obj | None:
    """The host pod of the cache, or the expected one that the host answered with."""
    return reads.host.host_pod_of(memory.expected) if host is None and reads.host is not None else host


def _without_virtual(host: Obj, memory: Memory, reads: Reads, *, replaced: bool) -> PodAction:
    """Decide for a host pod whose virtual pod is not in the cache: only the plane's own answer counts."""
    if is_pending_deletion(host):
        return Wait(memory.again, "the host pod is being deleted")
    if reads.virtual is None:
        return ReadVirtual()
    if reads.virtual.has(virtual_uid(host)):
        return Wait(_SOON, "the cache of the plane is behind")
    if replaced:
        return DeletePredecessor(host, reads.virtual, FORCED_GRACE, memory.again)
    return DeleteOrphan(host, reads.virtual, FORCED_GRACE if memory.deletion_observed else None, memory.again)


def _ending(virtual: Obj, host: Obj | None, memory: Memory, reads: Reads) -> PodAction:
    if host is None:
        if reads.host is None:
            return ReadHost()
        host = reads.host.host_pod_of(uid(virtual))
        if host is None:
            # The owner of a finalizer waits for the pod's end, which nothing else reports now.
            lost = bool(virtual["metadata"].get("finalizers")) and has_started(virtual, memory) and not has_ended(virtual)
            return DeleteVirtual(virtual, reads.host, lost, "host pod is gone")
    asked, left = virtual["metadata"].get("deletionGracePeriodSeconds"), host["metadata"].get("deletionGracePeriodSeconds")
    grace = min(max(FORCED_GRACE, asked), memory.max_grace) if isinstance(asked, int) else None
    if is_pending_deletion(host) and (grace is None or (isinstance(left, int) and left <= grace)):
        return AwaitEnd(virtual, host, memory.again)
    return EndHost(virtual, host, grace, memory.again)


def _missing(virtual: Obj, memory: Memory, reads: Reads) -> PodAction:
    if memory.went_placed and not memory.placed:
        return NotePlaced(virtual)
    if memory.went_ended and not has_ended(virtual):
        return ReportEnd(virtual)
    if not memory.had_host:
        return _without_host(virtual, memory, reads)
    # Its host pod went. The cache may be from before it was placed, so the plane itself is asked whether it was.
    if reads.virtual is None:
        return ReadVirtual()
    now = reads.virtual.pod
    if now is None or uid(now) != uid(virtual) or is_pending_deletion(now):
        return Wait(_SOON, "the cache of the plane is behind")
    return _without_host(now, memory, reads)


def _without_host(virtual: Obj, memory: Memory, reads: Reads) -> PodAction:
    if has_ended(virtual):
        return ReleaseReferences()
    started = has_started(virtual, memory)
    if not started and (memory.namespace_ending or not memory.may_be_there):
        return Wait(_NAMESPACE_SECONDS, "the namespace is being deleted") if memory.namespace_ending else CreateHost(virtual)
    # Also before a second create: the host charges it to the quota before it reports that the name is taken, and corrects that
    # only when it recounts, minutes later.
    if reads.host is None:
        return ReadHost()
    if reads.host.host_pod_of(uid(virtual)) is not None:
        return Wait(_SOON, "the cache of the host is behind")
    if not started:
        return CreateHost(virtual)
    return DeleteVirtual(virtual, reads.host, lost=False, why="host pod is gone after it had been placed")


def _both(virtual: Obj, host: Obj, memory: Memory) -> PodAction:
    if is_pending_deletion(host):
        if memory.recreated and not placed_on(host):
            return Wait(None, "the host pod is being recreated")
        if gate.is_the_ledgers(host) and not placed_on(host) and not has_started(virtual, memory):
            return Wait(None, "the ledger evicted a host pod that never had a node; it is recreated")
        return EvictVirtual(virtual, host, host["metadata"].get("deletionGracePeriodSeconds"))
    if memory.behind:
        return Wait(None, "the last write to the virtual pod comes back as an event")
    return _where(virtual, host, memory)


def _where(virtual: Obj, host: Obj, memory: Memory) -> PodAction:
    """The step for two live pods, by the node of each."""
    chosen, held = placed_on(host), placed_on(virtual)
    if held == chosen:
        return Follow(virtual, host)
    if not chosen:
        return Repin(virtual, host) if _may_go_elsewhere(virtual, host, memory) else Follow(virtual, host)
    return DeleteMisplaced(virtual, chosen) if held else Bind(virtual, chosen)


def _may_go_elsewhere(virtual: Obj, host: Obj, memory: Memory) -> bool:
    """Whether a host pod was created before the tenant bound its virtual pod, and can still be recreated for that node.

    One that something on the host holds with a finalizer would be seen as deleted by the host. One that was placed before is
    back from an older backup of the host.
    """
    return not placement.is_pinned(host, placed_on(virtual)) and may_wait_again(virtual, host, memory)


def may_wait_again(virtual: Obj, host: Obj, memory: Memory) -> bool:
    """Whether a host pod without a node may be deleted to be created again later, and will not be taken for one that ended."""
    return not has_started(virtual, memory) and not host["metadata"].get("finalizers")
