"""Forms workloads, which are admitted in one piece, and decides which of them is next.

    pods ──> workloads: single pods, whole gangs, missing members of gangs that are admitted already
         └─> pods that cannot be admitted yet: incomplete gangs, pods with other gates
    workloads ──> Queue: one queue for each tenant and quota; next is the best of their first workloads

Workloads that stay within their tenant's nominal quota come first. Then come those whose tenant would borrow least by weight;
then host priority and age decide. In a cohort without fair preemption, the missing members of an admitted gang come before
other borrowers, if their tenant borrows no more than when the gang was admitted. Inside a tenant its own priority counts too. A
gang is as old as the pod that completed it. If pods of a gang contradict each other, the larger size and the required topology
apply, so a contradiction brings no advantage. Pure; the same pods in any order give the same workloads.
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
# Workloads of one tenant that may be charged to the same lines of quota wait in one queue, and do not delay others. A workload
# with fewer choices, such as a missing member of a gang, has another queue: it would delay workloads with quota of other
# flavors.
_Line: TypeAlias = tuple[str, tuple[tuple[Line, ...], ...]]
# 0: within nominal; 1: completes a gang before other borrowers; 2: borrows. Among borrowers, the smaller share comes first.
Turn: TypeAlias = tuple[int, float]
_Agreed: TypeAlias = tuple[int, Topology | None, str]
Shape: TypeAlias = tuple[tuple[tuple[Needs, tuple[tuple[str, int], ...]], int], ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods that wait and are admitted in one piece."""

    tenant: str
    # Deterministic, unique: virtual namespace, name, UID of the first pod.
    key: Key
    pods: tuple[Pod, ...]
    asks: Amounts
    # What it requests and where it may go; workloads with the same shape are interchangeable.
    shape: Shape
    topology: Topology | None = None
    priority: int = 0
    own_priority: int = 0
    since: float = 0.0
    # It is a whole gang that is not admitted yet.
    is_gang: bool = False
    # If pods of its gang are admitted already, the rules that were fixed then.
    rest_of: Fixed | None = None
    # The flavor of the gang that it joins; "" for any.
    flavor: str = ""
    # A sentence that its tenant should read with every verdict.
    remark: str = ""

    @property
    def is_rest(self) -> bool:
        """Whether pods of its gang are admitted already."""
        return self.rest_of is not None

    @property
    def rank(self) -> tuple[bool, int, int, float, Key]:
        """Its sort key among the workloads of its tenant; the smallest comes first."""
        return not self.is_rest, -self.priority, -self.own_priority, self.since, self.key

    @property
    def lasts(self) -> float | None:
        """How many seconds it runs at most; None: unknown."""
        times = [pod.lasts for pod in self.pods]
        return None if None in times else max((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class Unready:
    """Pods that cannot be admitted, however much is free."""

    pods: tuple[Pod, ...]
    # For a gang: how many pods exist, how many must exist, and how many have gates of their own.
    there: int = 0
    size: int = 0
    blocked: int = 0
    # They exceed the size of their gang, and wait until it has started.
    beyond: bool = False
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that hold quota, and are reclaimed in one piece."""

    tenant: str
    key: Key
    pods: tuple[Pod, ...]
    # When it was first admitted, even if pods were recreated since, and the lowest priority of its pods.
    since: float
    priority: int
    is_gang: bool
    # For a gang: its admission time, which distinguishes it from other gangs of its name; its rest has the same.
    generation: float | None = None


@dataclass(slots=True)
class Sorted:
    """All pods of tenants, by what may become of them."""

    workloads: list[Workload] = field(default_factory=list)
    rests: list[Workload] = field(default_factory=list)
    unready: list[Unready] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


def age(pod: Pod) -> tuple[float, str, str, str]:
    """The sort key of pods: the oldest first, then by name."""
    return pod.created, pod.namespace, pod.name, pod.uid


def sort_out(pods: Iterable[Pod]) -> Sorted:
    """Sort the pods of tenants into workloads, rests of gangs, pods that are not ready, and groups that hold quota."""
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
    """Sort the pods of all gangs of one name: those that hold quota, those that wait, those beyond the gang's size."""
    members.sort(key=age)
    held = [pod for pod in members if pod.stage in HELD]
    of_gangs = generations(held)
    found.groups.extend(_group(generation.pods, generation) for generation in of_gangs)
    found.groups.extend(_group((pod,)) for pod in held if pod.alone)
    waiting = [pod for pod in members if pod.stage not in HELD and not pod.ending]
    if not waiting:
        return
    # Pods on their way out no longer belong to the gang: their replacements start together, and may be fewer.
    running = next((generation for generation in reversed(of_gangs) if generation.staying), None)
    known = [*(pod for generation in of_gangs for pod in generation.staying), *waiting]
    agreed = size, topology, remark = _agreed([pod.gang for pod in known if pod.gang is not None])
    if running is not None:
        _rest(waiting, running, agreed, found)
        return
    # Pods that exceeded the size of a gang that is gone still run, and count.
    missing = size - sum(1 for pod in held if pod.alone and is_staying(pod))
    if missing <= 0:
        for pod in waiting:
            _single(pod, found)
        return
    # A pod with other gates must not take the place of a pod without.
    waiting.sort(key=lambda pod: pod.stage is Stage.BLOCKED)
    first, beyond = tuple(waiting[:missing]), tuple(waiting[missing:])
    blocked = sum(1 for pod in first if pod.stage is Stage.BLOCKED)
    if len(first) < missing or blocked:
        found.unready.append(Unready(first, size - missing + len(first), size, blocked, remark=remark))
    else:
        found.workloads.append(replace(_workload(first, topology, remark=remark), is_gang=True))
    if beyond:
        found.unready.append(Unready(beyond, size - missing + len(waiting), size, beyond=True, remark=remark))


def _rest(waiting: Sequence[Pod], running: Generation, agreed: _Agreed, found: Sorted) -> None:
    """Sort the waiting pods of an admitted gang: first its returning members, then other pods of its name, one by one."""
    size, topology, remark = agreed
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


def _agreed(stated: Sequence[Gang]) -> _Agreed:
    """The size and topology that apply, as a gang's pods state them, and a remark if they contradict each other."""
    sizes = sorted({gang.size for gang in stated})
    topologies = sorted(
        {gang.topology for gang in stated},
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
    """A workload of one pod."""
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
    # Its first pod and its lowest priority count, so that neither a recreated nor an added pod protects it from a reclaim.
    since = min(map(_since, pods)) if gang is None or gang.since is None else gang.since
    priority = min(pod.priority for pod in pods)
    generation = None if gang is None else gang.since
    return Group(pods[0].tenant, _key(pods[0]), pods, since, priority, gang is not None, generation)


def by_loss(groups: Iterable[Group]) -> list[Group]:
    """The groups of one tenant in the order in which they are reclaimed: the lowest priority first, then the newest.

    Slurm workers that run nothing come before all other pods of their priority. The other workers exchange their places among
    themselves, so that the worker with the smallest loss comes first.
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
    """How much work is lost with a worker: at least 1 if it runs anything; 0 for other pods and unknown workers."""
    loss = group.pods[0].loss
    return 0 if loss is None or group.is_gang else min(loss, -1) if loss < 0 else loss + 1


def _since(pod: Pod) -> float:
    return pod.created if pod.admitted is None else pod.admitted


def _key(pod: Pod) -> Key:
    return pod.virtual_namespace, pod.gang.name if pod.gang else pod.name, pod.uid


class Queue:
    """Decides which workload is next. Admissions and reservations change the order of the workloads that are left."""

    def __init__(
        self,
        workloads: Iterable[Workload],
        charges: Callable[[Workload], Sequence[Charge]],
        turn: Callable[[Workload, Charge], Turn],
    ) -> None:
        # The turn of a workload with a charge.
        self._turn = turn
        # The charges that a workload may have, preferred ones first.
        self._charges = charges
        self._lines: dict[_Line, list[Workload]] = {}
        for workload in workloads:
            self._lines.setdefault(self._line(workload), []).append(workload)
        self._heap: list[tuple[int, float, int, float, str, Key, _Line]] = []
        for line, them in self._lines.items():
            them.sort(key=lambda workload: workload.rank, reverse=True)
            self._push(line)

    def next(self) -> Workload | None:
        """The first workload now; None if all are judged. Call `judged` or `again` for it before the next call."""
        if not self._heap:
            return None
        return self._lines[heapq.heappop(self._heap)[-1]][-1]

    def judged(self, workload: Workload) -> None:
        """The workload has had its last turn."""
        line = self._line(workload)
        self._lines[line].pop()
        if self._lines[line]:
            self._push(line)

    def again(self, workload: Workload, charge: Charge) -> None:
        """Give the workload another turn with this charge; it has had the turn of its best flavor."""
        self._put(self._line(workload), workload, [charge])

    def _line(self, workload: Workload) -> _Line:
        return workload.tenant, tuple(tuple(sorted(charge)) for charge in self._charges(workload))

    def _push(self, line: _Line) -> None:
        first = self._lines[line][-1]
        self._put(line, first, self._charges(first))

    def _put(self, line: _Line, first: Workload, charges: Sequence[Charge]) -> None:
        turn = min(self._turn(first, charge) for charge in charges)
        heapq.heappush(self._heap, (*turn, -first.priority, first.since, first.tenant, first.key, line))
