"""Which workers hold devices without a job: metering counts them as idle, so unknown must not count as idle."""

import pytest

from controller.slurm.answers.view import SlurmJob, SlurmNode, SlurmView
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
