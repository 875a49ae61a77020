"""The workloads of a run, all from one seed, and the objects that stand for them. Pure."""

import random
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import labels, ledger
from bulkhead.api.objects import Obj

PER_NODE: Final = 8
SPACE: Final = "bh-research-work"
TENANT: Final = "research"
_RACK: Final = 10
# Number of pods, GPUs of each, and how often: most workloads are small, and most GPUs go to gangs on whole nodes.
SHAPES: Final = (
    (1, 1, 34), (1, 2, 12), (1, 4, 10), (1, 8, 8),
    (4, 1, 5), (8, 2, 4), (4, 4, 4),
    (2, 8, 9), (4, 8, 8), (8, 8, 4), (16, 8, 2),
)  # fmt: skip
_MEDIAN_MINUTES: Final = 30.0
_SHORTEST, _LONGEST = 120.0, 4 * 3600.0
_SPREAD: Final = 1.0


@dataclass(frozen=True, slots=True)
class Job:
    """One workload: a number of pods that start together, the GPUs of each, and for how many seconds they run once all run."""

    number: int
    arrives: float
    lasts: float
    pods: int
    gpus: int
    # Whether its pods declare the longest time that they run, as activeDeadlineSeconds.
    says: bool

    @property
    def name(self) -> str:
        return f"job-{self.number:05}"

    @property
    def names(self) -> tuple[str, ...]:
        """Its pods."""
        return tuple(f"{self.name}-{ordinal:03}" for ordinal in range(self.pods))

    @property
    def asks(self) -> int:
        return self.pods * self.gpus

    @property
    def is_gang(self) -> bool:
        return self.pods > 1

    @property
    def is_whole(self) -> bool:
        """A gang on whole nodes."""
        return self.is_gang and self.gpus == PER_NODE


def make(seed: int, *, nodes: int, jobs: int, load: float, says: float = 0.5) -> tuple[Job, ...]:
    """Workloads that request `load` times the nodes' capacity while they arrive; this part declares how long they run."""
    dice = random.Random(seed)  # noqa: S311 - a trace follows from its seed
    shapes = [(pods, gpus) for pods, gpus, _ in SHAPES if pods * gpus <= nodes * PER_NODE // 4]
    weights = [often for pods, gpus, often in SHAPES if (pods, gpus) in shapes]
    drawn = []
    for _ in range(jobs):
        pods, gpus = dice.choices(shapes, weights)[0]
        lasts = _MEDIAN_MINUTES * 60 * dice.lognormvariate(0.0, _SPREAD)
        drawn.append((pods, gpus, float(round(min(max(lasts, _SHORTEST), _LONGEST))), dice.random() < says))
    offered = sum(pods * gpus * lasts for pods, gpus, lasts, _ in drawn)
    horizon = offered / (load * nodes * PER_NODE)
    arrivals = sorted(float(int(dice.uniform(0.0, horizon))) for _ in drawn)
    return tuple(
        Job(number, at, lasts, pods, gpus, said)
        for number, (at, (pods, gpus, lasts, said)) in enumerate(zip(arrivals, drawn, strict=True))
    )


def node_name(number: int) -> str:
    return f"node-{number:03}"


def node(number: int) -> Obj:
    """One simulated node."""
    name = node_name(number)
    room = {"cpu": "96", "memory": "1Ti", "pods": "110", labels.GPU: str(PER_NODE)}
    ready = {
        "type": "Ready", "status": "True", "reason": "Simulated", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, labels.RACK: f"rack-{number // _RACK}"}},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def pod(job: Job, name: str, *, gated: bool) -> Obj:
    """One host pod of a workload, as a syncer creates it."""
    noted = {labels.VIRTUAL_NAMESPACE: "trace", labels.VIRTUAL_NAME: name}
    if job.is_gang:
        noted |= {ledger.GANG: job.name, ledger.GANG_SIZE: str(job.pods)}
    asks = {"cpu": str(8 * job.gpus), "memory": f"{64 * job.gpus}Gi", labels.GPU: str(job.gpus)}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "busybox:1.36", "resources": {"requests": asks, "limits": asks}}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
    }
    if job.says:
        spec["activeDeadlineSeconds"] = int(job.lasts)
    if gated:
        spec["schedulingGates"] = [{"name": ledger.GATE}]
    return {"metadata": {"name": name, "namespace": SPACE, "annotations": noted}, "spec": spec}
