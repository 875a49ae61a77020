"""Faults of a target in Slurm mode: a job array without an end, and a controller of Slurm that is killed under load."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from e2e.chaos.faults.fault import Fault, Proof, Scene
from e2e.names import SLURM_NAMESPACE
from e2e.poll import NotYetError
from e2e.slurm import faults, jobs
from e2e.slurm.clusters import Cluster
from e2e.workloads import expect


def _unmet(scene: Scene) -> str:
    found = scene.target.api.find("Pod", "login-0", SLURM_NAMESPACE)
    return "" if found else f"the target {scene.target.name} has no Slurm cluster; this needs a tenant in Slurm mode"


def _job_runs(cluster: Cluster) -> None:
    """Raises `NotYetError` unless a short job completes."""
    number = jobs.submit(cluster, "true")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        job = jobs.find(cluster, number)
        if job is not None and job.state == "COMPLETED":
            return
        time.sleep(0.5)
    cluster.run("scancel", str(number), check=False)
    raise NotYetError(f"job {number}: {jobs.find(cluster, number)}")


@dataclass(frozen=True, slots=True)
class EndlessArray(Fault):
    """Job arrays with as many tasks as Slurm allows, submitted again and again until it refuses.

    One refusal is enough: sbatch tries again for two minutes before it tells of it.
    """

    arrays: int = 12
    seconds: float = 30.0

    def unmet(self, scene: Scene) -> str:
        return _unmet(scene)

    def inject(self, scene: Scene) -> Sequence[Proof]:
        cluster = Cluster(scene.target)
        most = int(cluster.config("MaxArraySize")) - 1
        answers = []
        for _ in range(self.arrays):
            script = "#!/bin/sh\nsleep 1\n"
            words = ("sbatch", "--parsable", f"--array=0-{most}", "--output=/dev/null")
            outcome = cluster.run(*words, given=script, check=False)
            answers.append("" if outcome.code == 0 else outcome.text[-100:])
            if answers[-1]:
                break
        time.sleep(self.seconds)
        waiting = len(cluster.run("squeue", "-h", "-r", "-o", "%i", seconds=60).out.split())
        accepted = answers.count("")
        refusal = next((text for text in answers if text), "none was refused")
        return [(waiting > most / 2, f"{waiting} tasks wait or run; {accepted} arrays of {most + 1} were accepted; {refusal}")]

    def lift(self, scene: Scene) -> None:
        cluster = Cluster(scene.target)
        for user in ("alice", "bob"):
            cluster.run("scancel", f"--user={user}", check=False, seconds=120)

    def recovered(self, scene: Scene) -> None:
        _job_runs(Cluster(scene.target))

    def over(self, scene: Scene) -> None:
        left = Cluster(scene.target).run("squeue", "-h", "-o", "%i").out.split()
        expect(not left, f"{len(left)} jobs are left")


@dataclass(frozen=True, slots=True)
class KillSlurmController(Fault):
    """SIGKILL to slurmctld while a job runs; the job goes on."""

    def unmet(self, scene: Scene) -> str:
        return _unmet(scene)

    def inject(self, scene: Scene) -> Sequence[Proof]:

        cluster = Cluster(scene.target)
        number = jobs.submit(cluster, "sleep 25")
        jobs.wait(cluster, number, "RUNNING", seconds=60)
        controller = next(pod for pod in cluster.api.list("Pod", SLURM_NAMESPACE) if "slurmctld" in pod["metadata"]["name"])
        faults.kill_daemon(scene.host, cluster, controller["metadata"]["name"], "slurmctld")
        job = jobs.wait(cluster, number, "RUNNING", "COMPLETED", seconds=60)
        text = f"slurmctld was killed and runs again; job {number} is {job.state}, requeued {job.restarts} times"
        return [(job.restarts == 0, text)]

    def recovered(self, scene: Scene) -> None:
        _job_runs(Cluster(scene.target))

    def over(self, scene: Scene) -> None:
        left = Cluster(scene.target).run("squeue", "-h", "-o", "%i").out.split()
        expect(not left, f"{len(left)} jobs are left")
