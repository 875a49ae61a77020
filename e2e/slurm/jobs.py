"""Batch jobs of a Slurm tenant: submit, follow to a state, read their output.

Every wait has a deadline and reports what it saw last. Output is read through the login node, as a user would.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from e2e.poll import NotYetError, until
from e2e.slurm.clusters import ALICE, Cluster

DONE = ("COMPLETED",)
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY")


@dataclass(frozen=True, slots=True)
class Job:
    """A job as slurmctld shows it now."""

    number: int
    state: str
    reason: str
    nodes: str
    restarts: int
    exit_code: str


def submit(cluster: Cluster, script: str, *options: str, user: str = ALICE) -> int:
    """Submit a script by `sbatch`; its output goes to `job-%j.out` in the user's home."""
    words = ("sbatch", "--parsable", "--output=job-%j.out", *options)
    text = script if script.startswith("#!") else f"#!/bin/bash\n{script}\n"
    return int(cluster.run(*words, user=user, given=text).out.strip().split(";")[0])


def find(cluster: Cluster, number: int) -> Job | None:
    """The job; None if slurmctld has forgotten it or does not answer."""
    outcome = cluster.run("scontrol", "-o", "show", "job", str(number), check=False)
    if outcome.code != 0:
        return None
    # A name may contain a line break; the rest of the record is then on another line.
    line = " ".join(outcome.out.splitlines())
    return Job(
        number,
        _field(line, "JobState"),
        _field(line, "Reason"),
        _field(line, "NodeList"),
        int(_field(line, "Restarts") or 0),
        _field(line, "ExitCode"),
    )


def wait(cluster: Cluster, number: int, *states: str, seconds: float = 60.0) -> Job:
    """Wait until the job is in one of the states; COMPLETED by default."""
    wanted = states or DONE

    def probe() -> Job:
        job = find(cluster, number)
        if job is None:
            raise NotYetError("slurmctld does not report it")
        if job.state in OVER and job.state not in wanted:
            raise AssertionError(f"job {number} of {cluster.name} ended: {job}; it wrote: {output(cluster, number)[-500:]!r}")
        if job.state not in wanted:
            raise NotYetError(str(job))
        return job

    return until(f"job {number} of {cluster.name} to be {' or '.join(wanted)}", probe, seconds=seconds)


def requeued(cluster: Cluster, numbers: Sequence[int]) -> int:
    """The job among these that was requeued. slurmctld counts that once the job's nodes have finished with it."""
    found = [number for number in numbers if (job := find(cluster, number)) is not None and job.restarts]
    if len(found) != 1:
        raise NotYetError(f"queued again: {found}")
    return found[0]


def output(cluster: Cluster, number: int, *, user: str = ALICE) -> str:
    """What the job wrote so far."""
    return cluster.shell(f"cat job-{number}.out", user=user, check=False).out


def wait_output(
    cluster: Cluster, number: int, holds: Callable[[str], bool], *, user: str = ALICE, seconds: float = 60.0
) -> str:
    """Wait until what the job wrote satisfies a test."""

    def probe() -> str:
        text = output(cluster, number, user=user)
        if not holds(text):
            raise NotYetError(f"{text[-300:]!r}; {find(cluster, number)}")
        return text

    return until(f"the output of job {number} of {cluster.name}", probe, seconds=seconds)


def done(cluster: Cluster, script: str, *options: str, user: str = ALICE, seconds: float = 60.0) -> str:
    """Submit, wait for completion, return the output."""
    number = submit(cluster, script, *options, user=user)
    wait(cluster, number, seconds=seconds)
    return output(cluster, number, user=user)


def cancel_all(cluster: Cluster) -> None:
    """Cancel all jobs of earlier tests."""
    cluster.run("scancel", "--user=alice", check=False)
    cluster.run("scancel", "--user=bob", check=False)

    def probe() -> None:
        left = cluster.run("squeue", "-h", "-o", "%i %T").out.split("\n")
        if any(left):
            raise NotYetError(str(left))

    until(f"the queue of {cluster.name} to be empty", probe, seconds=60)


def state_of(shown: str) -> str:
    """The state in one line of `scontrol show job`."""
    return _field(shown, "JobState")


def _field(line: str, name: str) -> str:
    found = re.search(rf"(?:^|\s){name}=(\S*)", line)
    return found.group(1) if found else ""
