"""How full a plane's store is, as its etcd members report. Pure.

    every write keeps the previous version ──> compaction forgets old versions ──> free pages inside the file
                                               defragmentation rewrites the file without them
    the file reaches the quota ──> alarm NOSPACE: etcd refuses writes, except deletions, until the alarm is disarmed

etcd compacts by itself every ten minutes, but neither defragments nor disarms the alarm. A tenant cannot do either from inside
its plane, so a plane that was full once would stay read-only however much its tenant deletes. `controller.plane.storecare`
decides what is done about it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# The share of the quota below which a full store is opened again: above it, the next writes would fill it at once.
_OPENS_BELOW_SHARE: Final = 0.9
# Defragments a file before it is full: if it takes this share of the quota, and if that frees this share of the quota.
_LARGE_SHARE: Final = 0.7
_WORTH_FREEING_SHARE: Final = 0.2
_WORTH_FREEING_SHARE_WHEN_FULL: Final = 0.02


@dataclass(frozen=True, slots=True)
class Member:
    """The state of one etcd member."""

    name: str  # the name of its pod
    size: int = 0  # bytes of its file
    used: int = 0  # bytes of the file that are in use
    quota: int = 0  # bytes that its file may take, as it runs now
    revision: int = 0
    alarms: tuple[str, ...] = ()  # the members that have raised NOSPACE, as far as this one knows
    id: str = ""
    leader: str = ""  # the ID of the member that it follows; empty if it follows none
    learner: bool = False
    corrupt: tuple[str, ...] = ()  # the members that have other data than the others, as far as this one knows

    @property
    def leads(self) -> bool:
        """Whether this member is the leader."""
        return bool(self.id) and self.id == self.leader


@dataclass(frozen=True, slots=True)
class Slow:
    """A member whose disk is slow."""

    name: str
    seconds: float  # 99 % of its fsyncs take at most this long


@dataclass(frozen=True, slots=True)
class Store:
    """The members that answered, and why the others did not."""

    members: tuple[Member, ...] = ()
    silent: tuple[str, ...] = ()  # one sentence each
    wanted: int = 1  # members that the plane should have
    slow: tuple[Slow, ...] | None = None  # None while too few fsyncs were seen
    rests_until: str = ""  # the time of day before which a store that was filled again and again is not opened

    @property
    def quorate(self) -> bool:
        """Whether enough members answer that what they report holds for the plane."""
        return len([member for member in self.members if not member.learner]) > self.wanted // 2

    @property
    def unread(self) -> str:
        """Why the state of the store is unknown; empty if it is known."""
        return "" if self.quorate else "; ".join(self.silent) or "the plane's pod has no address yet"

    @property
    def full(self) -> bool:
        """Whether etcd refuses new objects."""
        return self.quorate and any(member.alarms for member in self.members)

    @property
    def used(self) -> int:
        """Bytes in use on the fullest member."""
        return max((member.used for member in self.members), default=0)

    @property
    def size(self) -> int:
        """Bytes of the largest file, which is what the quota counts."""
        return max((member.size for member in self.members), default=0)

    @property
    def quota(self) -> int:
        """Bytes that every member's file may take."""
        return min((member.quota for member in self.members), default=0)

    @property
    def revision(self) -> int:
        """The newest revision that every member has."""
        return min((member.revision for member in self.members), default=0)

    @property
    def alarms(self) -> tuple[str, ...]:
        """The members that have raised the alarm."""
        return tuple(sorted({alarm for member in self.members for alarm in member.alarms}))


def compacts_to(store: Store, earlier: int, done: int) -> int:
    """The revision up to which a full store should be compacted: an older one, so that no watch loses its place; 0 for none.

    `done` is the revision up to which it is compacted already. The last deletions are the last revision: nothing follows them.
    """
    return earlier if store.full and done < earlier <= store.revision else 0


def to_defragment(store: Store) -> tuple[Member, ...]:
    """The members whose file is worth a defragmentation, the leader last."""
    worth = (member for member in store.members if _worth(member, full=store.full))
    return tuple(sorted(worth, key=lambda member: member.leads))


def opens(store: Store) -> bool:
    """Whether a full store has room again; a larger quota also gives it room."""
    return store.full and store.size <= store.quota * _OPENS_BELOW_SHARE


def must_go(store: Store) -> int:
    """How many bytes must be deleted before a full store is opened again; 0 if it can be opened as it is."""
    # A file that a defragmentation would not shrink keeps its size.
    held = max((member.used if _worth(member, full=True) else member.size for member in store.members), default=0)
    return max(0, held - int(store.quota * _OPENS_BELOW_SHARE))


def _worth(member: Member, *, full: bool) -> bool:
    free, quota = member.size - member.used, member.quota
    if full:
        return member.size > quota * _OPENS_BELOW_SHARE and free >= quota * _WORTH_FREEING_SHARE_WHEN_FULL
    return member.size >= quota * _LARGE_SHARE and free >= quota * _WORTH_FREEING_SHARE


def store_of(members: Iterable[Member | str], wanted: int | None = None) -> Store:
    """The state of all members together; a text is the reason why one did not answer."""
    found = list(members)
    return Store(
        tuple(member for member in found if isinstance(member, Member)),
        tuple(member for member in found if isinstance(member, str)),
        len(found) if wanted is None else wanted,
    )
