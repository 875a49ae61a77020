"""A simulated Slurm cluster and its pods: actions change it, time passes in it, and it remembers every broken promise.

What the lease sees is derived from here; what is true is kept beside it, so that a law can be held against the truth and not
against what the code under test believed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from controller.slurm.answers.view import EndSignal, SlurmJob, SlurmNode, SlurmView
from controller.slurm.lease.deadlines import Deadlines
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
    Requeue,
    Resume,
    SetReplicas,
    Signal,
    Undrain,
    Worker,
)
from controller.slurm.lease.plan import over, plan_leases
from controller.slurm.lease.reasons import GIVING
from controller.slurm.spec import LeaseSpec, NodeSetSpec, SlurmImages, SlurmSpec

GPU = "nvidia.com/gpu"
START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
LEASE = LeaseSpec(idle=timedelta(seconds=60), grace=timedelta(seconds=120))


def node_set(name: str = "gpu", *, minimum: int = 0, maximum: int = 4, gpus: int = 2, **more: object) -> NodeSetSpec:
    return NodeSetSpec(
        name=name, replicas=minimum, minimum=minimum, maximum=maximum, cpus=8, memory_mib=4096, gpus=gpus, **more
    )  # type: ignore[arg-type]


def slurm_spec(*node_sets: NodeSetSpec) -> SlurmSpec:
    return SlurmSpec("team-a", "team-a", "26.05.5", SlurmImages("slurm", "mariadb"), node_sets=node_sets, lease=LEASE)


def pending(job_id: int, **more: object) -> SlurmJob:
    defaults: dict[str, object] = {
        "states": frozenset({"PENDING"}),
        "reason": "Resources",
        "partitions": ("gpu",),
        "submitted": START - timedelta(minutes=1),
        "batch": True,
        "requeue": True,
    }
    return SlurmJob(job_id=job_id, **(defaults | more))  # type: ignore[arg-type]


@dataclass
class Node:
    draining: bool = False
    reason: str = ""
    down: bool = False
    last_busy: datetime = START
    started: datetime = START
    # When the first drain of ours was written since it was last in service.
    drained_at: datetime | None = None


@dataclass
class Job:
    job_id: int
    nodes: tuple[str, ...]
    ends: datetime
    batch: bool = True
    requeue: bool = True
    priority: int = 10
    signal: EndSignal | None = None


@dataclass
class World:
    spec: SlurmSpec
    now: datetime = START
    silent: bool = False
    gpus_free: int | None = None
    # Of them, what the ledger would give; None: there is no ledger.
    gpus_soon: int | None = None
    taken: dict[str, datetime] | None = field(default_factory=dict)
    targets: dict[str, int] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    queue: list[SlurmJob] = field(default_factory=list)
    cordoned: dict[str, str] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    broken: list[str] = field(default_factory=list)
    requeued: list[int] = field(default_factory=list)
    signalled: list[tuple[int, str]] = field(default_factory=list)
    made: int = 0

    def view(self) -> SlurmView | None:
        if self.silent:
            return None
        running = [
            SlurmJob(
                job_id=job.job_id,
                states=frozenset({"RUNNING"}),
                nodes=job.nodes,
                node_count=len(job.nodes),
                partitions=("gpu",),
                ends=job.ends,
                batch=job.batch,
                requeue=job.requeue,
                priority=job.priority,
                signal=job.signal,
            )
            for job in self.jobs.values()
        ]
        return SlurmView(
            nodes=tuple(self._seen(name, node) for name, node in sorted(self.nodes.items())),
            jobs=(*running, *self.queue),
            pending=len(self.queue),
            running=len(running),
        )

    def _seen(self, name: str, node: Node) -> SlurmNode:
        busy = bool(self.on(name))
        base = "DOWN" if node.down else "ALLOCATED" if busy else "IDLE"
        states = {base, "DYNAMIC_NORM", *(["DRAIN"] if node.draining else [])}
        return SlurmNode(
            name=name,
            states=frozenset(states),
            reason=node.reason,
            cpus=8,
            cpus_used=8 if busy else 0,
            gpus=2,
            gpus_used=2 if busy else 0,
            memory_mib=4096,
            last_busy=node.last_busy,
            started=node.started,
        )

    def on(self, node: str) -> list[Job]:
        return [job for job in self.jobs.values() if node in job.nodes]

    def fleet(self) -> Fleet:
        fleet = Fleet(
            workers=tuple(self.workers.values()),
            targets=dict(self.targets),
            cordoned=dict(self.cordoned),
            free={} if self.gpus_free is None else {GPU: Free(self.gpus_free, self.gpus_soon)},
            taken=None if self.taken is None else dict(self.taken),
        )
        self.deadlines = self.deadlines.since(over(self.spec, fleet), self.now)
        return replace(fleet, promised=self.deadlines.promised, over_since=self.deadlines.over_since)

    def step(self) -> tuple[Action, ...]:
        view, fleet = self.view(), self.fleet()
        actions = plan_leases(self.spec, view, fleet, self.now)
        self.deadlines = self.deadlines.after(actions, view, fleet.workers)
        self.do(actions)
        return actions

    def do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case CreateWorker(name, ordinal):
                self.add_worker(name, ordinal, started=False)
            case DeleteWorker(name, uid, _, _):
                self._delete(name, uid)
            case SetReplicas(name, count):
                self.targets[name] = count
            case Drain(name, reason, _):
                self._drain(name, reason)
            case Undrain(name):
                self._undrain(name)
            case Resume(name):
                self.nodes[name].down = False
            case Down(name, reason):
                self._down(name, reason)
            case Signal(job, name, signal, reason, _):
                self.nodes[name].reason = reason
                self.signalled.append((job, signal))
            case Requeue(job, _) | Cancel(job, _):
                self.end(job)
                self.requeued.append(job)
            case DeleteNode(name):
                if self.on(name):
                    self.broken.append(f"{name}: record deleted under a job")
                self.nodes.pop(name, None)
            case DeleteNodeSet(name):
                self.targets.pop(name, None)

    def add_worker(self, name: str, ordinal: int, *, started: bool = True) -> str:
        worker = f"{name}-{ordinal}"
        if worker in self.workers:
            self.broken.append(f"{worker}: made twice")
        self.made += 1
        self.workers[worker] = Worker(worker, name, ordinal, uid=f"uid-{self.made}", host_node="n1" if started else "")
        if started:
            self.register(worker)
        return worker

    def register(self, worker: str) -> None:
        """The pod was bound, its slurmd has started: a drain and its reason outlive a restart, DOWN does not."""
        found = self.workers[worker]
        self.workers[worker] = Worker(found.name, found.node_set, found.ordinal, found.uid, "Running", True, False, "n1")
        node = self.nodes.setdefault(worker, Node())
        node.down, node.started = False, self.now

    def run_job(self, job_id: int, *nodes: str, seconds: float, requeue: bool = True, priority: int = 10) -> None:
        assert not any(self.nodes[name].draining or self.nodes[name].down for name in nodes)
        self.jobs[job_id] = Job(job_id, nodes, self.now + timedelta(seconds=seconds), True, requeue, priority)

    def end(self, job_id: int) -> None:
        job = self.jobs.pop(job_id, None)
        for name in job.nodes if job else ():
            if name in self.nodes:
                self.nodes[name].last_busy = self.now

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        for job in list(self.jobs.values()):
            if job.ends <= self.now:
                self.end(job.job_id)

    def _delete(self, name: str, uid: str) -> None:
        worker = self.workers.get(name)
        if worker is None or worker.uid != uid:
            return
        node = self.nodes.get(name)
        if self.on(name) and node is not None:
            since = node.drained_at
            overdue = since is not None and self.now >= since + self.spec.lease.grace
            mandatory = self.deadlines.over_since.get(worker.node_set)
            if not overdue and (mandatory is None or self.now < mandatory + self.spec.lease.grace):
                self.broken.append(f"{name}: deleted under a job before its deadline")
        for job in self.on(name):
            self.end(job.job_id)
        del self.workers[name]
        if node is not None:
            node.down = True

    def _drain(self, name: str, reason: str) -> None:
        node = self.nodes[name]
        if node.draining and node.reason and not node.reason.startswith("bulkhead:"):
            self.broken.append(f"{name}: foreign reason written over")
        node.draining, node.reason = True, reason
        if reason.startswith(GIVING) and node.drained_at is None:
            node.drained_at = self.now

    def _undrain(self, name: str) -> None:
        node = self.nodes[name]
        if not node.reason.startswith("bulkhead:"):
            self.broken.append(f"{name}: foreign reason cleared")
        node.draining, node.reason, node.drained_at = False, "", None

    def _down(self, name: str, reason: str) -> None:
        node = self.nodes[name]
        if node.reason and not node.reason.startswith("bulkhead:"):
            self.broken.append(f"{name}: foreign reason written over")
        worker = self.workers.get(name)
        if (
            self.on(name)
            and worker is not None
            and (node.drained_at is None or self.now < node.drained_at + self.spec.lease.grace)
        ):
            self.broken.append(f"{name}: taken down under a job before its deadline")
        node.down, node.reason = True, reason
        for job in self.on(name):
            self.end(job.job_id)
            self.requeued.append(job.job_id)
