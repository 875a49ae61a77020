"""Releases workers: the steps that end with their GPUs free, whatever the jobs on them do. Pure, one step per reconcile.

    chosen ──> drained with our reason, deadline in it ──┬── no job left ─────────> pod deleted ──> node record deleted
       ^                                                 │                               ^
       └── need is gone: drain taken away <──────────────┤                               │
                                                         └── deadline passed ──> jobs requeued ──> node down

All state is in Slurm and in the plane, so it makes no difference where an earlier reconcile was cut off. The workers that cost
least go first: those that run nothing, then those whose jobs end soonest, then those of the lowest priority. A missing answer
from Slurm is never taken for "idle"; only a deadline that has passed ends a worker whose state is not known. Reasons that are
not ours are neither overwritten nor cleared: a node that an admin drained is released without a change of its record.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from controller.slurm.answers.view import SlurmJob, SlurmNode, SlurmView
from controller.slurm.lease.fleet import Action, Cancel, DeleteWorker, Down, Drain, Requeue, Undrain, Worker
from controller.slurm.spec import REASON_PREFIX

GIVING: Final = f"{REASON_PREFIX} giving back"
OVERDUE: Final = timedelta(seconds=30)  # between one measure and the next harder one, once the deadline has passed
_FAR: Final = timedelta(days=365)


def reason_until(deadline: datetime) -> str:
    """The reason of a drain: that it is ours, what it is for, and until when its jobs may run."""
    return f"{GIVING} until {deadline.isoformat(timespec='seconds')}"


def deadline_in(reason: str) -> datetime | None:
    """The deadline in a reason of ours."""
    _, found, text = reason.partition(f"{GIVING} until ")
    if not found:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


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
) -> tuple[Action, ...]:
    """The next writes on the way to `count` live workers fewer.

    `by` is a deadline that nobody inside the tenant can move; `first` are workers that go before all others.
    """
    promised = promised or {}
    if view is None:
        return _unseen(workers, count, now=now, promised=promised, by=by)
    ranked = sorted(workers, key=lambda worker: (worker.name not in first, *loss(view, worker, now)))
    leaving = [worker for worker in ranked if is_leaving(view, worker)]
    staying = [worker for worker in ranked if not is_leaving(view, worker)]
    going = (leaving + staying)[: max(0, count)]
    names = {worker.name for worker in going}
    actions: list[Action] = [Undrain(worker.name) for worker in leaving if worker.name not in names]
    for worker in going:
        actions += _step(view, worker, now=now, grace=grace, promised=promised.get(worker.name), by=by)
    return tuple(actions)


def loss(view: SlurmView, worker: Worker, now: datetime) -> tuple[int, float, int, int]:
    """What it costs to give a worker back; smaller goes first."""
    if not worker.host_node:
        return 0, 0.0, 0, -worker.ordinal
    node = view.node(worker.name)
    if node is None:
        return 2, 0.0, 0, -worker.ordinal
    jobs = view.jobs_on(worker.name)
    if not _occupied(node, jobs):
        return 1, 0.0, 0, -worker.ordinal
    # A job without an end, and one that is not known, is taken for the longest there is.
    remaining = max((_remaining(job, now) for job in jobs or ()), default=_FAR.total_seconds())
    priority = max((job.priority for job in jobs or ()), default=2**32)
    return 3, remaining, priority, -worker.ordinal


def _step(
    view: SlurmView, worker: Worker, *, now: datetime, grace: timedelta, promised: datetime | None, by: datetime | None
) -> Iterable[Action]:
    node = view.node(worker.name)
    if node is None:
        # slurmctld answered and has no such node: nothing can run there.
        return [DeleteWorker(worker.name, worker.uid, "given back: not known to Slurm")]
    given = [moment for moment in (deadline_in(node.reason), promised, by) if moment is not None]
    deadline = min(given, default=None)
    ours = node.ours and node.reason.startswith(GIVING)
    # A deadline further away than any that is given now was for another cause, or not written by us.
    if not node.draining or (node.ours and not ours) or (ours and (deadline is None or deadline > now + grace)):
        until = min([now + grace, *given])
        return [Drain(worker.name, reason_until(until), until)]
    jobs = view.jobs_on(worker.name)
    if not _occupied(node, jobs):
        return [DeleteWorker(worker.name, worker.uid, "given back: drained")]
    if deadline is None or now < deadline:
        return []
    return _overdue(node, worker, jobs, late=now - deadline)


def _overdue(node: SlurmNode, worker: Worker, jobs: tuple[SlurmJob, ...] | None, *, late: timedelta) -> Iterable[Action]:
    """The deadline has passed: jobs are queued again, then the node goes down, then the pod goes whatever happens."""
    if late >= 2 * OVERDUE:
        return [DeleteWorker(worker.name, worker.uid, "given back: past its deadline")]
    if jobs is None or late >= OVERDUE:
        reason = node.reason if node.ours else f"{GIVING}: past its deadline"
        return [] if node.base == "DOWN" or not node.ours else [Down(worker.name, reason)]
    running = [job for job in jobs if "COMPLETING" not in job.states]
    return [Requeue(job.job_id, node.name) if job.batch and job.requeue else Cancel(job.job_id, node.name) for job in running]


def _unseen(
    workers: Sequence[Worker], count: int, *, now: datetime, promised: Mapping[str, datetime], by: datetime | None
) -> tuple[Action, ...]:
    """Without an answer only those go that never started, and those whose deadline has passed in any case."""
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
        DeleteWorker(worker.name, worker.uid, "given back: never started" if not worker.host_node else "past its deadline")
        for worker in ordered[: max(0, count)]
    )


def _occupied(node: SlurmNode, jobs: tuple[SlurmJob, ...] | None) -> bool:
    return node.busy or bool(jobs)


def _remaining(job: SlurmJob, now: datetime) -> float:
    return max(0.0, (job.ends - now).total_seconds()) if job.ends is not None else _FAR.total_seconds()
