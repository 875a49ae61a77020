"""What is to be done in a plane so that it holds its shared objects and nothing else of ours. Pure.

    shares + sources ──> the copies that are wanted ─┬─ not there ─────────────────────> Create
    namespaces ────────────────────────────────────> │  there, and not as it was left ─> Replace
    copies there, by their label ──────────────────> │  there, and not wanted ─────────> Remove
    default ServiceAccounts ───────────────────────> └─ another list of pull secrets ──> Point

Of copies that are there only their versions are read, and not what they hold. A copy is as it should be while its version is
the one that it had when it was last written with the same content: writing what is there already changes no version, so after
a change one more write settles it, whoever made it. Each step names UID and version of what it is for, so that none ever
touches an object that was put into the place of another.

What has not our label is the tenant's. It is never written and never removed: `Create` finds out, and that is a conflict.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from controller.shares.content import PULLS, Absent, Content, Source, Unusable
from controller.shares.spec import Item, Share

# What all copies in one plane may hold together: they lie in the tenant's etcd, which is not large.
ALL_COPIES_BYTES: Final = 32 * 1024 * 1024
MOST_COPIES: Final = 2000


class Slot(NamedTuple):
    """A place for a copy."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as people name an object."""
        return f"{self.kind} {self.namespace}/{self.name}"


class Left(NamedTuple):
    """How a copy was left by the last write: the content, and the version that it had before."""

    digest: str
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Space:
    """A namespace of the plane."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    going: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """An object of the plane that carries our label."""

    slot: Slot
    uid: str
    version: str
    going: bool = False


@dataclass(frozen=True, slots=True)
class Account:
    """A ServiceAccount `default`: what it pulls with, and what of it we have put there."""

    namespace: str
    uid: str
    version: str
    pulls: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Interior:
    """What there is in a plane."""

    spaces: tuple[Space, ...] = ()
    copies: tuple[Copy, ...] = ()
    accounts: tuple[Account, ...] = ()


@dataclass(frozen=True, slots=True)
class Create:
    """A copy where none of ours is."""

    slot: Slot
    content: Content


@dataclass(frozen=True, slots=True)
class Replace:
    """A copy in the place of one of ours."""

    slot: Slot
    content: Content
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Remove:
    """One of ours that is not wanted any more."""

    slot: Slot
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Point:
    """The list of pull secrets of a ServiceAccount, and what of it is ours."""

    account: Account
    pulls: tuple[str, ...]
    ours: tuple[str, ...]


Step: TypeAlias = Create | Replace | Remove | Point


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done, and what cannot be."""

    steps: tuple[Step, ...]
    wanted: frozenset[Slot] = frozenset()
    troubles: tuple[str, ...] = ()
    waits: bool = False  # whether something that belongs to a namespace is not there yet


def decide(
    shares: Iterable[Share],
    sources: Mapping[Item, Source],
    there: Interior,
    left: Mapping[Slot, Left],
    conflicts: Mapping[Slot, bool],
) -> Decision:
    """The steps for one plane; `conflicts` are places that were found taken, and whether it is time to try them again."""
    shares = tuple(shares)
    troubles = [f"{item.kind} {item.name}: {why}" for item, why in _troubles(shares, sources)]
    wanted, beyond = _wanted(shares, sources, there.spaces)
    if beyond:
        troubles.append(
            f"{beyond} copies are left out: all in one plane are at most {MOST_COPIES}, of {ALL_COPIES_BYTES} bytes"
        )
    held = {item for item, source in sources.items() if isinstance(source, Unusable)}
    copies = {copy.slot: copy for copy in there.copies}
    steps: list[Step] = []
    for slot, content in wanted.items():
        copy = copies.get(slot)
        if copy is None:
            steps += [Create(slot, content)] if conflicts.get(slot, True) else []
        elif not copy.going and left.get(slot) != Left(content.digest, copy.uid, copy.version):
            steps.append(Replace(slot, content, copy.uid, copy.version))
    steps += [
        Remove(copy.slot, copy.uid, copy.version)
        for copy in there.copies
        if copy.slot not in wanted and not copy.going and Item(copy.slot.kind, copy.slot.name) not in held
    ]
    pulls = _pulls(shares, [slot for slot in wanted if slot not in conflicts], wanted)
    steps += _points(pulls, there.accounts)
    waits = bool(pulls.keys() - {account.namespace for account in there.accounts})
    return Decision(tuple(steps), frozenset(wanted), tuple(troubles), waits)


def _troubles(shares: Iterable[Share], sources: Mapping[Item, Source]) -> Iterator[tuple[Item, str]]:
    for share in shares:
        source = sources[share.item]
        if isinstance(source, Unusable):
            yield share.item, source.why
        elif isinstance(source, Absent):
            yield share.item, "the host has none of this name"
        elif share.pulls and source.type != PULLS:
            yield share.item, f"it is no pull secret: its type is {source.type}, and not {PULLS}"


def _wanted(
    shares: Iterable[Share], sources: Mapping[Item, Source], spaces: Iterable[Space]
) -> tuple[dict[Slot, Content], int]:
    """The copies that are to be there, as many as go into one plane, and how many are left out."""
    found: dict[Slot, Content] = {}
    size = beyond = 0
    live = sorted((space for space in spaces if not space.going), key=lambda space: space.name)
    for share in shares:
        content = sources[share.item]
        if not isinstance(content, Content):
            continue
        for space in live:
            if not share.where.covers(space.name, space.labels):
                continue
            if len(found) >= MOST_COPIES or size + content.size > ALL_COPIES_BYTES:
                beyond += 1
                continue
            size += content.size
            found[Slot(share.item.kind, space.name, share.item.name)] = content
    return found, beyond


def _pulls(shares: Iterable[Share], slots: Iterable[Slot], wanted: Mapping[Slot, Content]) -> dict[str, tuple[str, ...]]:
    """Which pull secrets the default ServiceAccount of each namespace is to name."""
    pulling = {share.item for share in shares if share.pulls}
    found: dict[str, tuple[str, ...]] = {}
    for slot in sorted(slots):
        if Item(slot.kind, slot.name) in pulling and wanted[slot].type == PULLS:
            found[slot.namespace] = (*found.get(slot.namespace, ()), slot.name)
    return found


def _points(pulls: Mapping[str, tuple[str, ...]], accounts: Iterable[Account]) -> Iterator[Point]:
    """What is the tenant's own in a list stays there, in its order."""
    for account in accounts:
        wanted = pulls.get(account.namespace, ())
        kept = tuple(name for name in account.pulls if name in wanted or name not in account.ours)
        named = (*kept, *(name for name in wanted if name not in kept))
        ours = tuple(name for name in wanted if name not in account.pulls or name in account.ours)
        if named != account.pulls or ours != account.ours:
            yield Point(account, named, ours)
