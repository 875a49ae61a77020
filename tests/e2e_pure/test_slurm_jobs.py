"""Which of several Slurm jobs was queued again, as the Slurm scenarios wait for it."""

from typing import cast

import pytest

from e2e.poll import NotYetError
from e2e.slurm import jobs
from e2e.slurm.clusters import Cluster
from e2e.slurm.jobs import Job

CLUSTER = cast("Cluster", None)  # nothing is asked of it: what slurmctld says is given


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[int, Job]:
    """What slurmctld says of each job."""
    found: dict[int, Job] = {}
    monkeypatch.setattr(jobs, "find", lambda _, number: found.get(number))
    return found


def job(number: int, state: str, restarts: int) -> Job:
    return Job(number, state, "None", "gpu-0", restarts, "0:0")


def test_it_is_the_one_that_was_counted(told: dict[int, Job]) -> None:
    told |= {1: job(1, "RUNNING", 0), 2: job(2, "PENDING", 1)}
    assert jobs.requeued(CLUSTER, [1, 2]) == 2


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([job(1, "RUNNING", 0), job(2, "COMPLETING", 0)], id="its nodes are not done with it"),
        pytest.param([job(1, "PENDING", 1), job(2, "PENDING", 1)], id="both"),
        pytest.param([job(1, "RUNNING", 0)], id="slurmctld says nothing about the other"),
    ],
)
def test_it_is_waited_for_until_it_is_one(told: dict[int, Job], seen: list[Job]) -> None:
    told |= {each.number: each for each in seen}
    with pytest.raises(NotYetError, match="queued again"):
        jobs.requeued(CLUSTER, [1, 2])
