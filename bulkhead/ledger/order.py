"""Forms workloads, which are admitted in one piece, and says which of them is next.

    pods ──> workloads: single pods, whole gangs, what is missing of gangs that are admitted already
         └─> what cannot be admitted yet: gangs that are not complete, pods with gates of others
    workloads ──> Queue: a line for each tenant and quota, and of their first ones the first

Workloads that stay within their tenant's nominal quota come first, then those whose tenant would borrow least by weight; then
host priority and age decide. In a cohort without fair preemption, the missing members of an admitted gang come before other
borrowers, if their tenant borrows no more than when the gang was admitted. Inside a tenant its own priority counts too. A gang
is as old as the pod that completed it. If pods of a gang contradict each other, the larger size and the required topology hold,
so a contradiction brings no advantage. Pure; the same pods in any order give the same workloads.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from bulkhead.api.workloads import WorkloadKey
from bulkhead.ledger.account import Charge
from bulkhead.ledger.gangs import Fixed, Generation, fixed, generations, is_staying, lacking
from bulkhead.ledger.model import HELD, Amounts, Gang, Line, Needs, Pod, Stage, Topology

Key: TypeAlias = tuple[str, str, str]
# Workloads of one tenant that may be charged to the same lines wait in one line; others do not stand in their way. Who may have
# less to choose from, as what joins a gang has, is another: it would keep out those who have quota of another flavor.
_Line: TypeAlias = tuple[str, tuple[tuple[Line, ...], ...]]
# First who stays within nominal, then who completes a gang before others that borrow, then by the share that is borrowed.
Turn: TypeAlias = tuple[int, float]
_Said: TypeAlias = tuple[int, Topology | None, str]
Shape: TypeAlias = tuple[tuple[tuple[Needs, tuple[tuple[str, int], ...]], int], ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """What is admitted in one piece: the pods of it that wait."""

    tenant: str
    # Deterministic, unique: virtual namespace, name, UID of the first pod.
    key: Key
    pods: tuple[Pod, ...]
    asks: Amounts
    # What it asks for and where it may go: the same for all of the same shape.
    shape: Shape
    topology: Topology | None = None
    priority: int = 0
    own_priority: int = 0
    since: float = 0.0
    # All pods of a gang that is to be admitted.
    is_gang: bool = False
    # Pods of its gang are admitted already: what holds for these.
    rest_of: Fixed | None = None
    # That its gang runs on, which it goes back with; "" for any.
    flavor: str = ""
    # Something that its tenant should know whatever becomes of it.
    remark: str = ""

    @property
    def is_rest(self) -> bool:
        """Whether pods of its gang are admitted already."""
        return self.rest_of is not None

    @property
    def rank(self) -> tuple[bool, int, int, float, Key]:
        """Its place among those of its tenant."""
        return not self.is_rest, -self.priority, -self.own_priority, self.since, self.key

    @property
    def lasts(self) -> float | None:
        """How long it runs at most; None: unknown."""
        times = [pod.lasts for pod in self.pods]
        return None if None in times else max((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class Unready:
    """Pods that cannot be admitted whatever is free."""

    pods: tuple[Pod, ...]
    # Of a gang: how many there are, and how many there have to be.
    there: int = 0
    size: int = 0
    blocked: int = 0
    # They come after the pods of their gang.
    beyond: bool = False
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """What is held in one piece, and is taken back in one piece."""

    tenant: str
    key: Key
    pods: tuple[Pod, ...]
    # When it was admitted, whichever of its pods was made again since, and the lowest priority in it.
    since: float
    priority: int
    is_gang: bool
    # Of a gang: what tells it from others of its name, as its rest says it too.
    generation: float | None = None


@dataclass(slots=True)
class Sorted:
    """All pods of tenants, by what may become of them."""

    workloads: list[Workload] = field(default_factory=list)
    rests: list[Workload] = field(default_factory=list)
    unready: list[Unready] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


def age(pod: Pod) -> tuple[float, str, str, str]:
    """The order of pods that are alike otherwise."""
    return pod.created, pod.namespace, pod.name, pod.uid


def sort_out(pods: Iterable[Pod]) -> Sorted:
    """Put the pods of tenants together."""
    found = Sorted()
    gangs: dict[WorkloadKey, list[Pod]] = {}
    for pod in pods:
        if not pod.tenant:
            continue
        if pod.gang is not None:
            gangs.setdefault(pod.workload, []).append(pod)
        elif pod.stage in HELD:
            found.groups.append(_group((pod,)))
        elif not pod.ending:
            _single(pod, found)
    for members in gangs.values():
        _gang(members, found)
    found.rests.sort(key=lambda rest: (rest.tenant, rest.rank))
    found.groups.sort(key=lambda group: (group.tenant, group.key))
    return found


def _single(pod: Pod, found: Sorted) -> None:
    if pod.stage is Stage.BLOCKED:
        found.unready.append(Unready((pod,), blocked=1))
    else:
        found.workloads.append(_workload((pod,)))


def _gang(members: list[Pod], found: Sorted) -> None:
    """The gangs of one name: what of them is held, what waits, what is too much."""
    members.sort(key=age)
    held = [pod for pod in members if pod.stage in HELD]
    of_gangs = generations(held)
    found.groups.extend(_group(generation.pods, generation) for generation in of_gangs)
    found.groups.extend(_group((pod,)) for pod in held if pod.alone)
    waiting = [pod for pod in members if pod.stage not in HELD and not pod.ending]
    if not waiting:
        return
    # What is on its way out is no part of the gang any more: those that come in its stead start with each other.
    running = next((generation for generation in reversed(of_gangs) if generation.staying), None)
    known = [*(pod for generation in of_gangs for pod in generation.pods), *waiting]
    said = size, topology, remark = _agreed([pod.gang for pod in known if pod.gang is not None])
    if running is not None:
        _rest(waiting, running, said, found)
        return
    # Those that were beyond the size of a gang that is gone run on, and count.
    missing = size - sum(1 for pod in held if pod.alone and is_staying(pod))
    if missing <= 0:
        for pod in waiting:
            _single(pod, found)
        return
    # A pod with gates of others does not keep out one that has none.
    waiting.sort(key=lambda pod: pod.stage is Stage.BLOCKED)
    first, beyond = tuple(waiting[:missing]), tuple(waiting[missing:])
    blocked = sum(1 for pod in first if pod.stage is Stage.BLOCKED)
    if len(first) < missing or blocked:
        found.unready.append(Unready(first, size - missing + len(first), size, blocked, remark=remark))
    else:
        found.workloads.append(replace(_workload(first, topology, remark=remark), is_gang=True))
    if beyond:
        found.unready.append(Unready(beyond, size - missing + len(waiting), size, beyond=True, remark=remark))


def _rest(waiting: Sequence[Pod], running: Generation, said: _Said, found: Sorted) -> None:
    """What waits of a gang that is admitted: its members that come back first; then what else bears its name, pod by pod."""
    size, topology, remark = said
    now = fixed(running, size, topology)
    free = [pod for pod in waiting if pod.stage is Stage.WAITING]
    missing = tuple(lacking(running, free, size))
    back = {pod.uid for pod in missing}
    beside = [pod for pod in free if pod.uid not in back]
    if missing:
        found.rests.append(replace(_workload(missing, now.topology, remark=remark), rest_of=now, flavor=now.flavor))
        if beside:
            there = len(running.staying) + len(free)
            found.unready.append(Unready(tuple(beside), there, now.size, beyond=True, remark=remark))
    else:
        found.workloads.extend(replace(_workload((pod,)), flavor=now.flavor) for pod in beside)
    found.unready.extend(Unready((pod,), blocked=1) for pod in waiting if pod.stage is Stage.BLOCKED)


def _agreed(said: Sequence[Gang]) -> _Said:
    """What a gang's pods say of it: size, topology, and in what they contradict each other."""
    sizes = sorted({gang.size for gang in said})
    topologies = sorted(
        {gang.topology for gang in said},
        key=lambda topology: (topology is None, topology and (not topology.required, topology.key)),
    )
    remarks = []
    if len(sizes) > 1:
        remarks.append(f"its pods state sizes from {sizes[0]} to {sizes[-1]}: {sizes[-1]} applies")
    if len(topologies) > 1:
        remarks.append(
            "its pods state different topologies: " + (f"{topologies[0].key} applies" if topologies[0] else "none applies")
        )
    return sizes[-1], topologies[0], "; ".join(remarks)


