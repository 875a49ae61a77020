"""What placing jobs costs: a tenant decides how many jobs, pods and node sets there are, and all tenants wait meanwhile."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.slurm.lease import demand as module
from controller.slurm.lease.fleet import Worker
from controller.slurm.observe import Seen
from controller.slurm.spec import NODE_SET_LABEL, ORDINAL_LABEL
from tests.controller.slurm_runtime.test_lease import world
from tests.controller.slurm_runtime.world import World, pending, slurm_spec


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often it was tried whether a worker holds a part of a job."""
    found, holds = [0], module._Bin.holds

    def counted(bin_: module._Bin, piece: module._Piece) -> bool:
        found[0] += 1
        return holds(bin_, piece)

    monkeypatch.setattr(module._Bin, "holds", counted)
    return lambda: found[0]


def test_a_job_on_many_workers_looks_at_each_of_them_once(looks: Callable[[], int]) -> None:
    made = world(workers=300, maximum=300)
    made.queue = [pending(1, node_count=300)]
    made.pass_time(300)
    assert made.step() == ()
    assert looks() <= 300


def test_jobs_like_one_that_did_not_fit_are_not_tried_again(looks: Callable[[], int]) -> None:
    made = world(workers=100, maximum=100)
    made.queue = [pending(job, node_count=101) for job in range(500)]
    made.step()
    assert looks() <= 101
    made.queue = [pending(job, cpus=8, copies=1000) for job in range(500)]
    made.step()
    assert looks() <= 501


def test_jobs_beyond_what_is_looked_at_are_not_placed_and_cost_no_worker(
    looks: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_VISITS", 30)
    made = world(workers=20, maximum=40)
    made.queue = [pending(job, memory_mib=4096 - job, cpus=8, copies=40) for job in range(40)]
    made.pass_time(300)
    assert made.step() == ()
    assert looks() <= 60
    assert len(made.workers) == 20


def test_workers_of_many_sets_are_looked_at_a_few_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [0]

    def counted(worker: Worker) -> bool:
        found[0] += 1
        return not worker.deleting and not worker.finished

    monkeypatch.setattr(Worker, "live", property(counted))
    made = World(slurm_spec())
    for number in range(200):
        made.add_worker(f"own{number}", 0)
    made.step()
    assert all(node.draining for node in made.nodes.values())
    assert found[0] <= 200 * 10


def test_pods_are_read_as_workers_once() -> None:
    labels = {NODE_SET_LABEL: "gpu", ORDINAL_LABEL: "0"}
    seen = Seen(pods=({"metadata": {"name": "gpu-0", "labels": labels}}, {"metadata": {"name": "login-0"}}))
    first = seen.workers
    assert [worker.name for worker in first] == ["gpu-0"]
    assert seen.workers is first
    assert replace(seen, node_sets={}).workers == seen.workers
