"""How full a plane's store is, as its etcd members say, and what makes room in it. Pure.

    every write keeps the version before it ──> compaction forgets old versions ──> free pages inside the file
                                                defragmentation writes the file anew, without them
    the file reaches the quota ──> alarm NOSPACE: nothing new is taken, deletions are, until somebody takes the alarm back

etcd compacts by itself every ten minutes and does neither of the others. Nothing that a tenant may do in its plane does them
either, so a plane that was full once would stay read-only however much its tenant deletes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# What must be free before a full store is opened again: else the next writes fill it at once.
_OPENS_BELOW_SHARE: Final = 0.9
# A file that is made compact before it is full: how much of the quota it takes, and how much of the quota that would free.
_LARGE_SHARE: Final = 0.7
_WORTH_FREEING_SHARE: Final = 0.2
_WORTH_FREEING_SHARE_WHEN_FULL: Final = 0.02


@dataclass(frozen=True, slots=True)
class Member:
    """One etcd member."""

    name: str  # of its pod
    size: int = 0  # bytes of its file
    used: int = 0  # bytes of it that hold something
    quota: int = 0  # bytes that its file may take, as it runs
    revision: int = 0
    alarms: tuple[str, ...] = ()  # the members that have raised NOSPACE, as this one knows


@dataclass(frozen=True, slots=True)
class Store:
    """All members; or why they were not asked."""

    members: tuple[Member, ...] = ()
    unread: str = ""

    @property
    def full(self) -> bool:
        """Whether it takes nothing new."""
        return any(member.alarms for member in self.members)

    @property
    def used(self) -> int:
        """Bytes that the fullest member holds."""
        return max((member.used for member in self.members), default=0)

    @property
    def size(self) -> int:
        """Bytes of the largest file: what the quota counts."""
        return max((member.size for member in self.members), default=0)

    @property
    def quota(self) -> int:
        """Bytes that every member's file may take."""
        return min((member.quota for member in self.members), default=0)

    @property
    def revision(self) -> int:
        """What every member knows."""
        return min((member.revision for member in self.members), default=0)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Who has raised the alarm."""
        return tuple(sorted({alarm for member in self.members for alarm in member.alarms}))


def compacts_to(store: Store, earlier: int, done: int) -> int:
    """Up to which revision a full store forgets old versions: one of a while ago, so that no watch loses its place; 0: none.

    `done` is up to where it has forgotten them already. The last deletions are the last revision, after which nothing comes.
    """
    return earlier if store.full and done < earlier <= store.revision else 0


def to_defragment(store: Store) -> tuple[Member, ...]:
    """The members whose file is worth being written anew."""
    return tuple(member for member in store.members if _worth(member, full=store.full))


def opens(store: Store) -> bool:
    """Whether a full store has room again; a larger quota gives it too."""
    return store.full and store.size <= store.quota * _OPENS_BELOW_SHARE


def must_go(store: Store) -> int:
    """How many bytes have to be deleted before a full store is opened again; 0 where it can be opened as it is."""
    # A file that nothing would come of stays as large as it is.
    held = max((member.used if _worth(member, full=True) else member.size for member in store.members), default=0)
    return max(0, held - int(store.quota * _OPENS_BELOW_SHARE))


def _worth(member: Member, *, full: bool) -> bool:
    free, quota = member.size - member.used, member.quota
    if full:
        return member.size > quota * _OPENS_BELOW_SHARE and free >= quota * _WORTH_FREEING_SHARE_WHEN_FULL
    return member.size >= quota * _LARGE_SHARE and free >= quota * _WORTH_FREEING_SHARE


def store_of(members: Iterable[Member | str]) -> Store:
    """One answer of all members; one that did not answer makes nothing known."""
    found = list(members)
    silent = [member for member in found if isinstance(member, str)]
    return Store(unread=silent[0]) if silent else Store(tuple(member for member in found if isinstance(member, Member)))
