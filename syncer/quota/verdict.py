"""Whether a pod may wait at the ledger's gate, and which pods give up their place for it. Pure.

A pod at the gate counts in the tenant's quota like one that runs. So if the quota is full, a pod at the gate gives up its place
to a better one that waits in the plane. The answers:

    contradicts the other pods of its gang                    GangMismatch
    its workload requests more than can ever be in use        ExceedsQuota   waits for nothing, and does not hold up others
    a better workload waits for the same                      Behind
    not all of its workload that is to come has room          Lacks    victims give their place
    otherwise                                                 Fits

    needed    what a pod asks for, of a gang what all of it asks for that is not on the host yet
    victims   the worst workloads first, none of a better rank, none that was admitted, none that would not help, gangs whole

The order is strict, so no two pods ever take each other's place in turn.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from syncer.quota.heads import Head
from syncer.quota.order import Amounts, Gang, QueuedPod, QueueOrder
from syncer.quota.podset import PodSet


@dataclass(frozen=True, slots=True)
class Others:
    """The other pods of a pod's gang; none for a pod that starts by itself."""

    on_host: PodSet = field(default_factory=PodSet)  # or about to be
    in_plane: PodSet = field(default_factory=PodSet)
    all: PodSet = field(default_factory=PodSet)

    @property
    def first(self) -> QueuedPod | None:
        """Whose word on the gang counts."""
        return self.on_host.first() or self.in_plane.first()


NO_PODS: Final = Others()


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """A resource as the syncer counts it, or the host where only that does."""

    limit: int
    used: int


@dataclass(frozen=True, slots=True)
class GangMismatch:
    """A pod that came before says something else of the gang."""

    pod: str
    theirs: Gang
    own: Gang


@dataclass(frozen=True, slots=True)
class ExceedsQuota:
    """The least that the workload asks for of a resource is more than can ever be in use."""

    resource: str
    least: int
    # Whether its gang has enough other pods that may be whole without it: they stay where they are.
    surplus: bool


@dataclass(frozen=True, slots=True)
class Behind:
    """There may be room, and a better workload waits for it."""


@dataclass(frozen=True, slots=True)
class Lacks:
    """What the workload needs, and how much of it there is no room for."""

    needed: Amounts
    lacking: Amounts


@dataclass(frozen=True, slots=True)
class Fits:
    """It may go to the host."""


Verdict: TypeAlias = GangMismatch | ExceedsQuota | Behind | Lacks | Fits


def judge(entry: QueuedPod, others: Others, heads: Iterable[Head], lines: Mapping[str, ResourceUse]) -> Verdict:
    """What becomes of a pod; `heads` are the best of those that wait for what it asks for."""
    first = others.first
    if entry.gang is not None and first is not None and first.gang is not None and first.gang != entry.gang:
        return GangMismatch(first.key.name, first.gang, entry.gang)
    for name, least in at_least(entry, others).items():
        if name in lines and least > lines[name].limit:
            return ExceedsQuota(name, least, surplus=_are_enough(entry, others, name, lines[name].limit))
    best = rank_of(entry, others)
    if any(head.workload != entry.workload and head.rank < best for head in heads):
        return Behind()
    return lacks(entry, others, lines) or Fits()


def _are_enough(entry: QueuedPod, others: Others, name: str, limit: int) -> bool:
    """Whether the other pods of a gang make a whole one that may be in use."""
    size = 1 if entry.gang is None else entry.gang.size
    return len(others.all) >= size and others.all.sum_of_smallest(name, size) <= limit


def lacks(entry: QueuedPod, others: Others, lines: Mapping[str, ResourceUse]) -> Lacks | None:
    """The resources for which its workload has no room; a resource without a line always has room."""
    asked = needed(entry, others)
    short = {name: number - (lines[name].limit - lines[name].used) for name, number in asked.items() if name in lines}
    lacking = {name: number for name, number in short.items() if number > 0}
    return Lacks(asked, lacking) if lacking else None


def rank_of(entry: QueuedPod, others: Others) -> QueueOrder:
    """The rank of a pod's workload."""
    return min(entry.rank, others.all.rank)


def needed(entry: QueuedPod, others: Others) -> dict[str, int]:
    """What the workload of a pod asks for until it is whole."""
    missing = 0 if entry.gang is None else entry.gang.size - len(others.on_host) - 1
    if missing <= 0:
        return dict(entry.asks)
    return {name: own + _rest(name, missing, others.in_plane, others.all.least(name, own)) for name, own in entry.asks.items()}


def at_least(entry: QueuedPod, others: Others) -> dict[str, int]:
    """The least that the workload of a pod can ask for when it is whole."""
    missing = 0 if entry.gang is None else entry.gang.size - 1
    return {name: own + _rest(name, missing, others.all, others.all.least(name, own)) for name, own in entry.asks.items()}


def victims(rank: QueueOrder, lacking: Amounts, worst_first: Iterable[tuple[QueueOrder, PodSet]]) -> list[QueuedPod]:
    """The pods on the host that give their place to a workload of this rank; none where that would not make enough room."""
    chosen: list[PodSet] = []
    left = dict(lacking)
    for its_rank, workload in worst_first:
        if its_rank <= rank or _enough(left):
            break
        if workload.movable and any(workload.total(name) for name in lacking):
            chosen.append(workload)
            left = {name: number - workload.total(name) for name, number in left.items()}
    if not _enough(left):
        return []
    # The better of them are spared where the worse ones alone make enough room.
    kept: list[PodSet] = []
    for workload in reversed(chosen):
        spared = {name: number + workload.total(name) for name, number in left.items()}
        if _enough(spared):
            left = spared
        else:
            kept.append(workload)
    return [entry for workload in reversed(kept) for entry in workload]


def _rest(name: str, missing: int, known: PodSet, least: int) -> int:
    """The least that this many further pods of a gang request; unseen pods count as the smallest one."""
    return known.sum_of_smallest(name, missing) + least * max(0, missing - len(known))


def _enough(lacking: Amounts) -> bool:
    return all(number <= 0 for number in lacking.values())
