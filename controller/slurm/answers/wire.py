"""Defines the shapes of slurmrestd's answers in v0.0.45, as far as they are used. Pure; other fields are skipped.

This module defines only shapes; `parse` interprets numbers and texts. The decoder refuses wrong types, so no later code has to
check for them. Records are counted while they are decoded. Lists of words stay encoded until a caller sets their limit.
"""

from typing import Final

import msgspec

from bulkhead.api.slurmnumber import NO_NUMBER, Number
from controller.inside.counted import Counted

NO_WORDS: Final = msgspec.Raw(b"[]")


class Problem(Counted, frozen=True):
    """An entry of `errors`."""

    description: str = ""
    error: str = ""
    error_number: int = 0
    source: str = ""


class NodeRecord(Counted, frozen=True):
    """An entry of `nodes`."""

    name: str
    state: msgspec.Raw = NO_WORDS
    reason: str = ""
    cpus: int = 0
    alloc_cpus: int = 0
    real_memory: int = 0
    alloc_memory: int = 0
    tres: str = ""
    tres_used: str = ""
    gres: str = ""
    gres_used: str = ""
    partitions: msgspec.Raw = NO_WORDS
    features: msgspec.Raw = NO_WORDS
    topology: str = ""
    last_busy: Number = NO_NUMBER
    slurmd_start_time: Number = NO_NUMBER


class JobRecord(Counted, frozen=True):
    """An entry of `jobs`."""

    job_id: int
    job_state: msgspec.Raw = NO_WORDS
    state_reason: str = ""
    partition: str = ""
    nodes: str = ""
    node_count: Number = NO_NUMBER
    cpus: Number = NO_NUMBER
    tasks: Number = NO_NUMBER
    required_nodes: msgspec.Raw = NO_WORDS
    excluded_nodes: msgspec.Raw = NO_WORDS
    tres_req_str: str = ""
    tres_per_node: str = ""
    tres_per_task: str = ""
    tres_per_job: str = ""
    memory_per_node: Number = NO_NUMBER
    memory_per_cpu: Number = NO_NUMBER
    array_job_id: Number = NO_NUMBER
    array_task_id: Number = NO_NUMBER
    array_task_string: str = ""
    array_max_tasks: Number = NO_NUMBER
    priority: Number = NO_NUMBER
    features: str = ""
    shared: msgspec.Raw = NO_WORDS
    submit_line: str = ""
    comment: str = ""
    admin_comment: str = ""
    hold: bool = False
    requeue: bool = False
    batch_flag: bool = False
    submit_time: Number = NO_NUMBER
    end_time: Number = NO_NUMBER


class NodesAnswer(msgspec.Struct, frozen=True):
    """GET nodes."""

    nodes: list[NodeRecord]
    errors: list[Problem] = []


class JobsAnswer(msgspec.Struct, frozen=True):
    """GET jobs."""

    jobs: list[JobRecord]
    errors: list[Problem] = []


class Statistics(msgspec.Struct, frozen=True):
    """The part of diag that is used."""

    jobs_pending: int = 0
    jobs_running: int = 0


class DiagAnswer(msgspec.Struct, frozen=True):
    """GET diag."""

    statistics: Statistics
    errors: list[Problem] = []


class PlainAnswer(msgspec.Struct, frozen=True):
    """An answer of which only the errors matter."""

    errors: list[Problem] = []


class RequeueStatus(Counted, frozen=True):
    """One job's part of a requeue's answer."""

    error_code: int = 0
    error: str = ""


class RequeueAnswer(msgspec.Struct, frozen=True):
    """GET job/{id}/requeue."""

    errors: list[Problem] = []
    status: list[RequeueStatus] = []
