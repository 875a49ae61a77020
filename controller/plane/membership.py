"""The next step by which a plane of three members heals. Pure: what the members say, the record and the pods are passed in.

    a pod's etcd found an empty volume ──> room? ──> remove its old member ──> add it as a learner ──> open the record ──> start
                                                      promote it <── close the record <── the learner has started

    a plane of one that is to have three: room for both? ──> start again ──> tell its new URL ──> add the others, as above

One step at a time, each decided from what a quorum says now, so that a controller may die between any two. A member is
removed only if every other voter answers: a plane that has lost two members is left as it is. Only a refusal of the pod's own
etcd shows that a volume is lost; a member that is merely silent may come back with its data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from controller.plane.memberrecord import Record

_MIB: Final = 1 << 20
# In addition to the data and its copy while it arrives: etcd's log.
_LOG_MIB: Final = 256
# What is wrong with the volume of a member that is removed.
Why: TypeAlias = Literal["empty", "other data", "gone", "forgotten"]


@dataclass(frozen=True, slots=True)
class Listed:
    """A member as the cluster lists it."""

    id: str
    name: str  # of its pod; empty before it has started for the first time
    peer_url: str
    learner: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the plane, as far as it matters here."""

    name: str
    uid: str = ""
    refused: bool = False  # its etcd found no data and may not start
    tries: bool = False  # it found none the last time, and may run now
    capacity: int | None = None  # bytes of its volume; None if it has none yet
    on_node: bool = True  # a node runs it, or did
    runs_for: float = 0.0  # seconds since its etcd has started; 0 if it does not run
    corrupt: bool = False  # its etcd ended because it has other data than its peers
    forgot: bool = False  # its etcd ended the last time because it lacks what its leader has an answer for
    alone: bool = False  # its etcd has the flags of a plane of one member, whose peers cannot reach it
    ready: bool = True  # as its kubelet says
    outdated: bool = False  # it was made from another template than the present one
    stranded: str = ""  # the node on which its volume is and that no longer exists


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of a pod's volume."""

    pod: str
    uid: str
    ends: bool = False  # it is deleted as soon as no pod uses it


@dataclass(frozen=True, slots=True)
class Standing:
    """The members of a plane at one moment.

    urls: the peer URL of each pod, in the order of the pods.
    lists: for each pod whose etcd answers and follows a leader, the cluster's members as it lists them.
    heard: for each pod whose etcd answers, the revision of its data, with a leader or without.
    learning: the pods whose etcd answers as a learner that follows a leader.
    claims: those of the pods' volumes.
    quarantined: whether the syncer must delete nothing; read during a recovery only.
    corrupt: the IDs of the members with the alarm CORRUPT; 0 if etcd cannot say which.
    size: bytes of the largest file.
    """

    urls: Mapping[str, str]
    record: Record
    pods: Mapping[str, Pod] = field(default_factory=dict)
    lists: Mapping[str, tuple[Listed, ...]] = field(default_factory=dict)
    heard: Mapping[str, int] = field(default_factory=dict)
    learning: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    quarantined: bool = False
    corrupt: tuple[str, ...] = ()
    size: int = 0

    @property
    def listed(self) -> tuple[Listed, ...]:
        """The members; empty if those that answer do not agree."""
        found = {frozenset(members) for members in self.lists.values()}
        return tuple(sorted(found.pop(), key=lambda member: member.peer_url)) if len(found) == 1 else ()

    @property
    def voters(self) -> tuple[Listed, ...]:
        """The members that count for a quorum."""
        return tuple(member for member in self.listed if not member.learner)

    @property
    def quorate(self) -> bool:
        """Whether a quorum answers."""
        return bool(self.voters) and self._answering(self.voters) > len(self.voters) // 2

    def _answering(self, members: tuple[Listed, ...]) -> int:
        return len([member for member in members if member.name in self.lists])

    def all_others_answer(self, member: Listed) -> bool:
        """Whether every other voter answers, and whether they are a quorum of all."""
        others = tuple(voter for voter in self.voters if voter.id != member.id)
        return self._answering(others) == len(others) and len(others) > len(self.voters) // 2

    def can_spare(self, member: Listed) -> bool:
        """Whether a member may go: a learner has acknowledged nothing, and of voters every other one has to answer."""
        return member.learner or self.all_others_answer(member)

    def is_bare(self, pod: Pod) -> bool:
        """Whether a pod waits for a claim that no longer exists."""
        return not pod.on_node and pod.name not in {claim.pod for claim in self.claims}

    def at(self, pod: str) -> Listed | None:
        """The member at the URL of a pod."""
        return next((member for member in self.listed if member.peer_url == self.urls[pod]), None)


