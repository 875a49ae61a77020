"""What a Slurm user types: every command of a user's day, on a login node of a tenant."""

import json
import re
import subprocess
import sys

import pytest

from e2e import commands, machine, workloads
from e2e.poll import until
from e2e.slurm import clusters, jobs
from e2e.slurm.clusters import BOB, Cluster


def test_bulkhead_slurm_runs_a_command_and_passes_on_its_exit_code(red: Cluster) -> None:
    shown = commands.bulkhead("slurm", red.name, "--", "sinfo", "-h", "-o", "%R", kubeconfig=machine.KUBECONFIG)
    assert set(shown.out.split()) == {"cpu", "gpu"}
    wrong = commands.bulkhead("slurm", red.name, "--", "sh", "-c", "exit 9", kubeconfig=machine.KUBECONFIG, check=False)
    assert wrong.code == 9


def test_commands_run_as_the_user_who_was_named(red: Cluster) -> None:
    for user, uid in (("alice", "10001"), (BOB, "10002")):
        words = ("slurm", red.name, "--user", user, "--", "sh", "-c", "id -u; pwd")
        assert commands.bulkhead(*words, kubeconfig=machine.KUBECONFIG).out.split() == [uid, f"/home/{user}"]
    assert "is not one of" in commands.bulkhead("slurm", red.name, "-u", "eve", kubeconfig=machine.KUBECONFIG, check=False).err


def test_a_batch_job_runs_as_its_user_and_writes_into_the_shared_home(quiet: Cluster) -> None:
    script = 'echo "$(whoami) $(hostname) $SLURM_JOB_NAME"; echo from-the-node > made-by-job'
    number = jobs.submit(quiet, script, "--job-name=first", "--nodelist=cpu-1", user=BOB)
    jobs.wait(quiet, number)
    assert jobs.output(quiet, number, user=BOB).split() == ["bob", "cpu-1", "first"]
    assert quiet.shell("cat made-by-job", user=BOB).out == "from-the-node\n"


def test_squeue_scontrol_and_scancel(quiet: Cluster) -> None:
    number = jobs.submit(quiet, "sleep 300", "--hold", "--job-name=held")
    assert quiet.run("squeue", "-h", "-j", str(number), "-o", "%j %T %r").out.split() == ["held", "PENDING", "JobHeldUser"]
    quiet.run("scontrol", "release", str(number))
    jobs.wait(quiet, number, "RUNNING")
    assert quiet.run("squeue", "-h", "--me", "-o", "%i").out.split() == [str(number)]
    refused = quiet.run("scancel", str(number), user=BOB, check=False)
    assert refused.code != 0, "bob may not cancel alice's job"
    assert "permission denied" in refused.text.lower(), refused.text
    assert (job := jobs.find(quiet, number)) is not None
    assert job.state == "RUNNING"
    quiet.run("scancel", str(number))
    jobs.wait(quiet, number, "CANCELLED")


def test_srun_runs_on_several_nodes_and_passes_on_its_exit_code(quiet: Cluster) -> None:
    assert sorted(quiet.run("srun", "-N", "2", "hostname").out.split()) == ["cpu-0", "cpu-1"]
    assert quiet.run("srun", "sh", "-c", "exit 5", check=False).code == 5
    assert quiet.run("srun", "-n", "2", "-N", "1", "cat", given="hello\n").out.split() == ["hello", "hello"]


def test_salloc_gives_an_allocation_to_a_command(quiet: Cluster) -> None:
    allocated = quiet.run("salloc", "-N", "2", "sh", "-c", "scontrol show hostnames; echo --; srun hostname")
    granted, _, ran = allocated.out.partition("--")
    assert set(granted.split()) == {"cpu-0", "cpu-1"} == set(ran.split())


def test_job_arrays(quiet: Cluster) -> None:
    quiet.run("sbatch", "--wait", "--array=1-4%2", "--output=array-%a.out", given="#!/bin/sh\necho task $SLURM_ARRAY_TASK_ID\n")
    written = quiet.shell("cat array-[1-4].out").out.splitlines()
    assert written == [f"task {number}" for number in range(1, 5)]


def test_dependencies(quiet: Cluster) -> None:
    good = jobs.submit(quiet, "sleep 2; date +%s%N > good-ended")
    after = jobs.submit(quiet, "test -s good-ended", f"--dependency=afterok:{good}")
    bad = jobs.submit(quiet, "exit 1")
    never = jobs.submit(quiet, "true", f"--dependency=afterok:{bad}")
    jobs.wait(quiet, after)
    jobs.wait(quiet, bad, "FAILED")

    def refused() -> None:
        job = jobs.find(quiet, never)
        workloads.expect(job is not None and (job.reason, job.state) == ("DependencyNeverSatisfied", "PENDING"), str(job))

    until("the job behind a failed one to say so", refused, seconds=60)


