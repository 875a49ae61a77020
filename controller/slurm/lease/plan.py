"""Plans the elastic lease: how many workers each NodeSet should have, and the next writes towards that. Pure.

    workers that the ledger reclaims ──> release, by the ledger's deadline
    the rest: view, pods, bounds ──> targets (demand, idleness, `kubectl scale`) ──┬─ fewer than wanted ──> pods to create
                                                                                  └─ more than wanted ──> release

The wanted number of workers is the NodeSet's own replicas: `kubectl scale` and the lease both write it, and within `min` and
`max` the last write counts, until jobs need more or workers have idled long enough. The view is None if Slurm did not answer:
then workers are created, but none is released before its deadline.

The ledger decides which worker it reclaims, by the losses that `release.loss` computes. Here that worker counts as gone. If its
set needs another worker, that one waits in the ledger's queue like any other pod, and is given up once no job needs it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from controller.slurm.answers.view import SlurmNode, SlurmView
from controller.slurm.lease.demand import Demand, demand
from controller.slurm.lease.fleet import (
    Action,
    Cancel,
    CreateWorker,
    DeleteNode,
    DeleteNodeSet,
    DeleteWorker,
    Down,
    Drain,
    Fleet,
    Free,
    Resume,
    SetReplicas,
    Signal,
    Undrain,
    Worker,
)
from controller.slurm.lease.notes import notes
from controller.slurm.lease.reasons import deadline_in, is_taken
from controller.slurm.lease.release import is_leaving, release
from controller.slurm.spec import REASON_PREFIX, NodeSetSpec, SlurmSpec

CORDON: Final = f"{REASON_PREFIX} node "
LOST: Final = f"{REASON_PREFIX} the worker's pod is gone"
REPLACING: Final = timedelta(days=30)
_JOB_SETTLES_FOR: Final = timedelta(seconds=2)  # how long a job must wait before a worker is created for it
_MOST_NEW_WORKERS: Final = 32


@dataclass(frozen=True, slots=True)
class _Case:
    """What is the same for all NodeSets."""

    spec: SlurmSpec
    view: SlurmView | None
    fleet: Fleet
    now: datetime
    # Worker -> the deadline of its reclaim.
    taken: Mapping[str, datetime]

    def staying(self, node_set: str) -> tuple[Worker, ...]:
        """The live workers of a NodeSet without those that are being reclaimed."""
        return tuple(worker for worker in self.fleet.of(node_set) if worker.name not in self.taken)


def plan_leases(spec: SlurmSpec, view: SlurmView | None, fleet: Fleet, now: datetime) -> tuple[Action, ...]:
    """The next writes for all NodeSets."""
    case = _Case(spec, view, fleet, now, _taken(view, fleet))
    found = _demand(case)
    targets = _targets(case, found)
    actions: list[Action] = list(_back(case))
    free = dict(fleet.free)
    for node_set in spec.node_sets:
        target = targets[node_set.name]
        if fleet.targets.get(node_set.name) != target:
            actions.append(SetReplicas(node_set.name, target))
        actions += _missing(case, node_set, target, free)
        actions += _surplus(case, node_set, target, found.needed if found is not None else frozenset())
    actions += _orphans(case)
    ended = (worker for worker in fleet.workers if worker.finished and not worker.deleting)
    actions += [DeleteWorker(worker.name, worker.uid, "has ended") for worker in ended]
    if view is not None:
        drained = {action.node for action in actions if isinstance(action, Drain | Down)}
        actions += [action for action in _host_nodes(view, fleet) if action.node not in drained]
        actions += _records(spec, view, fleet)
        actions += _abandoned(spec, view, fleet)
        actions += _retired(spec, view, fleet)
        actions += notes(view, fleet)
    return tuple(_signalled_once(actions))


def _signalled_once(actions: Iterable[Action]) -> Iterable[Action]:
    """The actions with only one signal for each job, even if it runs on two workers that are released."""
    jobs: set[int] = set()
    for action in actions:
        if not isinstance(action, Signal):
            yield action
        elif action.job not in jobs:
            jobs.add(action.job)
            yield action


def _taken(view: SlurmView | None, fleet: Fleet) -> Mapping[str, datetime]:
    """The deadlines of workers that the ledger reclaims; if it does not report, those in the reasons of drains."""
    if fleet.taken is not None:
        return fleet.taken
    nodes = view.nodes if view is not None else ()
    drained = {node.name: deadline_in(node.reason) for node in nodes if node.draining and is_taken(node.reason)}
    return {name: by for name, by in drained.items() if by is not None}


def _back(case: _Case) -> Iterable[Action]:
    """The actions for reclaimed workers, of all NodeSets."""
    for worker in case.fleet.workers:
        by = case.taken.get(worker.name)
        if by is not None and worker.live:
            yield from _given(case, (worker,), 1, grace=case.spec.lease.grace, by=by, taken=True)


def _demand(case: _Case) -> Demand | None:
    """What the waiting jobs need of the elastic NodeSets; None if there is none, or no answer from Slurm."""
    fleet, view = case.fleet, case.view
    elastic = [node_set for node_set in case.spec.node_sets if node_set.elastic]
    if view is None or not elastic:
        return None
    return demand(
        elastic,
        view,
        [worker for node_set in elastic for worker in case.staying(node_set.name) if not is_leaving(view, worker)],
        room={node_set.name: node_set.maximum - len(fleet.of(node_set.name)) for node_set in elastic},
        free=fleet.free,
        now=case.now,
        settle=_JOB_SETTLES_FOR,
    )


def _targets(case: _Case, found: Demand | None) -> dict[str, int]:
    asked = {
        node_set.name: _clamp(case.fleet.targets.get(node_set.name, node_set.replicas), node_set.minimum, node_set.maximum)
        for node_set in case.spec.node_sets
    }
    if case.view is None or found is None:
        return asked
    elastic = [node_set for node_set in case.spec.node_sets if node_set.elastic]
    return asked | {node_set.name: _elastic(case, case.view, node_set, asked[node_set.name], found) for node_set in elastic}


def _elastic(case: _Case, view: SlurmView, node_set: NodeSetSpec, asked: int, found: Demand) -> int:
    live = case.staying(node_set.name)
    if len(live) < len(case.fleet.of(node_set.name)):
        # A reclaimed worker is not recreated unless jobs need it.
        asked = min(asked, len(live))
    more = found.more.get(node_set.name, 0)
    if more:
        return _clamp(max(asked, len(live) + more), node_set.minimum, node_set.maximum)
    if asked > len(live):
        # `kubectl scale` requested workers that do not exist yet; they may be without jobs for a while before they count as
        # idle.
        return asked
    idle = sum(worker.name not in found.needed and _idle(view, worker, case.now, case.spec.lease.idle) for worker in live)
    # Needed workers stay, even if `kubectl scale` requests fewer: only a lower `max` removes them.
    needed = sum(worker.name in found.needed or _working(view, worker) for worker in live)
    return _clamp(max(min(asked, len(live) - idle), needed), node_set.minimum, node_set.maximum)


def _idle(view: SlurmView, worker: Worker, now: datetime, patience: timedelta) -> bool:
    node = view.node(worker.name)
    if not worker.host_node:
        # It waits in a queue although no job needs it.
        return worker.created is not None and now - worker.created >= patience
    if node is None or node.busy or view.jobs_on(worker.name):
        return False
    since = max((moment for moment in (node.last_busy, node.started) if moment is not None), default=None)
    return since is not None and now - since >= patience


def _working(view: SlurmView, worker: Worker) -> bool:
    node = view.node(worker.name)
    # A drain for a reclaim that has ended does not count: the lease itself has not chosen this worker for release.
    stays = node is not None and (not node.draining or is_taken(node.reason))
    return node is not None and stays and (node.busy or bool(view.jobs_on(worker.name)))


def _missing(case: _Case, node_set: NodeSetSpec, target: int, free: dict[str, Free]) -> list[Action]:
    """The workers to create within the free quota, with names that no pod and no node record of Slurm has.

    Slurm would know a pod with an existing record under the address of its predecessor. Fixed workers keep their names, so they
    wait until pod and record are gone; elastic workers take another name. While Slurm does not answer, its records are those of
    the last answer: a host node that fails may take slurmctld and workers with it.
    """
    own = [worker for worker in case.fleet.workers if worker.node_set == node_set.name]
    live = {worker.ordinal for worker in case.staying(node_set.name)}
    names = records_of(case.view) if case.view is not None else case.fleet.recorded
    recorded = {int(name.rpartition("-")[2]) for name in names if _is_of(name, (node_set.name,))}
    taken = {worker.ordinal for worker in own} | recorded
    count = target - len(live)
    if not node_set.elastic:
        count -= sum(ordinal < target for ordinal in taken - live)
    count = min(count, _MOST_NEW_WORKERS)
    has = free.get(node_set.gpu_resource) if node_set.gpus else None
    if has is not None:
        count = max(0, min(count, has.most // node_set.gpus))
        free[node_set.gpu_resource] = replace(has, most=has.most - count * node_set.gpus)
    made: list[Action] = []
    ordinal = 0
    while len(made) < count:
        if ordinal not in taken:
            made.append(CreateWorker(node_set.name, ordinal))
        ordinal += 1
    return made


def _surplus(case: _Case, node_set: NodeSetSpec, target: int, needed: frozenset[str]) -> tuple[Action, ...]:
    live = case.staying(node_set.name)
    surplus = max(0, len(live) - target)
    digest = case.fleet.digests.get(node_set.name)
    outdated = frozenset(worker.name for worker in live if digest and worker.made_from and worker.made_from != digest)
    if surplus or not outdated:
        by = _by(case, node_set.name) if surplus else None
        return _given(case, live, surplus, grace=case.spec.lease.grace, by=by, first=outdated, needed=needed)
    if len(live) < target:
        return ()
    # One worker at a time, once the previous one is replaced, and without a deadline: no job ends because a setting changed.
    return _given(case, live, 1, grace=REPLACING, first=outdated)


def _orphans(case: _Case) -> Iterable[Action]:
    """The actions for workers of NodeSets that the Tenant no longer has."""
    known = {node_set.name for node_set in case.spec.node_sets}
    for name in sorted({worker.node_set for worker in case.fleet.workers} - known):
        live = case.staying(name)
        yield from _given(case, live, len(live), grace=case.spec.lease.grace, by=_by(case, name))


def _given(
    case: _Case,
    live: tuple[Worker, ...],
    count: int,
    *,
    grace: timedelta,
    by: datetime | None = None,
    first: frozenset[str] = frozenset(),
    needed: frozenset[str] = frozenset(),
    taken: bool = False,
) -> tuple[Action, ...]:
    return release(
        case.view,
        live,
        count,
        now=case.now,
        grace=grace,
        promised=case.fleet.promised,
        by=by,
        first=first,
        needed=needed,
        taken=taken,
    )


def _by(case: _Case, node_set: str) -> datetime | None:
    since = case.fleet.over_since.get(node_set)
    return since + case.spec.lease.grace if since is not None else None


def _host_nodes(view: SlurmView, fleet: Fleet) -> Iterable[Drain | Undrain | Resume]:
    """The actions that drain workers of cordoned or failed nodes, and take workers that returned back into service."""
    for worker in fleet.workers:
        node = view.node(worker.name)
        if node is None or not worker.live:
            continue
        why = fleet.cordoned.get(worker.host_node)
        reason = f"{CORDON}{worker.host_node} {why}" if why else None
        if reason and not node.draining:
            yield Drain(worker.name, reason)
        elif node.draining and node.ours and not reason and _past(node):
            yield Undrain(worker.name)
        elif node.base == "DOWN" and node.ours and not node.draining and worker.ready:
            yield Resume(worker.name)


def _past(node: SlurmNode) -> bool:
    """Whether a drain of the platform no longer has a cause: it was for a host node, or for an earlier pod."""
    return node.reason.startswith(CORDON) or node.reason.startswith((LOST, f"{REASON_PREFIX} the pod is being terminated"))


def _records(spec: SlurmSpec, view: SlurmView, fleet: Fleet) -> Iterable[Action]:
    """The actions for node records whose pod is gone: their jobs are ended, then the record is deleted."""
    pods = {worker.name for worker in fleet.workers}
    sets = {*(node_set.name for node_set in spec.node_sets), *spec.retiring, *fleet.targets}
    for node in view.nodes:
        if node.name in pods or not _belongs(node, sets):
            continue
        if (node.busy or view.jobs_on(node.name)) and node.base != "DOWN":
            yield Down(node.name, LOST)
        elif view.jobs_on(node.name) == () or (view.jobs is None and not node.busy):
            yield DeleteNode(node.name)


def _abandoned(spec: SlurmSpec, view: SlurmView, fleet: Fleet) -> Iterable[Cancel]:
    """Cancels for jobs that wait only in partitions that are being removed, without workers: they could never run."""
    gone = {*spec.retiring} - {worker.node_set for worker in fleet.workers}
    if not spec.node_sets:
        # Slurm is switched off or has no NodeSets: the queue is kept for the next ones.
        return []
    return [Cancel(job.job_id, "") for job in view.jobs or () if job.pending and job.partitions and {*job.partitions} <= gone]


def _retired(spec: SlurmSpec, view: SlurmView, fleet: Fleet) -> Iterable[DeleteNodeSet]:
    """NodeSets without a worker, a node record or a job record of their partition: slurmctld keeps jobs for a while."""
    if view.jobs is None:
        return []
    used = {name for job in view.jobs for name in job.partitions}
    held = {worker.node_set for worker in fleet.workers} | {node.name.rpartition("-")[0] for node in view.nodes}
    return [DeleteNodeSet(name) for name in spec.retiring if name not in used | held]


def records_of(view: SlurmView) -> frozenset[str]:
    """The names of the node records that workers may have made."""
    return frozenset(node.name for node in view.nodes if _is_dynamic(node))


def _belongs(node: SlurmNode, sets: Iterable[str]) -> bool:
    return _is_of(node.name, sets) and _is_dynamic(node)


def _is_of(name: str, sets: Iterable[str]) -> bool:
    head, dash, ordinal = name.rpartition("-")
    return bool(dash) and ordinal.isdecimal() and head in sets


def _is_dynamic(node: SlurmNode) -> bool:
    return any(state.startswith("DYNAMIC") for state in node.states)


def _clamp(value: int, lowest: int, highest: int) -> int:
    return max(lowest, min(value, highest))


def over(spec: SlurmSpec, fleet: Fleet) -> dict[str, int]:
    """The NodeSets with more workers than an admin allows now, each with what is allowed.

    Their release has a deadline that no tenant can move.
    """
    bounds: Mapping[str, int] = {node_set.name: node_set.maximum for node_set in spec.node_sets}
    names = {worker.node_set for worker in fleet.workers}
    return {name: most for name in names if len(fleet.of(name)) > (most := bounds.get(name, 0))}