@dataclass(frozen=True, slots=True)
class Write:
    """Write the record."""

    record: Record


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the member that a pod had, because its volume is empty, has other data or is gone."""

    pod: str
    member: Listed
    why: Why = "empty"


@dataclass(frozen=True, slots=True)
class Add:
    """Add a member at a pod's URL, as a learner."""

    pod: str
    peer_url: str


@dataclass(frozen=True, slots=True)
class Move:
    """Tell the cluster where a member's peers reach it from now on."""

    pod: str
    member: Listed
    peer_url: str


@dataclass(frozen=True, slots=True)
class Restart:
    """Delete a pod, so that its processes start now and with what is there now."""

    pod: str
    uid: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Let a pod start again with the present template, if the plane's disruption budget allows it now."""

    pod: str
    uid: str


@dataclass(frozen=True, slots=True)
class Promote:
    """Let a learner vote; etcd refuses until it has caught up."""

    pod: str
    member: Listed


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Tell the syncer that the plane's data may be behind, before it becomes so."""

    words: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete the claim of a volume that is given up."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Disarm:
    """End the alarm CORRUPT of a member that was removed, so that etcd serves again."""

    member: str  # its ID


Step: TypeAlias = Write | Remove | Add | Move | Restart | Evict | Promote | Quarantine | Discard | Disarm


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do next, and what to say; no step if nothing can be done, or if it is the members' turn."""

    step: Step | None = None
    replacing: str = ""  # the pod whose member is being replaced
    trouble: str = ""  # why a member that is lost is not replaced
    recovering: str = ""  # how far a recovery is
    corrupt: str = ""  # what is done about a member with other data
    growing: str = ""  # how far a plane of one member is on its way to three
    moving: str = ""  # which member gets another volume, because the node of its own is gone
    rolling: str = ""  # which pods still have to start again with the present template


def decide(standing: Standing) -> Decision:
    """The next step."""
    if not standing.quorate:
        return Decision(trouble=_of_no_quorum(standing))
    record = standing.record
    if record.founding:
        return _founded(standing)
    if record.open_for:
        return _opened(standing, record.open_for)
    return _closed(standing)


def _founded(standing: Standing) -> Decision:
    """A quorum has started: from now on, a member without data has lost it, except those that never started."""
    started = [pod for pod in standing.urls if (member := standing.at(pod)) is not None and member.name]
    missing = [pod for pod in standing.urls if pod not in started]
    if len(started) <= len(standing.urls) // 2 or len(missing) > 1:
        return Decision()
    return Decision(Write(Record(open_for=missing[0] if missing else "", version=standing.record.version)))


def _opened(standing: Standing, pod: str) -> Decision:
    """The record is open: close it as soon as the member has started, or if it is no longer in the list."""
    member = standing.at(pod) if pod in standing.urls else None
    if member is None or member.name:
        return Decision(Write(Record(version=standing.record.version)), replacing=pod)
    found = standing.pods.get(pod)
    if found is not None and found.refused:
        return Decision(Restart(pod, found.uid), replacing=pod)
    if found is not None and pod not in standing.lists and (found.stranded or standing.is_bare(found)):
        return _given_back(standing, found, member)
    return Decision(replacing=pod)


def _given_back(standing: Standing, pod: Pod, member: Listed) -> Decision:
    """The volume of a member that was being added is gone: the member is removed, and the pod gets another volume and member.

    It may have received data before its name was known. With an empty volume it would forget that under the same ID, and crash.
    The record is open meanwhile, so the volume is given up only after the member.
    """
    where = f"{_was_on(pod)}, before its member had started" if pod.stranded else f"{pod.name} waits for a volume that is gone"
    if not standing.can_spare(member):
        return Decision(trouble=f"{where}; it is replaced once every other member answers")
    return Decision(Remove(pod.name, member, "gone"), moving=f"{where}; it is added again with another volume")


def _grown(standing: Standing, only: Listed) -> Decision:
    """A plane of one member gets two more: it starts again so that they reach it, once both have room."""
    pod = standing.pods.get(only.name)
    for other in standing.urls:
        if other == only.name:
            continue
        new = standing.pods.get(other)
        if new is None or not new.tries:
            return Decision(growing=f"waits until the pod {other} has started; {only.name} serves meanwhile")
        if short := _lacks_room(standing, new):
            return Decision(growing=f"{other} cannot join: {short}; {only.name} serves meanwhile")
    if pod is None or pod.alone:
        step = Restart(pod.name, pod.uid) if pod is not None else None
        return Decision(step, growing=f"{only.name} starts again, so that the others reach it")
    return Decision(Move(only.name, only, standing.urls[only.name]), growing=f"{only.name} can be reached by the others")


