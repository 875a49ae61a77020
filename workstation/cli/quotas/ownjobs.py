"""The Slurm jobs of a tenant as its slurmrestd reports them, for its own users: why each waits, and when it may start. Pure.

    answer of slurmrestd ──> OwnJob ──┐
    own pods that wait, their places ─┴──> the ledger's forecast, for a job that waits for a worker ──> rows

The answer comes from a tenant's own daemon, which users of the tenant may have replaced: another shape is an error, every text
is bounded, and nothing of it is taken for anything but text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from bulkhead.api.ledger import Place, moment
from bulkhead.api.slurmnumber import NO_NUMBER, Number
from bulkhead.api.slurmtext import decoded

MAX_JOBS: Final = 20_000
# What the controller writes into AdminComment of a job that waits for a worker of a node set.
WAITS: Final = "bulkhead: waits for a worker of "
_LONGEST_NAME: Final = 253
_LONGEST_TEXT: Final = 1024
_LATEST: Final = 1 << 33
_ENDED: Final = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL"}
)
_PREEMPTED: Final = "PREEMPTED"
_GPUS: Final = re.compile(r"(?:^|,)gres[/:]gpu(?::([^=:,()0-9][^=:,()]*))?[=:]([0-9]{1,9})")
_NO_REASONS: Final = frozenset({"", "None"})


class _Record(msgspec.Struct, frozen=True, gc=False):
    job_id: int
    name: str = ""
    user_name: str = ""
    partition: str = ""
    job_state: list[str] = []
    state_reason: str = ""
    admin_comment: str = ""
    nodes: str = ""
    node_count: Number = NO_NUMBER
    tasks: Number = NO_NUMBER
    tres_req_str: str = ""
    tres_alloc_str: str = ""
    tres_per_job: str = ""
    tres_per_node: str = ""
    tres_per_task: str = ""
    array_job_id: Number = NO_NUMBER
    array_task_id: Number = NO_NUMBER
    array_task_string: str = ""
    priority: Number = NO_NUMBER
    submit_time: Number = NO_NUMBER
    start_time: Number = NO_NUMBER
    end_time: Number = NO_NUMBER


class _Problem(msgspec.Struct, frozen=True, gc=False):
    error: str = ""
    description: str = ""


class _Answer(msgspec.Struct, frozen=True, gc=False):
    jobs: list[_Record]
    errors: list[_Problem] = []


class JobsAnswerError(ValueError):
    """An answer that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A job that has not ended."""

    # As squeue writes it: 12, 12_3, or 12_[4-9].
    job: str
    name: str
    user: str
    partition: str
    state: str
    # Slurm's own word for why it waits; empty if it does not wait.
    reason: str
    # What the platform wrote on it.
    note: str
    gpus: int
    nodes: int
    hosts: str
    submitted: float | None
    # When it began, or when Slurm expects it to begin.
    starts: float | None
    ends: float | None
    waits: bool
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of a cluster that have not ended."""

    jobs: tuple[OwnJob, ...] = ()
    # Why they are missing; empty if they were read.
    missing: str = ""


