"""Which of a tenant's pods wait on the host, where not all may: the best by priority and age, and gangs whole. Pure.

A pod that waits at the ledger's gate counts in the tenant's quota as one that runs. So where the quota is full, a pod that is
worse than one that waits in the plane gives its place, and nothing else is done with it:

    rank      host priority, then the tenant's own, then age; no two pods have the same one
    workload  a pod, or all pods of a gang; its rank is that of its best pod
    needed    what a pod asks for, of a gang what all of it asks for that is not on the host yet
    victims   the worst workloads first, none of a better rank, none that was admitted, none that would not help, gangs whole

The order is strict, so no two pods ever take each other's place in turn.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from bulkhead.kube.objects import Key

Amounts: TypeAlias = Mapping[str, int]
# The smaller is the better: negated priorities, when the virtual pod was made, its UID.
Rank: TypeAlias = tuple[int, int, str, str]
LAST: Final[Rank] = (1 << 32, 0, "", "")


@dataclass(frozen=True, slots=True)
class Gang:
    """Of which gang a pod is, and what it says of it."""

    namespace: str
    name: str
    size: int
    topology: str = ""

    @property
    def key(self) -> Key:
        """The same for all of its pods, whatever they say of its size."""
        return Key(self.namespace, self.name)

    @property
    def said(self) -> str:
        """What a pod says of it, in words."""
        return f"{self.size} pods" + (f" with topology {self.topology}" if self.topology else "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One pod, of those that are on the host or want to be."""

    key: Key
    rank: Rank
    asks: Amounts
    gang: Gang | None = None
    # On the host, where it bears the ledger's gate: nothing but a place in the queue would be lost.
    movable: bool = False
    uid: str = ""

    @property
    def workload(self) -> tuple[str, Key]:
        """What is moved in one piece with it."""
        return ("Pod", self.key) if self.gang is None else ("Gang", self.gang.key)


def rank_of(entries: Iterable[Entry]) -> Rank:
    """The rank of a workload with these pods."""
    return min((each.rank for each in entries), default=LAST)


def needed(entry: Entry, there: Sequence[Entry], waiting: Iterable[Entry]) -> dict[str, int]:
    """What the workload of a pod asks for until it is whole; `there` and `waiting` are the other pods of its gang."""
    missing = 0 if entry.gang is None else entry.gang.size - len(there) - 1
    if missing <= 0:
        return dict(entry.asks)
    others = [each for each in waiting if each.key != entry.key]
    return {name: own + _of_rest(name, own, missing, others, there) for name, own in entry.asks.items()}


def at_least(entry: Entry, others: Sequence[Entry]) -> dict[str, int]:
    """The least that the workload of a pod can ask for when it is whole; `others` are the other pods of its gang."""
    if entry.gang is None:
        return dict(entry.asks)
    return {name: own + _of_rest(name, own, entry.gang.size - 1, others, ()) for name, own in entry.asks.items()}


def victims(rank: Rank, lacking: Amounts, there: Iterable[Entry]) -> list[Entry]:
    """The pods on the host that give their place to a workload of this rank; none where that would not make enough room."""
    workloads: dict[tuple[str, Key], list[Entry]] = {}
    for each in there:
        workloads.setdefault(each.workload, []).append(each)
    worse = [
        (rank_of(pods), pods)
        for pods in workloads.values()
        if all(each.movable for each in pods) and any(each.asks.get(name) for each in pods for name in lacking)
    ]
    worse = sorted((each for each in worse if each[0] > rank), key=lambda each: each[0], reverse=True)
    chosen: list[list[Entry]] = []
    left = dict(lacking)
    for _, pods in worse:
        if _enough(left):
            break
        chosen.append(pods)
        left = _less(left, pods)
    if not _enough(left):
        return []
    # The better of them are spared where the worse ones alone make enough room.
    for pods in reversed(list(chosen)):
        if _enough(spared := _more(left, pods)):
            chosen.remove(pods)
            left = spared
    return [each for pods in chosen for each in pods]


def _of_rest(name: str, own: int, missing: int, others: Sequence[Entry], there: Sequence[Entry]) -> int:
    """What so many further pods of a gang ask for at least; those that nobody has seen ask for as little as any."""
    known = sorted(each.asks.get(name, 0) for each in others)[:missing]
    least = min([own, *known, *(each.asks.get(name, 0) for each in there)])
    return sum(known) + least * (missing - len(known))


def _enough(lacking: Amounts) -> bool:
    return all(number <= 0 for number in lacking.values())


def _less(lacking: Amounts, pods: Iterable[Entry]) -> dict[str, int]:
    return {name: number - sum(each.asks.get(name, 0) for each in pods) for name, number in lacking.items()}


def _more(lacking: Amounts, pods: Iterable[Entry]) -> dict[str, int]:
    return {name: number + sum(each.asks.get(name, 0) for each in pods) for name, number in lacking.items()}
