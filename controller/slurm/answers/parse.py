"""Parses slurmrestd's answers about nodes, jobs and counts. Pure; they come from the tenant and are hostile input.

    bytes ──> msgspec structs (unknown fields skipped, wrong shapes and too many refused) ──> SlurmNode, SlurmJob ──> SlurmView

Numbers have Slurm's own form {set, infinite, number}; lists of hosts are compressed and are expanded only up to a limit. An
answer with errors is a failure, whatever else it contains: an empty list must not be taken for an idle cluster.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from sys import getsizeof
from typing import Any, Final

import msgspec

from bulkhead.api.slurmnumber import Number
from bulkhead.api.slurmtext import decoded
from controller.inside import counted
from controller.slurm.answers.endsignal import signal_of
from controller.slurm.answers.gpus import gpus_in, prefixed, types_in
from controller.slurm.answers.hostlist import HostListError, expand
from controller.slurm.answers.view import SlurmJob, SlurmNode
from controller.slurm.answers.wire import NO_WORDS, DiagAnswer, JobRecord, JobsAnswer, NodeRecord, NodesAnswer, Problem

TEXT_CHARACTERS: Final = 1024
MOST_NODES: Final = 8192
MOST_JOBS: Final = 20_000
MOST_PLACES: Final = 100_000  # nodes of all jobs together
MOST_RECORDS: Final = 20_000  # of an answer of any other kind
_MOST_NAMED: Final = 1024  # nodes in one list of a user
_WORDS_BYTES: Final = 16 * 1024
_RECORD_OVERHEAD_BYTES: Final = 1024  # memory of a record in addition to its texts
_TASKS: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_TASKS_CHARACTERS: Final = 4096  # Slurm itself writes no longer list
_MEMORY: Final = re.compile(r"(?:^|,)mem=([0-9]{1,12}(?:\.[0-9]{1,4})?)([KMGTP]?)(?=,|$)")
_MIB_OF: Final = {"K": 1 / 1024, "M": 1, "": 1, "G": 1024, "T": 1024**2, "P": 1024**3}

_words: Final = msgspec.json.Decoder(list[str])
_text: Final = msgspec.json.Decoder(str)


class SlurmAnswerError(ValueError):
    """An answer that cannot be used; the text says why, and quotes no more than a line of it."""


class TooManyError(SlurmAnswerError):
    """An answer with more records than are read."""


def parse_nodes(data: bytes) -> tuple[SlurmNode, ...]:
    """The node records."""
    return tuple(_node(record) for record in decode(data, NodesAnswer, MOST_NODES).nodes)


def parse_jobs(data: bytes) -> tuple[SlurmJob, ...]:
    """The job records."""
    left, named, made = MOST_PLACES, MOST_PLACES, []
    try:
        for record in decode(data, JobsAnswer, MOST_JOBS).jobs:
            # The names of a job's nodes are compressed in the answer, but take memory here.
            hosts = expand(record.nodes, min(MOST_NODES, left))
            left -= len(hosts)
            required = _named(record.required_nodes, named)
            excluded = _named(record.excluded_nodes, named - len(required))
            named -= len(required) + len(excluded)
            made.append(_job(record, hosts, required, excluded))
    except HostListError as error:
        raise SlurmAnswerError(f"jobs: {error}") from error
    return tuple(made)


def parse_diag(data: bytes) -> tuple[int, int]:
    """How many jobs are pending and running."""
    found = decode(data, DiagAnswer).statistics
    return max(0, found.jobs_pending), max(0, found.jobs_running)


def decode(data: bytes, shape: type[Any], most: int = MOST_RECORDS) -> Any:
    """An answer of this shape with no more records than `most`, and without errors."""
    decoder = msgspec.json.Decoder(shape)
    try:
        answer = decoded(lambda text: counted.decode(decoder, text, most), data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        if counted.TOO_MANY in str(error):
            raise TooManyError(f"more than {most} records") from error
        raise SlurmAnswerError(f"not an answer of slurmrestd: {str(error)[:200]}") from error
    if answer.errors:
        raise SlurmAnswerError(joined(answer.errors))
    return answer


def joined(errors: Iterable[Problem]) -> str:
    """Slurm's errors in one line."""
    texts = [error.error or error.description or f"error {error.error_number}" for error in errors]
    return line("; ".join(texts[:3]), 300)


def line(text: str, limit: int = TEXT_CHARACTERS) -> str:
    """A tenant's text as one printable line of bounded length."""
    flat = "".join(character if character.isprintable() else " " for character in text[: limit + 1])
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _node(record: NodeRecord) -> SlurmNode:
    return SlurmNode(
        name=line(record.name, 255),
        states=frozenset(state.upper()[:64] for state in words(record.state)[:64]),
        reason=line(record.reason),
        cpus=max(0, record.cpus),
        cpus_used=max(0, record.alloc_cpus),
        memory_mib=max(0, record.real_memory),
        memory_used_mib=max(0, record.alloc_memory),
        # TRES contain GPUs only if these are accounted for; gres always contains them.
        gpus=gpus_in(prefixed(record.gres)) or gpus_in(record.tres),
        gpus_used=gpus_in(prefixed(record.gres_used)) or gpus_in(record.tres_used),
        partitions=tuple(line(name, 64) for name in words(record.partitions)[:256]),
        features=frozenset(line(name, 128) for name in words(record.features)[:256]),
        topology=line(record.topology, 255),
        last_busy=_moment(record.last_busy),
        started=_moment(record.slurmd_start_time),
    )