def single(pod: Pod) -> Workload:
    """A pod by itself."""
    return _workload((pod,))


def _workload(pods: tuple[Pod, ...], topology: Topology | None = None, *, remark: str = "") -> Workload:
    first = pods[0]
    kinds = Counter((pod.needs, tuple(sorted(pod.asks.items()))) for pod in pods)
    asks: dict[str, int] = {}
    for (_, asked), times in kinds.items():
        for name, amount in asked:
            asks[name] = asks.get(name, 0) + amount * times
    return Workload(
        tenant=first.tenant,
        key=_key(first),
        pods=pods,
        asks=asks,
        shape=tuple(kinds.items()),
        topology=topology,
        priority=min(pod.priority for pod in pods),
        own_priority=min(pod.own_priority for pod in pods),
        since=max(pod.created for pod in pods),
        remark=remark,
    )


def _group(pods: tuple[Pod, ...], gang: Generation | None = None) -> Group:
    # By its first pod, and by the least of its priorities: neither a pod that was made again nor one that was added shields it.
    since = min(map(_since, pods)) if gang is None or gang.since is None else gang.since
    priority = min(pod.priority for pod in pods)
    generation = None if gang is None else gang.since
    return Group(pods[0].tenant, _key(pods[0]), pods, since, priority, gang is not None, generation)