def parse(data: bytes) -> tuple[OwnJob, ...]:
    """The jobs that have not ended: those that wait in Slurm's order, then the others. Raises JobsAnswerError."""
    try:
        answer = decoded(_decoder.decode, data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise JobsAnswerError(f"not an answer of slurmrestd: {str(error)[:200]}") from error
    if answer.errors:
        raise JobsAnswerError("; ".join(_short(problem.error or problem.description, 200) for problem in answer.errors[:3]))
    jobs = [_job(record) for record in answer.jobs[:MAX_JOBS] if not _ENDED.intersection(record.job_state[:16])]
    return tuple(sorted(jobs, key=lambda job: (not job.waits, -job.priority, _number(job.job), job.job)))


_decoder: Final = msgspec.json.Decoder(_Answer)


def _job(record: _Record) -> OwnJob:
    states = [state.upper()[:64] for state in record.job_state[:16]]
    waits = "PENDING" in states
    count = max(1, record.node_count.value or 1)
    return OwnJob(
        job=_name(record),
        name=_short(record.name, _LONGEST_NAME),
        user=_short(record.user_name, _LONGEST_NAME),
        partition=_short(record.partition, _LONGEST_NAME),
        state=next((state for state in states if state != _PREEMPTED), "UNKNOWN"),
        reason=_short(record.state_reason, 200) if waits and record.state_reason not in _NO_REASONS else "",
        note=_short(record.admin_comment, _LONGEST_TEXT) if record.admin_comment.startswith(WAITS) else "",
        gpus=_gpus(record, count),
        nodes=count,
        hosts="" if waits else _short(record.nodes, _LONGEST_NAME),
        submitted=_time(record.submit_time),
        starts=_time(record.start_time),
        ends=_time(record.end_time),
        waits=waits,
        priority=record.priority.value or 0,
    )


def _name(record: _Record) -> str:
    array, task = record.array_job_id.value, record.array_task_id.value
    if array and record.array_task_string:
        return f"{array}_[{_short(record.array_task_string, 40)}]"
    return f"{array}_{task}" if array and task is not None else str(record.job_id)[:20]


def _gpus(record: _Record, nodes: int) -> int:
    """How many GPUs it has or requests, on all its nodes."""
    for text, times in (
        (record.tres_alloc_str, 1),
        (record.tres_req_str, 1),
        (record.tres_per_job, 1),
        (record.tres_per_node, nodes),
        (record.tres_per_task, max(1, record.tasks.value or 1)),
    ):
        found = _GPUS.findall(text[:4096])
        # `gres/gpu=4,gres/gpu:h100=4` are four, not eight.
        plain = [number for kind, number in found if not kind]
        if found:
            return min(sum(map(int, plain or [number for _, number in found])) * times, 1_000_000)
    return 0


def _time(number: Number) -> float | None:
    at = number.value
    return float(at) if at and 0 < at < _LATEST else None


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _number(job: str) -> int:
    digits = job.partition("_")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


# -- when a job may start


def worker_forecast(job: OwnJob, workers: Mapping[str, Place]) -> Place | None:
    """The place in the ledger's queue, and the latest start, of the workers that a job waits for; None if it waits for none.

    `workers` are the places of the cluster's pods that wait, by name.
    A job on several nodes starts with the last of its workers: what is not known of one of them is not known of the job.
    """
    if not job.waits or not job.note:
        return None
    node_set = job.note.removeprefix(WAITS).partition(":")[0]
    own = sorted((place for name, place in workers.items() if _set_of(name) == node_set), key=lambda place: place.number)
    if not own:
        return None
    starts = [place.starts_by for place in own[: job.nodes] if place.starts_by is not None]
    return Place(own[0].number, max(starts) if len(starts) == job.nodes else None)


def _set_of(worker: str) -> str:
    """The node set of a worker's pod, which is called `<set>-<number>`; empty for another name."""
    name, dash, number = worker.rpartition("-")
    return name if dash and number.isascii() and number.isdecimal() else ""


def row(job: OwnJob, workers: Mapping[str, Place], now: float) -> dict[str, Any]:
    """A job for a page or a document. `forecast` names who expects the start: the ledger at the latest, Slurm by its plan."""
    worker = worker_forecast(job, workers)
    by_ledger = worker.starts_by if worker is not None else None
    by_slurm = job.starts if job.waits and job.starts is not None and job.starts >= now else None
    starts = by_ledger if by_ledger is not None else by_slurm
    return {
        "job": job.job,
        "name": job.name,
        "user": job.user,
        "partition": job.partition,
        "state": job.state,
        "waits": job.waits,
        "reason": job.reason,
        "text": job.note,
        "gpus": job.gpus,
        "nodes": job.nodes,
        "hosts": job.hosts,
        "since": _stamp(job.submitted if job.waits else job.starts),
        "ends": "" if job.waits else _stamp(job.ends),
        "place": worker.number if worker is not None else None,
        "starts": _stamp(starts) if job.waits else "",
        "forecast": "" if not job.waits or starts is None else "ledger" if by_ledger is not None else "Slurm",
    }


def _stamp(at: float | None) -> str:
    return "" if at is None else moment(at)
