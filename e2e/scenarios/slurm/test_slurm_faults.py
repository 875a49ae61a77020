"""Every daemon is killed while jobs run, and the plane's API is stopped: whatever Slurm promises to survive must survive."""

import os
import time
from collections.abc import Callable

import pytest

from e2e import tenants, workloads
from e2e.api import Api
from e2e.names import SLURM_NAMESPACE
from e2e.poll import until
from e2e.slurm import clusters, faults, jobs
from e2e.slurm.clusters import Cluster
from e2e.workloads import is_ready

OUTAGE = float(os.environ.get("BULKHEAD_OUTAGE_SECONDS", "300"))
SCRIPT = 'for n in $(seq 20); do echo "$n"; sleep 1; done; echo end'
WHOLE = [*(str(number) for number in range(1, 21)), "end"]


@pytest.mark.parametrize(
    ("pod", "program"),
    [("slurmctld-0", "slurmctld"), ("slurmdbd-0", "slurmdbd"), ("mariadb-0", "mariadbd"), ("login-0", "sshd")],
)
def test_a_batch_job_survives_the_death_of(host: Api, quiet: Cluster, pod: str, program: str) -> None:
    number = jobs.submit(quiet, SCRIPT)
    saved(quiet, number)
    faults.kill_daemon(host, quiet, pod, program)
    faults.wait_ready_again(quiet, pod)
    until("the login node to serve", lambda: answers(quiet), seconds=60)
    assert jobs.wait(quiet, number, seconds=120).restarts == 0
    assert jobs.output(quiet, number).split() == WHOLE
    until("the job to be in the database", lambda: recorded(quiet, number), seconds=120)


@pytest.mark.parametrize("pod", ["slurmctld-0", "slurmdbd-0", "mariadb-0"])
def test_nothing_is_lost_when_the_pod_itself_goes(quiet: Cluster, pod: str) -> None:
    running = jobs.submit(quiet, SCRIPT)
    pending = jobs.submit(quiet, "echo later", f"--dependency=afterok:{running}")
    saved(quiet, running)
    before = quiet.pod(pod)["metadata"]["uid"]
    quiet.api.delete("Pod", pod, SLURM_NAMESPACE, grace=0)

    def renewed() -> None:
        current = quiet.pod(pod)
        workloads.expect(current["metadata"]["uid"] != before and is_ready(current), workloads.describe(current))

    until(f"a new {pod}", renewed, seconds=150)
    jobs.wait(quiet, running, seconds=120)
    jobs.wait(quiet, pending, seconds=120)
    assert jobs.output(quiet, running).split() == WHOLE
    for number in (running, pending):
        until("the job to be in the database", lambda number=number: recorded(quiet, number), seconds=120)  # type: ignore[misc]


def test_the_conditions_tell_the_story_of_a_controller_that_dies(host: Api, quiet: Cluster) -> None:
    pod = faults.mirror(host, quiet, "slurmctld-0")
    tenants.wait_condition(host, quiet.name, "SlurmReady", status="True", seconds=60)
    quiet.api.delete("Pod", "slurmctld-0", SLURM_NAMESPACE, grace=0)
    seen = tenants.wait_condition(host, quiet.name, "SlurmReady", status="False", seconds=60)
    assert seen.get("message")
    tenants.wait_condition(host, quiet.name, "SlurmReady", status="True", seconds=150)
    assert faults.mirror(host, quiet, "slurmctld-0")["metadata"]["uid"] != pod["metadata"]["uid"]


def test_a_killed_slurmd_comes_back_and_its_job_is_requeued_or_goes_on(host: Api, quiet: Cluster) -> None:
    script = 'test "${SLURM_RESTART_COUNT:-0}" -gt 0 || sleep 30; echo end'
    number = jobs.submit(quiet, script, "--nodelist=cpu-0", "--requeue")
    jobs.wait(quiet, number, "RUNNING")
    faults.kill_daemon(host, quiet, "cpu-0", "slurmd")
    jobs.wait(quiet, number, seconds=300)
    assert jobs.output(quiet, number).split()[-1] == "end"
    clusters.wait_nodes(quiet, "cpu-0", seconds=120)
    assert quiet.run("srun", "--nodelist=cpu-0", "hostname").out.strip() == "cpu-0"