def by_loss(groups: Iterable[Group]) -> list[Group]:
    """In the order in which one tenant's groups are taken back: the lowest priority first, then the newest.

    Of Slurm's workers, those that run nothing go before all else of their priority; the others share among themselves, by what
    is lost with each, the places that their ages give them.
    """
    found = sorted(groups, key=lambda group: (group.priority, _loss(group) >= 0, -group.since, group.key))
    places: dict[int, list[int]] = {}
    for place, group in enumerate(found):
        if _loss(group) > 0:
            places.setdefault(group.priority, []).append(place)
    for mine in places.values():
        workers = sorted((found[place] for place in mine), key=_loss)
        for place, group in zip(mine, workers, strict=True):
            found[place] = group
    return found


def _loss(group: Group) -> int:
    """What is lost with a worker, from 1 on where it runs anything; 0 for other pods and unknown workers."""
    loss = group.pods[0].loss
    return 0 if loss is None or group.is_gang else min(loss, -1) if loss < 0 else loss + 1


def _since(pod: Pod) -> float:
    return pod.created if pod.admitted is None else pod.admitted


def _key(pod: Pod) -> Key:
    return pod.virtual_namespace, pod.gang.name if pod.gang else pod.name, pod.uid


class Queue:
    """Which workload is next. What was taken and what is reserved since then changes the order of what is left."""

    def __init__(
        self,
        workloads: Iterable[Workload],
        charges: Callable[[Workload], Sequence[Charge]],
        turn: Callable[[Workload, Charge], Turn],
    ) -> None:
        # When a workload is to be judged, if it is charged that.
        self._turn = turn
        # What a workload may be charged, the best first.
        self._charges = charges
        self._lines: dict[_Line, list[Workload]] = {}
        for workload in workloads:
            self._lines.setdefault(self._line(workload), []).append(workload)
        self._heap: list[tuple[int, float, int, float, str, Key, _Line]] = []
        for line, them in self._lines.items():
            them.sort(key=lambda workload: workload.rank, reverse=True)
            self._push(line)

    def next(self) -> Workload | None:
        """The one that is first now; the tenant's next one is looked at when this one was judged."""
        if not self._heap:
            return None
        return self._lines[heapq.heappop(self._heap)[-1]][-1]

    def judged(self, workload: Workload) -> None:
        """The workload has had its turn."""
        line = self._line(workload)
        self._lines[line].pop()
        if self._lines[line]:
            self._push(line)

    def again(self, workload: Workload, charge: Charge) -> None:
        """The workload had its turn for its best flavor, and has another one for this."""
        self._put(self._line(workload), workload, [charge])

    def _line(self, workload: Workload) -> _Line:
        return workload.tenant, tuple(tuple(sorted(charge)) for charge in self._charges(workload))

    def _push(self, line: _Line) -> None:
        first = self._lines[line][-1]
        self._put(line, first, self._charges(first))

    def _put(self, line: _Line, first: Workload, charges: Sequence[Charge]) -> None:
        turn = min(self._turn(first, charge) for charge in charges)
        heapq.heappush(self._heap, (*turn, -first.priority, first.since, first.tenant, first.key, line))
