"""What the status and the meters get: workers without a job, where unknown must not count as idle, and counts with a bound."""

import pytest

from bulkhead.api.fields import MOST_COUNTED
from bulkhead.api.slurm import SlurmStatus
from controller.slurm.answers.view import SlurmJob, SlurmNode, SlurmView
from controller.slurm.decide.status import counts
from controller.slurm.decide.status import resting as resting_of
from controller.slurm.lease.fleet import Worker

IDLE = SlurmNode("gpu-0", frozenset({"IDLE"}))
WORKER = Worker("gpu-0", "gpu", 0, uid="u0")


def resting(view: SlurmView) -> frozenset[str]:
    return resting_of(view, [WORKER], frozenset({"u0"}))


@pytest.mark.parametrize(
    ("states", "rests"),
    [("IDLE", True), ("IDLE DRAIN", True), ("ALLOCATED", False), ("MIXED", False), ("IDLE COMPLETING", False),
     ("IDLE PLANNED", False), ("UNKNOWN", False), ("ERROR", False), ("DOWN", True)],
)  # fmt: skip
def test_a_worker_rests_when_nothing_is_on_it_or_about_to_be(states: str, *, rests: bool) -> None:
    view = SlurmView(nodes=(SlurmNode("gpu-0", frozenset(states.split())),))
    assert resting(view) == ({"u0"} if rests else set())


def test_a_worker_with_a_job_works_whatever_its_state_says() -> None:
    job = SlurmJob(1, frozenset({"RUNNING"}), nodes=("gpu-0",))
    assert resting(SlurmView(nodes=(IDLE,), jobs=(job,))) == set()
    assert resting(SlurmView(nodes=(SlurmNode("gpu-0", frozenset({"IDLE"}), cpus_used=1),))) == set()


def test_no_worker_is_idle_if_jobs_were_not_read() -> None:
    assert resting(SlurmView(nodes=(IDLE,), jobs=None)) == set()


def test_only_what_is_known_as_a_worker_rests() -> None:
    # Slurm and the pods of the plane are the tenant's.
    view = SlurmView(nodes=(IDLE, SlurmNode("gpu-9", frozenset({"IDLE"}))))
    assert resting_of(view, [WORKER, Worker("gpu-9", "gpu", 9, uid="u9")], frozenset({"u0"})) == {"u0"}


@pytest.mark.parametrize("number", [7, MOST_COUNTED, MOST_COUNTED + 1, 10**40])
def test_no_number_of_jobs_makes_the_status_one_that_the_host_refuses(number: int) -> None:
    """Job arrays count by their tasks, and slurmrestd is the tenant's."""
    nodes = tuple(SlurmNode(f"gpu-{ordinal}", frozenset({"IDLE"})) for ordinal in range(8192))
    made = SlurmStatus.model_validate(counts(SlurmView(nodes=nodes, jobs=None, pending=number, running=number)))
    assert made.jobs is not None
    assert made.jobs.pending == made.jobs.running == min(number, MOST_COUNTED)
