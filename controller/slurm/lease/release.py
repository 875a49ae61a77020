"""Releases workers: decides the steps that free their GPUs, whatever the jobs on them do. Pure, one step per reconcile.

    chosen ──> drained with our reason, deadline in it ──┬── no job left ─────────> pod deleted ──> node record deleted
       ^                                                 ├── jobs that request it: their signal    ^
       └── no longer needed: drain removed <─────────────┤                                         │
                                                         └── deadline passed ──> jobs requeued ──> node down

All state is in Slurm and in the plane, so an interrupted reconcile does no harm. The workers with the smallest loss go first:
those that run nothing, then those whose jobs end soonest, then those of the lowest priority. A missing answer from Slurm never
counts as "idle"; a worker with an unknown state is ended only after its deadline. Reasons that are not ours are neither
overwritten nor cleared: a node that an admin drained is released without a change of its record.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from controller.slurm.answers.view import SlurmJob, SlurmNode, SlurmView
from controller.slurm.lease.fleet import Action, Cancel, DeleteWorker, Down, Drain, Requeue, Signal, Undrain, Worker
from controller.slurm.lease.reasons import GIVING, MOST_SIGNALLED, deadline_in, is_taken, reason_until, signalled_in

# The time between one measure and the next harder one after the deadline, so that the GPUs are free half a minute after it: a
# requeued job gets SIGTERM, and processes that still run two measures later end with their pod.
OVERDUE: Final = timedelta(seconds=10)
LAST_GRACE_SECONDS: Final = 8  # of a pod that is deleted then
_RUNS_NOTHING: Final = 1  # the first part of a loss, up to this
_PAST: Final = "given back: past its deadline"
_LONGEST_JOB: Final = timedelta(days=365)


def is_leaving(view: SlurmView | None, worker: Worker) -> bool:
    """Whether a worker is being released."""
    node = view.node(worker.name) if view is not None else None
    return node is not None and node.draining and node.reason.startswith(GIVING)


def release(
    view: SlurmView | None,
    workers: Sequence[Worker],
    count: int,
    *,
    now: datetime,
    grace: timedelta,
    promised: Mapping[str, datetime] | None = None,
    by: datetime | None = None,
    first: frozenset[str] = frozenset(),
    needed: frozenset[str] = frozenset(),
    taken: bool = False,
) -> tuple[Action, ...]:
    """The next writes towards `count` fewer live workers.

    `by` is a deadline that no user of the tenant can move; `first` are workers that are released before all others; of those
    that run nothing, the ones that waiting jobs will get (`needed`) go last; `taken` means that another tenant gets their GPUs.
    """
    promised = promised or {}
    if view is None:
        return _unseen(workers, count, now=now, promised=promised, by=by)
    costs = {worker.name: loss(view, worker, now) for worker in workers}
    ranked = sorted(
        workers,
        key=lambda worker: (
            worker.name not in first,
            costs[worker.name][0] > _RUNS_NOTHING,
            worker.name in needed and costs[worker.name][0] <= _RUNS_NOTHING,
            *costs[worker.name],
        ),
    )
    leaving = [worker for worker in ranked if is_leaving(view, worker)]
    staying = [worker for worker in ranked if not is_leaving(view, worker)]
    going = (leaving + staying)[: max(0, count)]
    names = {worker.name for worker in going}
    actions: list[Action] = [Undrain(worker.name) for worker in leaving if worker.name not in names]
    for worker in going:
        actions += _step(view, worker, now=now, grace=grace, promised=promised.get(worker.name), by=by, taken=taken)
    return tuple(actions)


def loss(view: SlurmView, worker: Worker, now: datetime) -> tuple[int, float, int, int]:
    """How much is lost with a worker, as a sort key; the smallest is released first."""
    if not worker.host_node:
        return 0, 0.0, 0, -worker.ordinal
    node = view.node(worker.name)
    if node is None:
        return 2, 0.0, 0, -worker.ordinal
    jobs = view.jobs_on(worker.name)
    if not _occupied(node, jobs):
        return _RUNS_NOTHING, 0.0, 0, -worker.ordinal
    # A job without an end, or with an unknown one, counts as the longest.
    remaining = max((_remaining(job, now) for job in jobs or ()), default=_LONGEST_JOB.total_seconds())
    priority = max((job.priority for job in jobs or ()), default=2**32)
    return 3, remaining, priority, -worker.ordinal


def ranks(view: SlurmView, workers: Iterable[Worker], now: datetime) -> dict[str, int]:
    """The order in which the ledger should reclaim workers: below 0 for those that run nothing, then by increasing loss."""
    costs = sorted((loss(view, worker, now), worker.name) for worker in workers if worker.live)
    return {name: -1 if cost[0] <= _RUNS_NOTHING else place for place, (cost, name) in enumerate(costs)}


def _step(
    view: SlurmView,
    worker: Worker,
    *,
    now: datetime,
    grace: timedelta,
    promised: datetime | None,
    by: datetime | None,
    taken: bool,
) -> Iterable[Action]:
    node = view.node(worker.name)
    if node is None:
        # slurmctld answered and has no such node: nothing can run there.
        return [DeleteWorker(worker.name, worker.uid, "given back: not known to Slurm")]
    given = [moment for moment in (deadline_in(node.reason), promised, by) if moment is not None]
    deadline = min(given, default=None)
    ours = node.ours and node.reason.startswith(GIVING)
    if promised is not None and now >= promised + 2 * OVERDUE:
        # Whatever has become of the drain since then: users may undo it, or Slurm may refuse it, again and again.
        return [DeleteWorker(worker.name, worker.uid, _PAST, LAST_GRACE_SECONDS)]
    # A deadline later than any that would be set now had another cause, or was written by a tenant.
    late = ours and (deadline is None or deadline > now + grace)
    if not node.draining or (node.ours and not ours) or late or (ours and taken and not is_taken(node.reason)):
        until = min([now + grace, *given])
        return [Drain(worker.name, reason_until(until, taken=taken, signalled=signalled_in(node.reason)), until)]
    jobs = view.jobs_on(worker.name)
    if not _occupied(node, jobs):
        # Slurm may have ended a job whose processes still run.
        last = None if deadline is None or now < deadline else LAST_GRACE_SECONDS
        return [DeleteWorker(worker.name, worker.uid, "given back: drained", last)]
    if deadline is None or now < deadline:
        return _signals(view, node, now=now, deadline=deadline) if ours and deadline is not None else []
    return _overdue(node, worker, jobs, late=now - deadline)


def _signals(view: SlurmView, node: SlurmNode, *, now: datetime, deadline: datetime) -> Iterable[Signal]:
    """The signals that are due: one for each job, on the first of its nodes that is released."""
    done = signalled_in(node.reason)
    for job in view.jobs_on(node.name) or ():
        asked = job.signal
        if asked is None or "RUNNING" not in job.states or now < deadline - asked.lead or len(done) >= MOST_SIGNALLED:
            continue
        if any(job.job_id in signalled_in(other.reason) for name in job.nodes if (other := view.node(name)) is not None):
            continue
        done |= {job.job_id}
        reason = reason_until(deadline_in(node.reason) or deadline, taken=is_taken(node.reason), signalled=done)
        yield Signal(job.job_id, node.name, asked.name, reason, asked.batch)


def _overdue(node: SlurmNode, worker: Worker, jobs: tuple[SlurmJob, ...] | None, *, late: timedelta) -> Iterable[Action]:
    """The actions after the deadline: requeue the jobs, then take the node down, then delete the pod in any case."""
    if late >= 2 * OVERDUE:
        return [DeleteWorker(worker.name, worker.uid, _PAST, LAST_GRACE_SECONDS)]
    if jobs is None or late >= OVERDUE:
        reason = node.reason if node.ours else f"{GIVING}: past its deadline"
        return [] if node.base == "DOWN" or not node.ours else [Down(worker.name, reason)]
    running = [job for job in jobs if "COMPLETING" not in job.states]
    return [Requeue(job.job_id, node.name) if job.batch and job.requeue else Cancel(job.job_id, node.name) for job in running]


def _unseen(
    workers: Sequence[Worker], count: int, *, now: datetime, promised: Mapping[str, datetime], by: datetime | None
) -> tuple[Action, ...]:
    """The actions without an answer from Slurm: delete only workers that never started, or whose deadline has passed."""
    waiting = [worker for worker in workers if not worker.host_node]
    late = [
        worker
        for worker in workers
        if worker.host_node and any(now >= moment + 2 * OVERDUE for moment in (promised.get(worker.name), by) if moment)
    ]
    ordered = [
        *sorted(waiting, key=lambda worker: -worker.ordinal),
        *sorted(late, key=lambda worker: (worker.name not in promised, -worker.ordinal)),
    ]
    return tuple(
        DeleteWorker(worker.name, worker.uid, "past its deadline", LAST_GRACE_SECONDS)
        if worker.host_node
        else DeleteWorker(worker.name, worker.uid, "given back: never started")
        for worker in ordered[: max(0, count)]
    )


def _occupied(node: SlurmNode, jobs: tuple[SlurmJob, ...] | None) -> bool:
    return node.busy or bool(jobs)


def _remaining(job: SlurmJob, now: datetime) -> float:
    return max(0.0, (job.ends - now).total_seconds()) if job.ends is not None else _LONGEST_JOB.total_seconds()
