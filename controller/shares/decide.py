"""Decides the steps by which a plane gets its shared objects, and loses copies that are no longer wanted. Pure.

    shares + sources ──> the wanted copies ──────────┬─ missing ───────────────────────> Create
    namespaces ────────────────────────────────────> │  changed since our last write ──> Replace
    existing copies, by their label ───────────────> │  not wanted ────────────────────> Remove
    default ServiceAccounts ───────────────────────> └─ another list of pull secrets ──> Point

Only the versions of existing copies are read, not their content. A copy is up to date as long as it has the version of our last
write with the same content. A write without a change leaves the version alone, so one more write after any change settles it.
Each step names the UID and version of its object, so it never touches an object that has replaced another one.

An object without our label belongs to the tenant. It is never written or removed: if `Create` finds one, that is a conflict.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from controller.shares.content import PULLS, Absent, Content, Source, Unusable
from controller.shares.spec import Item, Share

# The most bytes of all copies in one plane: they are stored in the tenant's etcd, which is not large.
ALL_COPIES_BYTES: Final = 32 * 1024 * 1024
MOST_COPIES: Final = 2000


class Slot(NamedTuple):
    """The kind, namespace and name of a copy."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """The object as people name it."""
        return f"{self.kind} {self.namespace}/{self.name}"


class Left(NamedTuple):
    """A copy after our last write: the content, and the version that it had before."""

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
    """A ServiceAccount `default`: its pull secrets, and those of them that the platform has added."""

    namespace: str
    uid: str
    version: str
    pulls: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Interior:
    """The namespaces, copies and ServiceAccounts of a plane."""

    spaces: tuple[Space, ...] = ()
    copies: tuple[Copy, ...] = ()
    accounts: tuple[Account, ...] = ()


@dataclass(frozen=True, slots=True)
class Create:
    """Create a missing copy."""

    slot: Slot
    content: Content


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace an existing copy."""

    slot: Slot
    content: Content
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a copy that is no longer wanted."""

    slot: Slot
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Point:
    """Write the pull secrets of a ServiceAccount, and which of them the platform has added."""

    account: Account
    pulls: tuple[str, ...]
    ours: tuple[str, ...]


Step: TypeAlias = Create | Replace | Remove | Point


def slot_of(step: Step) -> Slot:
    """What a step writes."""
    return Slot("ServiceAccount", step.account.namespace, "default") if isinstance(step, Point) else step.slot


def in_turn(steps: Iterable[Step], refused: Container[Slot]) -> list[Step]:
    """The steps in the order in which they are tried: those that the plane has refused come last.

    A look ends after a few refusals. Otherwise a webhook of the tenant's that refuses copies in some namespaces would keep all
    others from getting theirs.
    """
    return sorted(steps, key=lambda step: slot_of(step) in refused)


@dataclass(frozen=True, slots=True)
class Decision:
    """The steps to do, and the troubles that prevent others."""

    steps: tuple[Step, ...]
    wanted: frozenset[Slot] = frozenset()
    troubles: tuple[str, ...] = ()
    waits: bool = False  # whether a namespace still lacks an object, such as its ServiceAccount


def decide(
    shares: Iterable[Share],
    sources: Mapping[Item, Source],
    there: Interior,
    left: Mapping[Slot, Left],
    conflicts: Mapping[Slot, bool],
) -> Decision:
    """The steps for one plane; `conflicts` are slots with objects of the tenant, and whether it is time to try them again."""
    shares = tuple(shares)
    troubles = [f"{item.kind} {item.name}: {why}" for item, why in _troubles(shares, sources)]
    wanted, beyond = _wanted(shares, sources, there.spaces)
    if beyond:
        troubles.append(
            f"{beyond} copies are left out: one plane has at most {MOST_COPIES} copies of {ALL_COPIES_BYTES} bytes in all"
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
    standing = frozenset(share.item.name for share in shares if share.pulls and share.item in held)
    steps += _points(pulls, there.accounts, standing)
    waits = bool(pulls.keys() - {account.namespace for account in there.accounts})
    return Decision(tuple(steps), frozenset(wanted), tuple(troubles), waits)


def _troubles(shares: Iterable[Share], sources: Mapping[Item, Source]) -> Iterator[tuple[Item, str]]:
    for share in shares:
        source = sources[share.item]
        if isinstance(source, Unusable):
            yield share.item, source.why
        elif isinstance(source, Absent):
            yield share.item, "the host has no object of this name"
        elif share.pulls and source.type != PULLS:
            yield share.item, f"a pull secret must be of type {PULLS}, not {source.type}"


def _wanted(
    shares: Iterable[Share], sources: Mapping[Item, Source], spaces: Iterable[Space]
) -> tuple[dict[Slot, Content], int]:
    """The wanted copies, as many as one plane may have, and how many are left out."""
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
    """The pull secrets that the default ServiceAccount of each namespace should name."""
    pulling = {share.item for share in shares if share.pulls}
    found: dict[str, tuple[str, ...]] = {}
    for slot in sorted(slots):
        if Item(slot.kind, slot.name) in pulling and wanted[slot].type == PULLS:
            found[slot.namespace] = (*found.get(slot.namespace, ()), slot.name)
    return found


def _points(pulls: Mapping[str, tuple[str, ...]], accounts: Iterable[Account], standing: frozenset[str]) -> Iterator[Point]:
    """The ServiceAccounts whose list must change. Entries that the tenant added stay, in their order.

    So do those of `standing`, of which nothing is known now and whose copies stay as well.
    """
    for account in accounts:
        wanted = tuple(sorted({*pulls.get(account.namespace, ()), *(name for name in account.ours if name in standing)}))
        kept = tuple(name for name in account.pulls if name in wanted or name not in account.ours)
        named = (*kept, *(name for name in wanted if name not in kept))
        ours = tuple(name for name in wanted if name not in account.pulls or name in account.ours)
        if named != account.pulls or ours != account.ours:
            yield Point(account, named, ours)