def test_a_worker_pod_that_goes_is_made_again_and_its_job_runs_elsewhere(quiet: Cluster) -> None:
    # Not bound to a node by name: the record of a worker without a pod is removed, and Slurm would never start the waiting job.
    number = jobs.submit(quiet, 'test "${SLURM_RESTART_COUNT:-0}" -gt 0 || sleep 200; hostname', "-p", "cpu", "--requeue")
    worker = jobs.wait(quiet, number, "RUNNING").nodes
    assert worker in {"cpu-0", "cpu-1"}
    before = quiet.pod(worker)["metadata"]["uid"]
    quiet.api.delete("Pod", worker, SLURM_NAMESPACE)

    def made_again() -> None:
        # The old one answers until it is gone, and its record is removed afterwards.
        now = quiet.api.find("Pod", worker, SLURM_NAMESPACE)
        workloads.expect(
            now is not None and now["metadata"]["uid"] != before, f"{worker} is still the old one, or not there yet"
        )

    until(f"{worker} to be made again", made_again, seconds=150)
    clusters.wait_nodes(quiet, worker, seconds=150)
    quiet.run("scontrol", "update", f"jobid={number}", "starttime=now", check=False)
    assert jobs.wait(quiet, number, seconds=300).restarts >= 1
    assert quiet.show("node", worker).get("Reason", "") == "", "the reason of the old pod's end is cleared"


def test_slurm_goes_on_while_the_planes_api_is_away(host: Api, quiet: Cluster) -> None:
    door = faults.Door.of(host, quiet)
    seconds = int(OUTAGE)
    running = jobs.submit(quiet, f"sleep {seconds // 2}; echo through")
    jobs.wait(quiet, running, "RUNNING")
    with faults.frozen_api(host, quiet):
        begin = time.monotonic()
        submitted = int(door.run("sbatch", "--parsable", given="#!/bin/sh\necho during\n").out)
        assert door.run("srun", "-N", "1", "echo", "interactive").out.strip() == "interactive"
        # Checked now: slurmctld forgets a job five minutes after its end.
        until("what was submitted meanwhile to be done", lambda: completed(door, submitted), seconds=60)
        until_end(begin, OUTAGE, lambda: expect_up(door))
        until("what ran before to be done", lambda: completed(door, running), seconds=60)
    until("the plane's API to be back", lambda: workloads.expect(quiet.api.ready(), "not ready"), seconds=180)
    tenants.wait_condition(host, quiet.name, "SlurmReady", status="True", seconds=180)
    until("the login node to serve", lambda: answers(quiet), seconds=60)
    assert jobs.output(quiet, running) == "through\n"
    clusters.wait_nodes(quiet, "cpu-0", "cpu-1", "gpu-0", seconds=60)
    assert jobs.done(quiet, "echo after") == "after\n"


def saved(cluster: Cluster, number: int) -> None:
    """Wait until the job has run for longer than slurmctld needs to write its queue to the volume: five seconds."""
    jobs.wait_output(cluster, number, lambda text: len(text.split()) >= 8)


def answers(cluster: Cluster) -> None:
    outcome = cluster.run("sinfo", "-h", check=False)
    workloads.expect(outcome.code == 0, outcome.text)


def recorded(cluster: Cluster, number: int) -> None:
    outcome = cluster.run("sacct", "-X", "-n", "-P", "-j", str(number), "-o", "State", check=False)
    workloads.expect(outcome.out.split() == ["COMPLETED"], outcome.text)


def completed(door: faults.Door, number: int) -> None:
    state = jobs.state_of(door.run("scontrol", "-o", "show", "job", str(number)).out)
    workloads.expect(state == "COMPLETED", f"job {number} is {state}")


def expect_up(door: faults.Door) -> None:
    assert "UP" in door.run("scontrol", "ping").out


def until_end(begin: float, seconds: float, check: Callable[[], None]) -> None:
    """Check regularly until the time is over."""
    while time.monotonic() < begin + seconds:
        check()
        time.sleep(min(5.0, max(0.1, begin + seconds - time.monotonic())))
