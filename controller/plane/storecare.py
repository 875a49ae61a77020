"""The next step that frees space in a plane's store. Pure: what was done before, and the time, are passed in.

    full ──> compact ──> defragment a follower ──> … ──> hand leadership on ──> defragment the former leader ──> disarm

One step at a time: the shell looks again after each. A member is defragmented only while a quorum of the others answers,
because it serves nothing meanwhile. A tenant that fills its store again and again waits longer each time, so that it cannot
keep the host's disks busy: three times an hour without a pause, then one minute, two, four, up to half an hour.
"""

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from controller.plane.storestate import Member, Store, compacts_to, opens, to_defragment

# The age of the revision up to which old versions are compacted, in seconds.
HISTORY_KEPT_SECONDS: Final = 10.0
# A tenant's stores open this often within an hour before they wait.
FREE_OPENINGS: Final = 3
_HOUR_SECONDS: Final = 3600.0
_FIRST_PAUSE_SECONDS: Final = 60.0
_LONGEST_PAUSE_SECONDS: Final = 1800.0
# Between two defragmentations of a member: of a store that is full, and of one that is not.
_FULL_PAUSE_SECONDS: Final = 20.0
_CALM_PAUSE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of one store. A controller that starts again has forgotten it, and is generous for an hour.

    seen_at, seen_revision: when the revision of a full store was read, and the revision.
    earlier: the revision that it had at least `HISTORY_KEPT_SECONDS` before the last look; 0 if there was no such look.
    compacted: the revision up to which it was compacted while it was full.
    openings: when the store was opened again, within the last hour.
    defragmented: each member with the time of its last defragmentation.
    moved: the members that were asked to hand on leadership since the store was last calm.
    """

    seen_at: float = 0.0
    seen_revision: int = 0
    earlier: int = 0
    compacted: int = 0
    openings: tuple[float, ...] = ()
    defragmented: tuple[tuple[str, float], ...] = ()
    moved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compact:
    """Forget the versions before a revision."""

    revision: int


@dataclass(frozen=True, slots=True)
class MoveLeader:
    """Hand leadership on to another member before the leader is defragmented."""

    leader: Member
    to: Member


@dataclass(frozen=True, slots=True)
class Defragment:
    """Rewrite a member's file without its free pages; the member serves nothing meanwhile."""

    member: Member


@dataclass(frozen=True, slots=True)
class Disarm:
    """Let etcd accept writes again."""

    alarms: tuple[str, ...]


Step: TypeAlias = Compact | MoveLeader | Defragment | Disarm


def looked(past: Past, store: Store, now: float) -> Past:
    """The past after one more look at the store."""
    openings = tuple(at for at in past.openings if now - at < _HOUR_SECONDS)
    if not store.quorate:
        return replace(past, openings=openings)
    if not store.full:
        return Past(openings=openings, defragmented=past.defragmented)
    if not past.seen_revision:
        return replace(past, openings=openings, seen_at=now, seen_revision=store.revision)
    if now - past.seen_at < HISTORY_KEPT_SECONDS:
        return replace(past, openings=openings)
    return replace(past, openings=openings, seen_at=now, seen_revision=store.revision, earlier=past.seen_revision)


def rests_until(past: Past) -> float:
    """The time before which the store is neither defragmented nor opened; 0 if it need not wait."""
    beyond = len(past.openings) - FREE_OPENINGS
    if beyond < 0:
        return 0.0
    return past.openings[-1] + min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0**beyond)


def next_step(store: Store, past: Past, now: float) -> Step | None:
    """The next step; None if there is nothing to do, or if it is not the time for it."""
    if not store.quorate:
        return None
    if revision := compacts_to(store, past.earlier, past.compacted):
        return Compact(revision)
    if store.full and now < rests_until(past):
        return None
    for member in to_defragment(store):
        pause = _FULL_PAUSE_SECONDS if store.full else _CALM_PAUSE_SECONDS
        if _may_stop(member, store) and now - _last(past, member) >= pause:
            return _handed_on(member, store, past) or Defragment(member)
    return Disarm(store.alarms) if opens(store) else None


def done(past: Past, step: Step, now: float) -> Past:
    """The past after a step; a step that may have been done counts as done."""
    match step:
        case Compact(revision):
            return replace(past, compacted=revision)
        case MoveLeader(leader, _):
            return replace(past, moved=(*past.moved, leader.name))
        case Defragment(member):
            others = tuple(entry for entry in past.defragmented if entry[0] != member.name)
            return replace(past, defragmented=(*others, (member.name, now)))
        case Disarm():
            return replace(past, openings=(*past.openings, now), seen_revision=0, earlier=0, compacted=0, moved=())


def _may_stop(member: Member, store: Store) -> bool:
    """Whether a quorum answers without this member; a plane of one member has no other, and pauses for seconds."""
    if store.wanted == 1:
        return True
    others = [other for other in store.members if other.name != member.name and not other.learner]
    return len(others) > store.wanted // 2


def _handed_on(member: Member, store: Store, past: Past) -> MoveLeader | None:
    if not member.leads or member.name in past.moved:
        return None
    others = [other for other in store.members if other.name != member.name and not other.learner]
    return MoveLeader(member, max(others, key=lambda other: other.revision)) if others else None


def _last(past: Past, member: Member) -> float:
    return dict(past.defragmented).get(member.name, float("-inf"))