def weight_of_node(node: SlurmNode) -> int:
    """Bytes that a node takes in memory, about."""
    texts = (node.reason, node.topology, *node.states, *node.partitions, *node.features)
    return _RECORD_OVERHEAD_BYTES + sum(map(getsizeof, texts))


def weight_of_job(job: SlurmJob) -> int:
    """Bytes that a job takes in memory, about."""
    return _RECORD_OVERHEAD_BYTES + sum(
        map(
            getsizeof,
            (job.reason, job.features, job.note, *job.states, *job.partitions, *job.nodes, *job.required, *job.excluded),
        )
    )


def words(raw: msgspec.Raw) -> list[str]:
    """A list of words that was left encoded; empty for null."""
    if len(raw) > _WORDS_BYTES:
        raise SlurmAnswerError(f"a list of words of {len(raw)} bytes, more than {_WORDS_BYTES}")
    try:
        found: list[str] = decoded(_words.decode, bytes(raw))
    except (msgspec.MsgspecError, ValueError) as error:
        raise SlurmAnswerError(f"not an answer of slurmrestd: {str(error)[:200]}") from error
    return found


def _job(record: JobRecord, hosts: tuple[str, ...], required: frozenset[str], excluded: frozenset[str]) -> SlurmJob:
    cpus, nodes = record.cpus.value or 1, max(1, record.node_count.value or 1)
    return SlurmJob(
        job_id=record.job_id,
        states=frozenset(state.upper()[:64] for state in words(record.job_state)[:16]),
        reason=line(record.state_reason, 128),
        partitions=tuple(part for part in line(record.partition).split(",") if part),
        nodes=hosts,
        required=required,
        excluded=excluded,
        node_count=nodes,
        cpus=max(1, cpus),
        gpus=gpus_in(record.tres_req_str) or _gpus_asked(record, nodes),
        gpu_types=types_in(prefixed(f"{record.tres_per_node},{record.tres_per_job},{record.tres_per_task}")),
        memory_mib=_memory(record, cpus, nodes),
        tasks=max(1, record.tasks.value or 1),
        copies=_copies(record),
        priority=record.priority.value or 0,
        features=line(record.features, 512),
        exclusive=any(word.lower() in {"none", "user", "mcs", "topo"} for word in words(record.shared)[:8])
        or "--exclusive" in record.submit_line[:TEXT_CHARACTERS].split(),
        held=record.hold,
        requeue=record.requeue,
        batch=record.batch_flag,
        submitted=_moment(record.submit_time),
        ends=_moment(record.end_time),
        signal=signal_of(record.submit_line, record.comment),
        array_task=_array_task(record),
        note=line(record.admin_comment, 512),
    )


def _named(raw: msgspec.Raw, left: int) -> frozenset[str]:
    """The nodes in a list as its user wrote it; none if it is too long or cannot be read, which leaves the job to Slurm."""
    if len(raw) <= len(NO_WORDS) or len(raw) > _WORDS_BYTES:
        return frozenset()
    try:
        return frozenset(expand(_text.decode(raw), max(0, min(_MOST_NAMED, left))))
    except (msgspec.MsgspecError, ValueError):
        return frozenset()


def _gpus_asked(record: JobRecord, nodes: int) -> int:
    """The GPUs of a job as its user wrote them: --gres, --gpus, --gpus-per-task."""
    return max(
        nodes * gpus_in(prefixed(record.tres_per_node)),
        gpus_in(prefixed(record.tres_per_job)),
        max(1, record.tasks.value or 1) * gpus_in(prefixed(record.tres_per_task)),
    )


def _memory(record: JobRecord, cpus: int, nodes: int) -> int:
    per_node, per_cpu = record.memory_per_node.value, record.memory_per_cpu.value
    if per_node:
        return per_node * nodes
    found = _MEMORY.search(record.tres_req_str[: 4 * TEXT_CHARACTERS])
    if found is not None and not per_cpu:
        # A job that requests no memory gets the default, which may be all memory of a node.
        return int(float(found[1]) * _MIB_OF[found[2]])
    return (per_cpu or 0) * cpus


def _copies(record: JobRecord) -> int:
    """How many tasks of a job array still wait under this record; at most as many as may run at once."""
    if not record.array_task_string or "PENDING" not in words(record.job_state):
        return 1
    spans, _, _ = record.array_task_string.partition("%")
    waiting = _tasks_in(spans)
    most = record.array_max_tasks.value or 0
    return max(1, min(waiting, most) if most > 0 else waiting)


def _array_task(record: JobRecord) -> str:
    array, task = record.array_job_id.value, record.array_task_id.value
    return f"{array}_{task}" if array and array > 0 and task is not None and task >= 0 else ""


def _tasks_in(spans: str) -> int:
    """How many tasks a list such as `0-3,9` names, at most `MOST_JOBS`; Slurm writes a regular list as `first-last:step`.

    A list that Slurm has cut off counts as the longest, and a part that cannot be read as one task: no job array may make the
    other jobs unreadable.
    """
    if "..." in spans or len(spans) > _TASKS_CHARACTERS:
        return MOST_JOBS
    found = 0
    for span in spans.split(","):
        ends = _TASKS.fullmatch(span)
        first, last, step = (int(ends[1]), int(ends[2] or ends[1]), int(ends[3] or 1)) if ends else (0, 0, 1)
        found += max(0, last - first) // max(1, step) + 1
    return min(found, MOST_JOBS)


def _moment(number: Number) -> datetime | None:
    seconds = number.value
    if not seconds or not 0 < seconds < 2**33:
        return None
    return datetime.fromtimestamp(seconds, UTC)