def test_a_requeued_job_starts_again_and_finishes(quiet: Cluster) -> None:
    script = 'echo "start $SLURM_RESTART_COUNT"; test "${SLURM_RESTART_COUNT:-0}" -gt 0 || sleep 300'
    number = jobs.submit(quiet, script, "--requeue", "--open-mode=append")
    jobs.wait(quiet, number, "RUNNING")
    quiet.run("scontrol", "requeue", str(number))
    # Slurm delays a requeued job for a while, so that its former nodes can finish.
    assert jobs.wait(quiet, number, seconds=240).restarts == 1
    assert "start 1" in jobs.output(quiet, number)


def test_gpus_by_type_and_number(quiet: Cluster) -> None:
    shown = quiet.run("srun", "-p", "gpu", "--gres=gpu:h100:1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS")
    assert shown.out.split()[0] == "0"
    both = quiet.run("srun", "-p", "gpu", "--gres=gpu:h100:2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert both.out.strip() == "0,1"
    refused = quiet.run("srun", "-p", "gpu", "--gres=gpu:a100:1", "true", check=False)
    assert refused.code != 0
    words = ("invalid generic resource", "node configuration is not available")
    assert any(word in refused.text.lower() for word in words), refused.text


def test_two_jobs_share_the_gpus_of_a_node_without_overlap(quiet: Cluster) -> None:
    script = "echo $CUDA_VISIBLE_DEVICES; sleep 20"
    numbers = [jobs.submit(quiet, script, "-p", "gpu", "--gres=gpu:1", "--mem=50") for _ in range(2)]
    for number in numbers:
        jobs.wait(quiet, number, "RUNNING")
    seen = {jobs.wait_output(quiet, number, bool).strip() for number in numbers}
    assert seen == {"0", "1"}


def test_exclusive_leaves_the_node_to_one_job(quiet: Cluster) -> None:
    first = jobs.submit(quiet, "sleep 300", "--exclusive", "--nodelist=cpu-0")
    jobs.wait(quiet, first, "RUNNING")
    second = jobs.submit(quiet, "true", "--nodelist=cpu-0", "--mem=10")

    def waits() -> None:
        job = jobs.find(quiet, second)
        workloads.expect(job is not None and job.state == "PENDING" and job.reason in {"Resources", "Priority"}, str(job))

    until("the second job to wait for the node", waits, seconds=30)
    quiet.run("scancel", str(first))
    jobs.wait(quiet, second)


def test_srun_pty_gives_a_terminal_on_the_node(red: Cluster) -> None:
    ours = [sys.executable, "-m", "workstation.cli.main", "--kubeconfig", str(machine.KUBECONFIG), "slurm", red.name]
    line = clusters.quoted([*ours, "--", "srun", "--pty", "sh", "-c", "tty; hostname; stty size"])
    # `script` gives the command a terminal of this machine.
    done = subprocess.run(["script", "-qec", line, "/dev/null"], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout
    assert "/dev/pts/" in done.stdout
    assert "cpu-" in done.stdout


@pytest.mark.parametrize(
    "words", [("srun", "--mpi=pmix", "-N", "2", "-n", "2"), ("salloc", "-N", "2", "-n", "2", "mpirun")], ids=["pmix", "mpirun"]
)
def test_mpi_over_two_nodes(quiet: Cluster, words: tuple[str, ...]) -> None:
    done = quiet.run(*words, "mpi-ring", seconds=150)
    ranks = dict(re.findall(r"rank ([01]) of 2 on (cpu-[01]): ok", done.text))
    assert set(ranks) == {"0", "1"}, done.text
    assert set(ranks.values()) == {"cpu-0", "cpu-1"}, done.text
    facts = json.loads(next(line for line in done.out.splitlines() if line.startswith("{")))
    assert facts["ranks"] == 2
    assert facts["mb_per_s"] > 0


def test_a_running_job_can_be_joined_for_debugging(quiet: Cluster) -> None:
    number = jobs.submit(quiet, "export MARK=inside; sleep 300", "--nodelist=cpu-1")
    jobs.wait(quiet, number, "RUNNING")
    joined = quiet.run("srun", f"--jobid={number}", "--overlap", "sh", "-c", "hostname; ps -eo args | grep -c '[s]leep 300'")
    assert joined.out.split() == ["cpu-1", "1"]
    stack = quiet.run(
        "srun", f"--jobid={number}", "--overlap", "sh", "-c", "cat /proc/$(pgrep -n sleep)/wchan /proc/$(pgrep -n sleep)/status"
    )
    assert "Name:\tsleep" in stack.out
    quiet.run("scancel", str(number))
