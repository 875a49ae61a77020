"""Defines the workers of a cluster as the plane shows them, and the writes that a lease may decide. Pure.

A Worker is a pod of a NodeSet; its Slurm node has the same name. An Action is one write, safe to repeat: the controller may
die between any two of them, and the next reconcile decides again.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from bulkhead.api.conditions import condition_of
from bulkhead.api.moments import moment_of
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_ready, placed_on
from controller.slurm.answers.parse import line
from controller.slurm.spec import NODE_SET_LABEL, ORDINAL_LABEL, SPEC_ANNOTATION

_REASON_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker's pod."""

    name: str
    node_set: str
    ordinal: int
    uid: str = ""
    phase: str = "Pending"
    ready: bool = False
    deleting: bool = False
    host_node: str = ""
    made_from: str = ""
    created: datetime | None = None
    # Why it has no node yet: reason and message of its condition, as the syncer wrote them.
    waits: tuple[str, str] = ("", "")

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def live(self) -> bool:
        """Whether it holds its resources, or will."""
        return not self.deleting and not self.finished

    @property
    def why_not_there(self) -> str:
        """Why it has no node yet, if a condition reports it; empty otherwise."""
        reason, message = self.waits
        if not self.live or self.host_node or not reason:
            return ""
        return f"{reason}: {message}" if message else reason


@dataclass(frozen=True, slots=True)
class Free:
    """GPUs of one resource that a tenant's quota still has for workers."""

    # Up to the ceiling: beyond it the host accepts no pod.
    most: int
    # The part that the ledger would give now or reclaim for this tenant; None if it does not admit this tenant's pods.
    soon: int | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The input of a lease, in addition to Slurm's own view."""

    workers: tuple[Worker, ...] = ()
    # NodeSet -> the replicas of its object in the plane, which both `kubectl scale` and the lease write.
    targets: Mapping[str, int] = field(default_factory=dict)
    # NodeSet -> digest of the spec from which its workers should be created.
    digests: Mapping[str, str] = field(default_factory=dict)
    # Host node -> why its workers accept no new jobs.
    cordoned: Mapping[str, str] = field(default_factory=dict)
    # Resource -> GPUs of the tenant's quota that new workers may still use; a resource without an entry has no limit.
    free: Mapping[str, Free] = field(default_factory=dict)
    # Worker -> the deadline of its reclaim by the ledger; None: unknown at the moment, so earlier deadlines stay valid.
    taken: Mapping[str, datetime] | None = field(default_factory=dict)
    # Slurm node -> the earliest deadline that it was ever given; kept beside the reason in Slurm, which a tenant may edit.
    promised: Mapping[str, datetime] = field(default_factory=dict)
    # Names of the node records that Slurm had when it answered last.
    recorded: frozenset[str] = frozenset()
    _live: Mapping[str, list[Worker]] = field(init=False, repr=False, compare=False)
    # NodeSet -> since when it has had more workers than an admin allows.
    over_since: Mapping[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        live: dict[str, list[Worker]] = {}
        for worker in self.workers:
            if worker.live:
                live.setdefault(worker.node_set, []).append(worker)
        object.__setattr__(self, "_live", live)

    def of(self, node_set: str) -> tuple[Worker, ...]:
        """The live workers of a NodeSet."""
        return tuple(self._live.get(node_set, ()))


def vouched(workers: Iterable[Worker], most: Mapping[str, int], before: frozenset[str]) -> frozenset[str]:
    """The UIDs of the pods that count as workers: of each NodeSet that the host has ordered, as many as it may have.

    A tenant can create pods that look like its workers, and NodeSets of its own. Pods that were vouched for before remain
    workers if a NodeSet may have fewer now: they are released with grace.
    """
    live = [worker for worker in workers if worker.live and worker.uid]
    live.sort(key=lambda worker: (_age(worker), worker.ordinal))
    found = {worker.uid for worker in live} & before
    left = Counter(most)
    left.subtract(worker.node_set for worker in live if worker.uid in found)
    for worker in live:
        if worker.uid not in found and left[worker.node_set] > 0:
            left[worker.node_set] -= 1
            found.add(worker.uid)
    return frozenset(found)


def _age(worker: Worker) -> float:
    return worker.created.timestamp() if worker.created is not None else math.inf


@dataclass(frozen=True, slots=True)
class CreateWorker:
    """Create a worker's pod."""

    node_set: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class DeleteWorker:
    """Delete a pod, if it is still the one that was observed."""

    name: str
    uid: str
    why: str = ""
    # Its grace period in seconds; None: the pod's own.
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """Write a NodeSet's replicas."""

    node_set: str
    replicas: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Let no new job start on a node."""

    node: str
    reason: str
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class Undrain:
    """Remove a drain of the platform."""

    node: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Take a node that the platform has taken down back into service."""

    node: str


@dataclass(frozen=True, slots=True)
class Down:
    """Take a node down; Slurm ends or requeues its jobs itself."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Send a job the signal that it requests before its end; from then on the drain's reason records that."""

    job: int
    node: str
    signal: str
    reason: str
    # Only to the batch script, and not to its steps.
    batch: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Write into a job's record why it waits; an empty text if it no longer does."""

    job: int
    text: str


@dataclass(frozen=True, slots=True)
class Requeue:
    """End a job's run and queue it again."""

    job: int
    node: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a job that cannot be requeued."""

    job: int
    node: str


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete a node's record."""

    node: str


@dataclass(frozen=True, slots=True)
class DeleteNodeSet:
    """Delete the NodeSet of a Tenant that no longer has it."""

    name: str


Action: TypeAlias = (
    CreateWorker
    | DeleteWorker
    | SetReplicas
    | Drain
    | Undrain
    | Resume
    | Down
    | Signal
    | Note
    | Requeue
    | Cancel
    | DeleteNode
    | DeleteNodeSet
)


def worker_of(pod: Obj) -> Worker | None:
    """The worker that a pod is; None if it is not a worker."""
    meta, status = pod["metadata"], pod.get("status") or {}
    marks = meta.get("labels") or {}
    name, node_set, ordinal = str(meta["name"]), marks.get(NODE_SET_LABEL), str(marks.get(ORDINAL_LABEL) or "")
    if not node_set or not ordinal.isdecimal() or len(ordinal) > 6 or name != f"{node_set}-{ordinal}":
        return None
    return Worker(
        name=name,
        node_set=str(node_set),
        ordinal=int(ordinal),
        uid=str(meta.get("uid") or ""),
        phase=str(status.get("phase") or "Pending"),
        ready=is_ready(pod),
        deleting=bool(meta.get("deletionTimestamp")),
        host_node=placed_on(pod),
        made_from=str((meta.get("annotations") or {}).get(SPEC_ANNOTATION) or ""),
        created=moment_of(meta.get("creationTimestamp")),
        waits=_waits(pod),
    )


def _waits(pod: Obj) -> tuple[str, str]:
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return "", ""
    # The name is written into host objects and to terminals.
    return line(str(scheduled.get("reason") or ""), _REASON_CHARACTERS), line(str(scheduled.get("message") or ""))
