"""Defines a Slurm cluster as Slurm reports it: nodes, jobs and counts, as frozen values that `parse` builds. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from controller.slurm.spec import REASON_PREFIX

BUSY_STATES: Final = frozenset({"ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "BLOCKED"})
BASE_STATES: Final = ("ALLOCATED", "MIXED", "DOWN", "ERROR", "FUTURE", "IDLE", "UNKNOWN")
ACTIVE_JOBS: Final = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING"}
)


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node record of slurmctld."""

    name: str
    states: frozenset[str]
    reason: str = ""
    cpus: int = 0
    cpus_used: int = 0
    memory_mib: int = 0
    memory_used_mib: int = 0
    gpus: int = 0
    gpus_used: int = 0
    partitions: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    topology: str = ""
    last_busy: datetime | None = None
    started: datetime | None = None

    @property
    def base(self) -> str:
        """The state without its flags, in Slurm's word."""
        return next((state for state in BASE_STATES if state in self.states), "UNKNOWN")

    @property
    def busy(self) -> bool:
        """Whether a job holds any part of it, or may do so soon. An unknown state counts as busy."""
        return bool(self.states & BUSY_STATES) or self.cpus_used > 0 or self.base in {"UNKNOWN", "ERROR"}

    @property
    def draining(self) -> bool:
        """Whether Slurm starts no new job there."""
        return "DRAIN" in self.states

    @property
    def responds(self) -> bool:
        """Whether its slurmd responds."""
        return "NOT_RESPONDING" not in self.states and self.base not in {"DOWN", "FUTURE", "UNKNOWN"}

    @property
    def ours(self) -> bool:
        """Whether the platform wrote its reason."""
        return self.reason.startswith(REASON_PREFIX)


@dataclass(frozen=True, slots=True)
class EndSignal:
    """The signal that a job requests before its end, and how many seconds before."""

    name: str
    lead: timedelta
    # Only to the batch script, and not to its steps.
    batch: bool = False


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job record; sizes are the job's requests for all nodes together, unless the name says otherwise."""

    job_id: int
    states: frozenset[str]
    reason: str = ""
    partitions: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    # Nodes that it names: those that it must have (--nodelist), and those that it must not have (--exclude).
    required: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    node_count: int = 1
    cpus: int = 1
    gpus: int = 0
    # The types of GPUs that it names, in lower case.
    gpu_types: frozenset[str] = frozenset()
    memory_mib: int = 0
    tasks: int = 1
    copies: int = 1
    priority: int = 0
    features: str = ""
    exclusive: bool = False
    held: bool = False
    requeue: bool = False
    batch: bool = False
    submitted: datetime | None = None
    ends: datetime | None = None
    signal: EndSignal | None = None
    # What it is called if it is one task of a job array, such as `100_3`; empty for any other job.
    array_task: str = ""
    # Its AdminComment, or the beginning of a long one.
    note: str = ""

    @property
    def pending(self) -> bool:
        """Whether it waits, for resources or anything else."""
        return "PENDING" in self.states and not self.active

    @property
    def active(self) -> bool:
        """Whether it holds resources."""
        return bool(self.states & ACTIVE_JOBS)


@dataclass(frozen=True, slots=True)
class SlurmView:
    """One consistent view of a cluster. If a query fails, there is no view: callers get None, which means "unknown"."""

    nodes: tuple[SlurmNode, ...] = ()
    # None: there are too many to read; only the counts are known.
    jobs: tuple[SlurmJob, ...] | None = ()
    pending: int = 0
    running: int = 0
    _by_name: Mapping[str, SlurmNode] = field(default_factory=dict, init=False, repr=False, compare=False)
    _on: Mapping[str, list[SlurmJob]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _handles: Mapping[int, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {node.name: node for node in self.nodes})
        object.__setattr__(self, "_handles", {job.job_id: job.array_task for job in self.jobs or () if job.array_task})
        on: dict[str, list[SlurmJob]] = {}
        for job in self.jobs or ():
            for name in dict.fromkeys(job.nodes) if job.active else ():
                on.setdefault(name, []).append(job)
        object.__setattr__(self, "_on", on)

    def node(self, name: str) -> SlurmNode | None:
        """The node of this name."""
        return self._by_name.get(name)

    def handle_of(self, job_id: int) -> str:
        """What a job is called where it is ended, queued again or signalled.

        One task of a job array has the number of the array, and by that number Slurm would do it to all tasks.
        """
        return self._handles.get(job_id) or str(job_id)

    def jobs_on(self, node: str) -> tuple[SlurmJob, ...] | None:
        """The jobs that hold something on a node; None when jobs were not read."""
        if self.jobs is None:
            return None
        return tuple(self._on.get(node, ()))
