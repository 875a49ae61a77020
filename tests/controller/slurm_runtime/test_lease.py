"""The elastic lease: how many workers jobs need, when they go, what happens to them with their host nodes; and its laws."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.slurm.answers.view import SlurmJob, SlurmView
from controller.slurm.lease.demand import demand
from controller.slurm.lease.fleet import (
    Cancel,
    CreateWorker,
    DeleteNode,
    DeleteWorker,
    Down,
    Drain,
    Free,
    Requeue,
    Resume,
    SetReplicas,
    Undrain,
)
from controller.slurm.lease.plan import LOST
from controller.slurm.spec import LeaseSpec
from tests.controller.slurm_runtime.world import GPU, START, Node, World, node_set, pending, slurm_spec


def world(*, minimum: int = 0, maximum: int = 4, workers: int = 0, gpus_free: int | None = None, **more: Any) -> World:
    made = World(slurm_spec(node_set(minimum=minimum, maximum=maximum, **more)), gpus_free=gpus_free)
    made.targets = {"gpu": max(minimum, workers)}
    for ordinal in range(workers):
        made.add_worker("gpu", ordinal)
    return made


def created(made: World) -> int:
    return sum(isinstance(action, CreateWorker) for action in made.step())


SIZES: list[tuple[str, list[SlurmJob], int]] = [
    ("nothing waits", [], 0),
    ("one small job", [pending(1, gpus=1)], 1),
    ("two halves share a worker", [pending(1, gpus=1), pending(2, gpus=1)], 1),
    ("three halves need two", [pending(each, gpus=1) for each in range(3)], 2),
    ("an exclusive job has a worker to itself", [pending(1, gpus=1, exclusive=True), pending(2, gpus=1)], 2),
    ("nodes that a job asks for", [pending(1, node_count=3, gpus=3)], 3),
    ("GPUs beyond one worker", [pending(1, gpus=8)], 4),
    ("CPUs decide", [pending(1, cpus=24)], 3),
    ("memory decides", [pending(1, memory_mib=9000)], 3),
    ("a job that never fits makes no worker", [pending(1, node_count=5, gpus=5)], 0),
    ("a job that never fits does not keep others", [pending(1, node_count=5, priority=9), pending(2, gpus=2)], 1),
    ("an array counts each task", [pending(1, gpus=2, copies=3)], 3),
    ("a long array fills what there may be", [pending(1, gpus=2, copies=500)], 4),
    ("a held job needs nothing", [pending(1, gpus=2, held=True)], 0),
    ("a dependency is not helped by workers", [pending(1, gpus=2, reason="Dependency")], 0),
    ("a limit is not helped by workers", [pending(1, gpus=2, reason="QOSGrpGRES")], 0),
    ("an empty partition is", [pending(1, gpus=2, reason="PartitionConfig")], 1),
    ("a reason with details", [pending(1, gpus=2, reason="ReqNodeNotAvail, UnavailableNodes:gpu-0")], 1),
    ("another partition", [pending(1, gpus=2, partitions=("cpu",))], 0),
    ("one of several partitions", [pending(1, gpus=2, partitions=("cpu", "gpu"))], 1),
    ("a feature that the workers have", [pending(1, gpus=2, features="gpu")], 1),
    ("a feature that they do not have", [pending(1, gpus=2, features="a100")], 0),
    ("a choice of features is Slurm's to make", [pending(1, gpus=2, features="a100|gpu")], 1),
    ("it was submitted a moment ago", [pending(1, gpus=2, submitted=START - timedelta(seconds=1))], 0),
]


@pytest.mark.parametrize(("name", "jobs", "wanted"), SIZES, ids=[name for name, _, _ in SIZES])
def test_workers_follow_the_sizes_of_the_jobs(name: str, jobs: list[SlurmJob], wanted: int) -> None:
    made = world()
    made.queue = jobs
    assert created(made) == wanted
    assert made.targets["gpu"] == wanted


def test_what_is_free_is_used_before_anything_is_made() -> None:
    made = world(workers=2)
    made.run_job(1, "gpu-0", seconds=600)
    made.queue = [pending(2, gpus=2)]
    assert created(made) == 0
    made.queue = [pending(2, gpus=2), pending(3, gpus=2)]
    assert created(made) == 1


def test_a_job_that_slurm_does_not_start_beside_another_gets_a_worker_of_its_own() -> None:
    made = world(workers=1)
    made.run_job(1, "gpu-0", seconds=6000)
    made.jobs[1].nodes = ("gpu-0",)
    view = made.view
    # gpu-0 is half free, by its numbers.
    made.view = lambda: halved(view())  # type: ignore[method-assign]
    made.queue = [pending(2, gpus=1, submitted=START - timedelta(seconds=44))]
    assert created(made) == 0
    made.pass_time(2)
    assert created(made) == 1


def halved(view: SlurmView | None) -> SlurmView | None:
    if view is None:
        return None
    nodes = tuple(replace(node, gpus_used=1, cpus_used=1) if node.gpus_used else node for node in view.nodes)
    return replace(view, nodes=nodes)


def test_workers_that_start_are_counted() -> None:
    made = world()
    made.queue = [pending(1, gpus=2)]
    assert created(made) == 1
    assert created(made) == 0


def test_the_quota_bounds_what_is_made() -> None:
    made = world(gpus_free=5)
    made.queue = [pending(each, gpus=2) for each in range(4)]
    assert created(made) == 2
    assert made.targets["gpu"] == 2


def test_fixed_workers_are_made_within_the_quota_too() -> None:
    assert created(world(minimum=4, maximum=4, gpus_free=5)) == 2


def test_more_jobs_than_are_worth_reading_fill_the_set() -> None:
    spec = slurm_spec(node_set(maximum=4))
    view = SlurmView(jobs=None, pending=9000, running=3)
    found = demand(spec.node_sets, view, (), room={"gpu": 4}, free={GPU: Free(6)}, now=START, settle=timedelta(0))
    assert found.more == {"gpu": 3}


def test_idle_workers_go_after_a_while_down_to_the_minimum() -> None:
    made = world(minimum=1, workers=3)
    made.pass_time(59)
    assert made.step() == ()
    made.pass_time(1)
    for _ in range(4):
        made.step()
    assert sorted(made.workers) == ["gpu-0"]
    assert sorted(made.nodes) == ["gpu-0"]
    assert made.targets["gpu"] == 1


def test_a_busy_worker_stays_and_its_idle_neighbours_go() -> None:
    made = world(workers=3)
    made.run_job(1, "gpu-1", seconds=3600)
    made.pass_time(61)
    for _ in range(4):
        made.step()
    assert sorted(made.workers) == ["gpu-1"]


def test_a_job_that_waits_keeps_the_idle_worker_that_it_will_get() -> None:
    made = world(workers=1)
    made.queue = [pending(1, gpus=2)]
    made.pass_time(300)
    assert made.step() == ()


def test_kubectl_scale_holds_until_workers_have_idled() -> None:
    made = world(workers=0)
    made.targets["gpu"] = 2
    assert created(made) == 2
    for name in made.workers:
        made.register(name)
    made.pass_time(30)
    assert made.step() == ()
    made.pass_time(31)
    assert SetReplicas("gpu", 0) in made.step()


def test_scaling_below_what_jobs_use_takes_no_worker_from_them() -> None:
    made = world(workers=3)
    made.run_job(1, "gpu-1", seconds=3000)
    made.run_job(2, "gpu-2", seconds=3000)
    made.targets["gpu"] = 0
    assert SetReplicas("gpu", 2) in made.step()
    for _ in range(3):
        made.step()
    assert sorted(made.workers) == ["gpu-1", "gpu-2"]


def test_a_target_outside_its_bounds_is_moved_inside() -> None:
    made = world(minimum=1, maximum=2)
    made.targets["gpu"] = 9
    assert SetReplicas("gpu", 2) in made.step()


def test_a_lowered_maximum_takes_the_worker_that_costs_least_by_its_deadline() -> None:
    made = world(workers=2, maximum=2)
    made.run_job(1, "gpu-0", seconds=3000)
    made.run_job(2, "gpu-1", seconds=2000)
    made.spec = slurm_spec(node_set(maximum=1))
    assert any(isinstance(action, Drain) and action.node == "gpu-1" for action in made.step())
    made.pass_time(119)
    assert made.step() == ()
    made.pass_time(1)
    assert made.step() == (Requeue(2, "gpu-1"),)
    for _ in range(3):
        made.step()
    assert sorted(made.workers) == ["gpu-0"]
    assert sorted(made.nodes) == ["gpu-0"]
    assert not made.broken


def test_silence_does_not_hold_a_worker_that_an_admin_took_beyond_its_deadline() -> None:
    made = world(workers=2, maximum=2)
    made.run_job(1, "gpu-0", seconds=3000)
    made.run_job(2, "gpu-1", seconds=3000)
    made.spec, made.silent = slurm_spec(node_set(maximum=1)), True
    made.step()
    made.pass_time(139)
    made.step()
    assert len(made.workers) == 2
    made.pass_time(1)
    made.step()
    assert len(made.workers) == 1
    assert not made.broken


def test_workers_of_a_node_set_that_is_gone_are_given_back() -> None:
    made = world(workers=2)
    made.run_job(1, "gpu-0", seconds=50)
    made.spec = slurm_spec()
    for _ in range(3):
        made.step()
    assert sorted(made.workers) == ["gpu-0"]
    made.pass_time(51)
    for _ in range(3):
        made.step()
    assert not made.workers
    assert not made.nodes


def test_a_cordoned_host_node_drains_its_workers_and_an_uncordoned_one_lets_them_work() -> None:
    made = world(minimum=1, maximum=1, workers=1)
    made.cordoned = {"n1": "is cordoned"}
    assert made.step() == (Drain("gpu-0", "bulkhead: node n1 is cordoned"),)
    assert made.step() == ()
    made.cordoned = {}
    assert made.step() == (Undrain("gpu-0"),)
    made.nodes["gpu-0"].draining, made.nodes["gpu-0"].reason = True, "for the fan"
    assert made.step() == ()


def test_a_new_pod_of_a_worker_that_was_drained_for_the_old_one_works_again() -> None:
    made = world(minimum=1, maximum=1, workers=1)
    made.nodes["gpu-0"] = Node(draining=True, reason="bulkhead: the pod is being terminated")
    assert made.step() == (Undrain("gpu-0"),)
    made.nodes["gpu-0"] = Node(down=True, reason="bulkhead: the pod is being terminated")
    assert made.step() == (Resume("gpu-0"),)


def test_the_record_of_a_worker_without_a_pod_goes_its_jobs_first() -> None:
    made = world()
    made.nodes["gpu-3"] = Node()
    made.run_job(1, "gpu-3", seconds=600)
    assert made.step() == (Down("gpu-3", LOST),)
    assert made.step() == (DeleteNode("gpu-3"),)
    made.nodes["somebody-elses-9"] = Node()
    made.nodes["gpu-x"] = Node()
    assert made.step() == ()


def test_a_fixed_worker_whose_pod_went_comes_back_under_its_name_once_pod_and_record_are_gone() -> None:
    made = world(minimum=2, maximum=2, workers=2)
    made.run_job(1, "gpu-1", seconds=600)
    made.workers["gpu-1"] = replace(made.workers["gpu-1"], deleting=True)
    assert not [action for action in made.step() if isinstance(action, CreateWorker)]
    del made.workers["gpu-1"]
    assert made.step() == (Down("gpu-1", LOST),)
    assert made.step() == (DeleteNode("gpu-1"),)
    assert made.step() == (CreateWorker("gpu", 1),)


def test_an_elastic_worker_is_not_made_under_a_name_that_slurm_still_knows() -> None:
    made = world()
    made.nodes["gpu-0"] = Node()
    made.queue = [pending(1, gpus=2)]
    assert CreateWorker("gpu", 1) in made.step()
    made.silent = True
    assert created(made) == 0


def test_an_outdated_worker_is_replaced_when_its_jobs_are_done_and_never_sooner() -> None:
    made = world(minimum=2, maximum=2, workers=2)
    for name, worker in made.workers.items():
        made.workers[name] = replace(worker, made_from="old")
    made.run_job(1, "gpu-0", seconds=6000)
    made.run_job(2, "gpu-1", seconds=4000)
    digests = {"gpu": "new"}
    fleet = made.fleet
    made.fleet = lambda: replace(fleet(), digests=digests)  # type: ignore[method-assign]
    for _ in range(30):
        made.step()
        made.pass_time(100)
    assert sorted(made.workers) == ["gpu-0", "gpu-1"]
    assert [each.made_from for each in made.workers.values()] == ["old", "old"]
    assert made.nodes["gpu-1"].draining
    assert not made.nodes["gpu-0"].draining
    made.pass_time(1001)
    made.step()
    assert sorted(made.workers) == ["gpu-0"]
    assert made.step() == (DeleteNode("gpu-1"),)
    made.step()
    assert made.workers["gpu-1"].made_from == ""


# -- laws

JOBS = st.builds(
    pending,
    st.integers(1, 10_000),
    gpus=st.integers(0, 12),
    cpus=st.integers(1, 40),
    memory_mib=st.integers(0, 20_000),
    node_count=st.integers(1, 7),
    copies=st.integers(1, 5),
    priority=st.integers(0, 5),
    exclusive=st.booleans(),
)


@given(jobs=st.lists(JOBS, max_size=8), workers=st.integers(0, 4), free=st.none() | st.integers(0, 9))
def test_never_more_workers_than_the_maximum_nor_more_gpus_than_the_quota(
    jobs: list[SlurmJob], workers: int, free: int | None
) -> None:
    made = world(workers=workers, gpus_free=free)
    made.queue = jobs
    for _ in range(6):
        before = len(made.workers)
        new = created(made)
        assert len(made.workers) <= 4
        if free is not None:
            assert new * 2 <= free
            free -= new * 2
            made.gpus_free = free
        assert len(made.workers) >= before
        for name in [each.name for each in made.workers.values() if not each.host_node]:
            made.register(name)
    assert created(made) == 0
    assert not made.broken


@given(jobs=st.lists(JOBS, max_size=6))
def test_what_is_made_suffices_for_every_job_that_can_run_alone(jobs: list[SlurmJob]) -> None:
    made = world()
    made.queue = jobs[:1]
    created(made)
    job = jobs[0] if jobs else None
    if job is None:
        return
    need = max(job.node_count, -(-job.gpus // 2), -(-job.cpus // 8), -(-job.memory_mib // 4096))
    if need > 4:
        assert not made.workers
    else:
        assert len(made.workers) >= need


@given(minimum=st.integers(0, 3), extra=st.integers(0, 3), start=st.integers(0, 6))
def test_at_rest_the_set_comes_to_its_minimum_and_then_nothing_is_written(minimum: int, extra: int, start: int) -> None:
    made = world(minimum=minimum, maximum=minimum + extra)
    made.spec = replace(made.spec, lease=LeaseSpec(idle=timedelta(seconds=30), grace=timedelta(seconds=60)))
    for ordinal in range(start):
        made.add_worker("gpu", ordinal)
    for _ in range(40):
        made.step()
        for name in [each.name for each in made.workers.values() if not each.host_node]:
            made.register(name)
        made.pass_time(5)
    assert len(made.workers) == minimum
    assert made.step() == ()
    assert not made.broken


def test_a_job_that_may_not_be_queued_again_is_ended_at_the_deadline() -> None:
    made = world(workers=1)
    made.run_job(1, "gpu-0", seconds=9000, requeue=False)
    made.spec = slurm_spec()
    made.step()
    made.pass_time(120)
    assert Cancel(1, "gpu-0") in made.step()


def test_at_most_so_many_workers_are_made_at_once() -> None:
    made = world(maximum=100)
    made.queue = [pending(1, gpus=2, copies=100)]
    assert [created(made) for _ in range(4)] == [32, 32, 32, 4]


def test_a_worker_that_has_ended_is_deleted() -> None:
    made = world(workers=2)
    made.workers["gpu-1"] = replace(made.workers["gpu-1"], phase="Failed")
    assert [action.name for action in made.step() if isinstance(action, DeleteWorker)] == ["gpu-1"]