def _closed(standing: Standing) -> Decision:
    only = standing.voters[0]
    if len(standing.listed) == 1 and only.name in standing.urls and only.peer_url not in standing.urls.values():
        return _grown(standing, only)
    # A member that answers has its data, whatever an older look at its pod showed.
    lost = [pod for pod in standing.urls if pod in standing.pods and standing.pods[pod].refused and pod not in standing.lists]
    gone = next((found for pod, found in standing.pods.items() if found.stranded and pod not in standing.lists), None)
    if gone is not None and not lost:
        return _moved(standing, gone)
    bare = next((found for found in standing.pods.values() if standing.is_bare(found)), None)
    if bare is not None and not lost:
        # The claim of a pod that has no node goes at once, and the StatefulSet makes another one only with another pod.
        return Decision(Restart(bare.name, bare.uid), moving=f"{bare.name} waits for a volume that is gone, and is made again")
    return _joining(standing, lost) or _kept(standing, lost)


def _joining(standing: Standing, lost: list[str]) -> Decision | None:
    """The next step of a member that was added and does not vote yet."""
    for pod in standing.urls:
        member = standing.at(pod)
        if member is not None and not member.name:
            # It has been added and has never started, so it has acknowledged nothing.
            absent = tuple(other for other in standing.urls if standing.at(other) is None)
            return Decision(Write(Record(open_for=pod, without=absent, version=standing.record.version)), replacing=pod)
        if member is not None and member.learner and pod not in lost:
            # etcd asks its leader alone, which does not know what the learner has lost since.
            return Decision(Promote(pod, member) if pod in standing.learning else None, replacing=pod)
    return None


def _kept(standing: Standing, lost: list[str]) -> Decision:
    """The next step of members that vote, or of pods that have none; `lost` have empty volumes."""
    if not lost:
        again = next((pod for pod, found in standing.pods.items() if found.tries and standing.at(pod) is None), "")
        if again:
            return _replaced(standing, again)
        gone = [pod for pod in standing.urls if standing.at(pod) is None]
        words = (
            "is not a member, and its volume is that of a member that was removed: delete the claim of its volume and the pod"
        )
        return Decision(trouble=f"{' and '.join(gone)} {words}") if gone else Decision()
    return _replaced(standing, lost[0])


def _moved(standing: Standing, pod: Pod) -> Decision:
    """The node with a member's volume was deleted: the member gets another one, if all others have what it had."""
    member = standing.at(pod.name)
    where = _was_on(pod)
    if member is not None and not standing.can_spare(member):
        return Decision(trouble=f"{where}; it is replaced once every other member answers")
    words = f"{where}; it gets another one, and the others serve meanwhile"
    claim = next((claim for claim in standing.claims if claim.pod == pod.name), None)
    if claim is not None and not claim.ends:
        return Decision(Discard(claim), moving=words)
    return Decision(Restart(pod.name, pod.uid), moving=words)


def _was_on(pod: Pod) -> str:
    return f"the volume of {pod.name} was on node {pod.stranded}, which no longer exists"


def _replaced(standing: Standing, pod: str) -> Decision:
    """A pod has an empty volume: its old member goes, if all others answer and the new one has room."""
    member = standing.at(pod)
    if short := _lacks_room(standing, standing.pods[pod]):
        return Decision(trouble=f"{pod} has lost its volume, and {short}")
    if member is None:
        return Decision(Add(pod, standing.urls[pod]), replacing=pod)
    if not standing.can_spare(member):
        silent = ", ".join(
            voter.name for voter in standing.voters if voter.name not in standing.lists and voter.id != member.id
        )
        return Decision(trouble=f"{pod} has lost its volume and is replaced once {silent or 'every other member'} answers")
    return Decision(Remove(pod, member), replacing=pod)


def _lacks_room(standing: Standing, pod: Pod) -> str:
    """Why the volume of a new member is too small; empty if it is not."""
    if pod.capacity is None:
        return "its new volume is not bound yet"
    needed = 2 * standing.size + _LOG_MIB * _MIB
    if pod.capacity >= needed:
        return ""
    has, needs = pod.capacity // _MIB, -(-needed // _MIB)
    return f"its new volume of {has}Mi is too small: {needs}Mi are needed; raise controlPlane.storage.size"


def _of_no_quorum(standing: Standing) -> str:
    if standing.lists and not standing.listed:
        return "the members do not agree yet who belongs to the cluster"
    return f"{len(standing.lists)} of {len(standing.urls)} members answer, fewer than a quorum, so nothing is changed by itself"
