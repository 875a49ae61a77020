"""Measures a tenant's Slurm and the same daemons started plainly, alternating on the same machine.

    tenant: created, first job ──> rounds of (tenant, plain) ──> idle memory ──> reclaim ──> simulated workers, long queue

The plain side runs the tenant's own slurm.conf with other paths and addresses. While one side works, the other is idle.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from e2e import machine, tenants
from e2e.api import Api
from e2e.commands import Outcome
from e2e.names import GPU, SLURM_NAMESPACE
from e2e.performance import slurm_figures as figures
from e2e.performance.memory import MIB
from e2e.performance.plain_slurm import plain_slurm
from e2e.poll import NotYetError, until
from e2e.slurm import clusters, jobs
from e2e.slurm.clusters import Cluster, node_set
from e2e.workloads import whole
from workstation.hostcluster import cgroups
from workstation.hostcluster.component import CGROUP

NAME = "bench-slurm"
GRACE = 5  # seconds for which a job keeps a worker that has to go
READY_DEADLINE = 600.0
RUN_DEADLINE = 900.0

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of the measurements."""

    jobs: int = 1000
    rounds: int = 3
    latencies: int = 40
    workers: int = 64  # simulated, on the plain side
    queue: int = 10_000


class Side(Protocol):
    """A cluster's login node."""

    def run(self, *words: str, given: str | None = None, seconds: float = 60.0) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Bench:
    """One run of the benchmark."""

    host: Api
    plan: Plan
    note: Note

    def run(self) -> dict[str, Any]:
        tenants.remove(self.host, NAME, seconds=READY_DEADLINE)
        try:
            return self._run()
        finally:
            self.host.delete("Tenant", NAME)

    def _run(self) -> dict[str, Any]:
        cluster, ready = self._create()
        conf = cluster.api.get("ConfigMap", "slurm-config", SLURM_NAMESPACE)["data"]["slurm.conf"]
        idle = self._idle(cluster)
        with beside_pods(), plain_slurm(conf, nodes=2) as plain:
            rounds = [self._round(number, cluster, plain) for number in range(self.plan.rounds)]
            sides = [_summed([pair[side] for pair in rounds]) for side in (0, 1)]
            for name, side, summed in (("tenant", cluster, sides[0]), ("plain", plain, sides[1])):
                summed["ring_mb_per_s"] = self._ring(name, side)
        return {
            "ready_s": ready,
            "tenant": sides[0],
            "plain": sides[1],
            "ratio": figures.ratios(sides[0], sides[1]),
            **idle,
            "reclaim_s": self._reclaim(cluster),
            "queue": self._queue(cluster),
            "simulated": self._simulated(conf),
            "jobs": self.plan.jobs,
            "rounds": self.plan.rounds,
        }

    def _create(self) -> tuple[Cluster, float]:
        """From the creation of the Tenant to the end of its first job."""
        found = clusters.slurm(node_set("cpu", replicas=2), _elastic(1)) | {
            "lease": {"graceSeconds": GRACE, "idleSeconds": 5},
            # The queue must hold the measured jobs in addition to those that have just ended, which count for a while.
            "extraConf": f"MaxJobCount={2 * self.plan.queue}\n",
        }
        begin = time.monotonic()
        self.host.create(tenants.manifest(NAME, gpus=1, **clusters.spec(found)))
        tenants.wait_condition(self.host, NAME, "PlaneReady", status="True", seconds=READY_DEADLINE)
        cluster = Cluster(tenants.open_tenant(NAME))

        def first() -> None:
            done = cluster.run("srun", "-p", "cpu", "hostname", check=False, seconds=60)
            if done.code != 0:
                raise NotYetError(done.text[-300:])

        until("the first job", first, seconds=READY_DEADLINE, interval=0.1)
        took = round(time.monotonic() - begin, 1)
        self.note(f"first job done {took:.1f} s after the Tenant was created")
        clusters.wait_ready(self.host, NAME, seconds=READY_DEADLINE)
        clusters.wait_nodes(cluster, "cpu-0", "cpu-1", seconds=READY_DEADLINE)
        return cluster, took

    def _round(self, number: int, cluster: Side, plain: Side) -> tuple[dict[str, Any], dict[str, Any]]:
        """Both sides, alternating which one is first."""
        order = [("tenant", cluster, "cpu"), ("plain", plain, "plain")]
        found = {name: self._measure(number, name, side, place) for name, side, place in (order if number % 2 else order[::-1])}
        return found["tenant"], found["plain"]

    def _measure(self, number: int, name: str, side: Side, partition: str) -> dict[str, Any]:
        count = self.plan.jobs // self.plan.rounds
        batch = figures.batch(self._script(side, figures.BATCH, str(count), partition), count)
        srun = figures.milliseconds(self._script(side, figures.LATENCY, str(self.plan.latencies), partition))
        self.note(f"round {number + 1}, {name}: {batch['submit_per_s']} submitted/s, srun p50 {srun['p50_ms']} ms")
        return {"batch": batch, "srun": srun}

    def _script(self, side: Side, script: str, *words: str) -> str:
        return side.run("bash", "-c", script, "bench", *words, seconds=RUN_DEADLINE).out

    def _ring(self, name: str, side: Side) -> float:
        found = max(figures.ring(side.run(*figures.RING, seconds=180).out) for _ in range(3))
        self.note(f"{name}: MPI ring {found:.0f} MB/s")
        return found

    def _idle(self, cluster: Cluster) -> dict[str, Any]:
        """Memory of everything in the tenant's work namespace, some seconds after its last job; workers counted separately."""
        time.sleep(15)
        parts: dict[str, float] = {}
        pss = 0.0
        for pod in self.host.list("Pod", cluster.tenant.work):
            name = pod["metadata"]["annotations"].get("bulkhead.dev/virtual-name", pod["metadata"]["name"])
            rss = 0
            for process in machine.processes_of_pod(pod["metadata"]["uid"]):
                with contextlib.suppress(ProcessLookupError):  # a probe's program comes and goes
                    rss += machine.rss_kib(process.pid)
                    pss += machine.pss_kib(process.pid) / MIB
            parts[name] = round(rss / MIB, 1)
        if not any(parts.values()):
            raise RuntimeError(f"tenant {NAME}: no process found in its work namespace")
        self.note(f"idle: {sum(parts.values()):.0f} MiB resident: {parts}")
        return {"idle_rss_mib": round(sum(parts.values()), 1), "idle_pss_mib": round(pss, 1), "idle_rss_parts_mib": parts}

    def _reclaim(self, cluster: Cluster) -> float:
        """The time to reclaim a GPU from a running job, without the grace period of the job."""
        number = jobs.submit(cluster, "sleep 600", "-p", "gpu", "--gres=gpu:1", "--time=30")
        jobs.wait(cluster, number, "RUNNING", seconds=READY_DEADLINE)
        lowered = clusters.slurm(node_set("cpu", replicas=2)) | {"lease": {"graceSeconds": GRACE, "idleSeconds": 5}}

        def held() -> bool:
            quota = self.host.get("ResourceQuota", "tenant-quota", cluster.tenant.work)
            return bool(whole(quota.get("status", {}).get("used", {}).get(f"requests.{GPU}", 0)))

        def taken() -> None:
            if not held():
                raise NotYetError("the GPU is not counted yet")

        def back() -> None:
            if held():
                raise NotYetError("the GPU is still held")

        until("the GPU to be held", taken, seconds=READY_DEADLINE)
        begin = time.monotonic()
        self.host.patch("Tenant", NAME, {"spec": {"scheduling": {"slurm": lowered}}})
        until("the GPU to be given back", back, seconds=READY_DEADLINE)
        took = round(time.monotonic() - begin - GRACE, 1)
        self.note(f"reclaim: {took:.1f} s beyond a grace of {GRACE} s")
        return took

    def _queue(self, cluster: Cluster) -> dict[str, Any]:
        """How long squeue takes with many jobs in the queue."""
        found = figures.milliseconds(self._script(cluster, figures.QUEUE, str(max(1, self.plan.queue // 1000)), "cpu"))
        self.note(f"squeue with {self.plan.queue} jobs: p50 {found['p50_ms']} ms")
        return {"jobs": self.plan.queue, "squeue": found}

    def _simulated(self, conf: str) -> dict[str, Any]:
        """Workers by `slurmd -N` on one address, from the start of the daemons until all are idle."""
        begin = time.monotonic()
        with plain_slurm(conf, nodes=self.plan.workers) as plain:
            took = round(time.monotonic() - begin, 1)
            self.note(f"{self.plan.workers} simulated workers registered after {took:.1f} s")
            wide = plain.run("srun", "-N", str(self.plan.workers), "--mem=1", "hostname", seconds=300)
        return {"workers": self.plan.workers, "registered_s": took, "srun_on_all": len(wide.out.split())}


@contextlib.contextmanager
def beside_pods() -> Iterator[None]:
    """Give this process and the plain daemons the CPU weight of all pods together: a busy machine favours neither side."""
    joined = []
    for top in cgroups.hierarchies():
        pods, own = top / CGROUP / "kubepods", top / CGROUP / "plain"
        weight = next((name for name in ("cpu.shares", "cpu.weight") if (pods / name).exists()), None)
        if weight is None:
            continue
        own.mkdir(exist_ok=True)
        (own / weight).write_text((pods / weight).read_text())
        (own / "cgroup.procs").write_text(str(os.getpid()))
        joined.append((top, own))
    try:
        yield
    finally:
        for top, own in joined:
            (top / "cgroup.procs").write_text(str(os.getpid()))
            with contextlib.suppress(OSError):  # a step that is still ending holds it; the next run uses it again
                own.rmdir()


def _elastic(maximum: int) -> dict[str, Any]:
    found = node_set("gpu", gpus=1, gpuType="h100", min=0, max=maximum)
    del found["replicas"]
    return found


def _summed(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: figures.median_of([round_[name] for round_ in rounds]) for name in rounds[0]}
