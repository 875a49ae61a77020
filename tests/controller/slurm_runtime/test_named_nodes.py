"""Which workers are of use to a job: by --exclude and --nodelist, by the type of GPU that it names, by a worker's real size."""

import json
from dataclasses import replace
from typing import Any

import pytest

from controller.slurm.answers import parse
from controller.slurm.lease.fleet import CreateWorker
from tests.controller.slurm_runtime.slurmrestd import job
from tests.controller.slurm_runtime.test_lease import created, world
from tests.controller.slurm_runtime.world import World, node_set, pending, slurm_spec

GPU_0, GPU_1 = frozenset({"gpu-0"}), frozenset({"gpu-1"})


def test_a_job_that_excludes_the_idle_worker_gets_another_and_the_idle_one_goes() -> None:
    made = world(workers=1)
    made.queue = [pending(1, gpus=2, excluded=GPU_0)]
    assert created(made) == 1
    # While the new worker starts, the other one has idled for long enough: it goes, and not the one that the job will get.
    made.pass_time(61)
    for _ in range(4):
        made.step()
    assert sorted(made.workers) == ["gpu-1"]
    made.register("gpu-1")
    made.pass_time(61)
    assert made.step() == ()


def test_a_job_that_names_a_busy_worker_starts_no_other_and_keeps_no_other() -> None:
    made = world(workers=2)
    made.run_job(1, "gpu-1", seconds=6000)
    made.queue = [pending(2, gpus=2, required=GPU_1)]
    assert created(made) == 0
    made.pass_time(61)
    for _ in range(3):
        made.step()
    assert sorted(made.workers) == ["gpu-1"]


def test_a_worker_that_a_waiting_job_names_stays_though_the_job_waits_for_another_too() -> None:
    made = world(workers=2)
    made.run_job(1, "gpu-1", seconds=6000)
    made.queue = [pending(2, gpus=4, node_count=2, required=GPU_0 | GPU_1)]
    made.pass_time(600)
    assert made.step() == ()


def test_a_named_worker_is_filled_up_with_others() -> None:
    made = world(workers=1)
    made.queue = [pending(1, gpus=4, node_count=2, required=GPU_0)]
    assert created(made) == 1


def test_a_job_that_names_a_worker_that_is_not_there_starts_none() -> None:
    made = world()
    made.queue = [pending(1, gpus=2, required=GPU_1)]
    assert created(made) == 0


@pytest.mark.parametrize(("kind", "wanted"), [("h100", [CreateWorker("big", 0)]), ("v100", [])])
def test_a_job_that_names_a_type_of_gpu_starts_no_worker_with_another(kind: str, wanted: list[CreateWorker]) -> None:
    made = World(slurm_spec(node_set("small", gpu_type="a100"), node_set("plain"), node_set("big", gpu_type="H100")))
    made.queue = [pending(1, gpus=2, gpu_types=frozenset({kind}), partitions=("small", "plain", "big"))]
    assert [action for action in made.step() if isinstance(action, CreateWorker)] == wanted


@pytest.mark.parametrize("larger", [{"gpus": 4}, {"cpus": 16}, {"memory_mib": 8192}])
def test_a_worker_from_before_its_set_was_enlarged_does_not_hold_larger_jobs(larger: dict[str, int]) -> None:
    made = world(workers=1)
    made.spec = slurm_spec(replace(made.spec.node_sets[0], **larger))  # type: ignore[arg-type]
    made.queue = [pending(1, gpus=2)]
    assert created(made) == 0
    made.queue = [pending(1, **larger)]
    assert created(made) == 1


NAMED: list[tuple[Any, set[str]]] = [
    ("", set()),
    (None, set()),
    ("(null)", set()),
    ("gpu-0", {"gpu-0"}),
    ("gpu-[0-1],cpu-3", {"gpu-0", "gpu-1", "cpu-3"}),
    ("gpu-[0-999999999]", set()),
    ("gpu-[[0]", set()),
    (["gpu-0"], set()),
    ("x" * 20_000, set()),
]


@pytest.mark.parametrize(("text", "named"), NAMED, ids=range(len(NAMED)))
def test_a_list_of_names_that_cannot_be_read_spoils_no_view(text: Any, named: set[str]) -> None:
    records = [job(1, excluded_nodes=text), job(2, required_nodes=text)]
    one, two = parse.parse_jobs(json.dumps({"jobs": records}).encode())
    assert (one.excluded, one.required, two.excluded, two.required) == (named, set(), set(), named)


def test_the_names_of_all_jobs_together_are_bounded() -> None:
    record = b'{"job_id":1,"excluded_nodes":"n[0-999]","required_nodes":"m[0-999]"}'
    jobs = parse.parse_jobs(b'{"jobs": [' + b",".join([record] * 200) + b"]}")
    assert sum(len(job.excluded) + len(job.required) for job in jobs) <= parse.MOST_PLACES
    assert len(jobs[0].excluded) == 1000
