"""The workers of a cluster follow its jobs, and are given back by a lower bound, a retired NodeSet or another mode."""

from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import Resource
from controller.slurm.decide.status import verdict
from controller.slurm.observe import NODE_SETS
from tests.controller.slurm_runtime.bed import Bed
from tests.controller.slurm_runtime.slurmrestd import job, number
from tests.controller.slurm_runtime.world import node_set


async def test_a_cluster_is_made_and_its_workers_follow_the_jobs(bed: Bed) -> None:
    await bed.reconcile(node_set(maximum=3))
    assert bed.plane.of("StatefulSet").keys() >= {"slurmctld", "login"}
    assert bed.plane.objects["NodeSet", "gpu"]["spec"]["replicas"] == 0
    assert bed.workers() == []
    bed.fake.jobs = {1: job(1, tres_req_str="cpu=2,gres/gpu=4", node_count=number(2))}
    bed.clock.advance(5)
    await bed.reconcile(node_set(maximum=3))
    assert bed.workers() == ["gpu-0", "gpu-1"]
    owner = bed.plane.objects["Pod", "gpu-0"]["metadata"]["ownerReferences"][0]
    assert owner["uid"] == bed.plane.objects["NodeSet", "gpu"]["metadata"]["uid"]
    bed.fake.jobs.clear()
    bed.register("gpu-0", "gpu-1")
    bed.clock.advance(61)
    for _ in range(4):
        await bed.reconcile(node_set(maximum=3))
    assert bed.workers() == []
    assert bed.fake.nodes == {}


async def test_a_lowered_maximum_is_met_within_its_deadline_and_the_job_is_queued_again(bed: Bed) -> None:
    for _ in range(2):
        await bed.reconcile(node_set(minimum=2, maximum=2))
        bed.register(*bed.workers())
    bed.run(1, "gpu-0", priority=number(9))
    bed.run(2, "gpu-1")
    await bed.reconcile(node_set(minimum=1, maximum=1))
    assert bed.fake.nodes["gpu-1"]["reason"].startswith("bulkhead: giving back until ")
    assert "DRAIN" not in bed.fake.nodes["gpu-0"]["state"]
    bed.clock.advance(119)
    await bed.reconcile(node_set(minimum=1, maximum=1))
    assert bed.workers() == ["gpu-0", "gpu-1"]
    bed.clock.advance(2)
    await bed.reconcile(node_set(minimum=1, maximum=1))
    assert bed.fake.jobs[2]["job_state"] == ["PENDING"]
    bed.fake.nodes["gpu-1"] |= {"state": ["IDLE", "DRAIN", "DYNAMIC_NORM"], "alloc_cpus": 0}
    for _ in range(3):
        await bed.reconcile(node_set(minimum=1, maximum=1))
    assert bed.workers() == ["gpu-0"]
    assert list(bed.fake.nodes) == ["gpu-0"]


async def test_pods_that_are_not_found_do_not_count_as_none(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pod, a node's record is taken down and its jobs are ended."""
    fixed = node_set(minimum=1, maximum=1)
    for _ in range(2):
        await bed.reconcile(fixed)
        bed.register(*bed.workers())
    bed.run(1, "gpu-0")
    listed = bed.plane.list

    async def missing(r: Resource, *args: Any, **more: Any) -> tuple[Obj, ...]:
        if r is kinds.PODS:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        return await listed(r, *args, **more)

    monkeypatch.setattr(bed.plane, "list", missing)
    with pytest.raises(NotFound):
        await bed.reconcile(fixed)
    assert bed.fake.nodes["gpu-0"]["state"] == ["ALLOCATED", "DYNAMIC_NORM"]
    assert bed.fake.jobs[1]["job_state"] == ["RUNNING"]


async def test_a_worker_that_goes_while_slurm_is_silent_does_not_come_back_before_its_record_is_gone(bed: Bed) -> None:
    """A host node that fails takes slurmctld and workers with it; the record has the address of the pod that is gone."""
    fixed = node_set(minimum=2, maximum=2)
    for _ in range(2):
        await bed.reconcile(fixed)
        bed.register(*bed.workers())
    await bed.reconcile(fixed)
    del bed.plane.objects["Pod", "gpu-1"]
    bed.fake.mood = "gone"
    for _ in range(2):
        await bed.reconcile(fixed)
    assert bed.workers() == ["gpu-0"]
    bed.fake.mood = "well"
    await bed.reconcile(fixed)
    assert "gpu-1" not in bed.fake.nodes
    await bed.reconcile(fixed)
    assert bed.workers() == ["gpu-0", "gpu-1"]
    # A cluster without a REST API never answers, so no worker waits for that.
    del bed.plane.objects["Pod", "gpu-1"]
    bed.fake.mood = "gone"
    await bed.reconcile(fixed, rest_api=None)
    assert bed.workers() == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize("mood", ["gone", "errors", "garbage", "failing"])
async def test_without_an_answer_nothing_is_taken_away(bed: Bed, mood: str) -> None:
    for _ in range(2):
        await bed.reconcile(node_set(minimum=2, maximum=2))
        bed.register(*bed.workers())
    bed.fake.mood = mood
    found = await bed.reconcile(node_set(minimum=1, maximum=1))
    bed.clock.advance(135)
    found = await bed.reconcile(node_set(minimum=1, maximum=1))
    assert found.counts is None
    assert bed.workers() == ["gpu-0", "gpu-1"]
    bed.clock.advance(11)
    await bed.reconcile(node_set(minimum=1, maximum=1))
    assert len(bed.workers()) == 1


async def test_a_node_set_is_retired_only_when_no_job_names_its_partition(bed: Bed) -> None:
    both = (node_set(minimum=1, maximum=1), node_set("old", minimum=1, maximum=1))
    for _ in range(2):
        await bed.reconcile(*both)
        bed.register(*bed.workers())
    bed.run(7, "old-0", partition="old", requeue=False, batch_flag=False)
    bed.fake.jobs[8] = job(8, partition="old")
    await bed.reconcile(both[0])
    config = bed.plane.objects["ConfigMap", "slurm-config"]["data"]["slurm.conf"]
    assert "PartitionName=old" in config
    assert "NodeName=old-" in bed.plane.objects["ConfigMap", "slurm-config"]["data"]["gres.conf"]
    assert "State=DOWN" in next(line for line in config.splitlines() if line.startswith("PartitionName=old"))
    assert bed.fake.jobs.keys() == {7, 8}
    bed.clock.advance(121)
    await bed.reconcile(both[0])
    assert bed.fake.jobs.keys() == {8}
    bed.fake.nodes["old-0"] |= {"state": ["IDLE", "DRAIN", "DYNAMIC_NORM"], "alloc_cpus": 0}
    for _ in range(4):
        await bed.reconcile(both[0])
    assert bed.workers() == ["gpu-0"]
    assert bed.fake.jobs == {}
    await bed.reconcile(both[0])
    assert list(bed.plane.of("NodeSet")) == ["gpu"]
    await bed.reconcile(both[0])
    assert "PartitionName=old" not in bed.plane.objects["ConfigMap", "slurm-config"]["data"]["slurm.conf"]


async def test_a_retired_node_set_that_is_gone_meanwhile_stops_nothing_else(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    await bed.reconcile(node_set(), node_set("old"))
    listed = 0
    whole = bed.plane.list

    async def list_(r: Resource, *names: Any, **more: Any) -> tuple[Obj, ...]:
        nonlocal listed
        listed += r is NODE_SETS
        if listed == 2:
            bed.plane.objects.pop(("NodeSet", "old"), None)
        return await whole(r, *names, **more)

    monkeypatch.setattr(bed.plane, "list", list_)
    found = await bed.reconcile(node_set(), node_set("new"))
    assert listed == 2
    assert found.applied
    assert sorted(bed.plane.of("NodeSet")) == ["gpu", "new"]


async def test_switched_off_the_workers_go_with_grace_then_the_daemons_and_the_volumes_stay(bed: Bed) -> None:
    for _ in range(2):
        await bed.reconcile(node_set(minimum=2, maximum=2))
        bed.register(*bed.workers())
    bed.run(1, "gpu-0")
    found = await bed.reconcile(on=False)
    for _ in range(2):
        found = await bed.reconcile(on=False)
    assert bed.workers() == ["gpu-0"]
    assert found.leaving == 1
    assert "slurmctld" in bed.plane.of("StatefulSet")
    assert verdict(found, was=True, on=False).reason == "Terminating"
    bed.end(1)
    for _ in range(5):
        await bed.reconcile(on=False)
    assert bed.cluster.removed
    assert not bed.plane.of("StatefulSet")
    assert not bed.plane.of("Secret")
    assert bed.plane.of("PersistentVolumeClaim").keys() == {"slurm-home"}
    await bed.reconcile(node_set(minimum=1, maximum=1))
    assert "slurmctld" in bed.plane.of("StatefulSet")
    assert bed.workers() == ["gpu-0"]


async def test_a_worker_whose_image_is_never_pulled_is_recreated(bed: Bed) -> None:
    """A worker is left alone by its NodeSet whatever image it was made with."""
    await bed.reconcile(node_set(minimum=2, maximum=2))
    bed.register("gpu-1")
    before = {name: pod["metadata"]["uid"] for name, pod in bed.plane.of("Pod").items()}
    hangs = {"name": "slurmd", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": bed.clock.now().isoformat()}
    bed.plane.objects["Pod", "gpu-0"]["status"] = {"conditions": [placed], "containerStatuses": [hangs]}
    bed.clock.advance(110)
    await bed.reconcile(node_set(minimum=2, maximum=2))
    assert {name: pod["metadata"]["uid"] for name, pod in bed.plane.of("Pod").items()} == before
    bed.clock.advance(20)
    for _ in range(2):
        await bed.reconcile(node_set(minimum=2, maximum=2))
    after = {name: pod["metadata"]["uid"] for name, pod in bed.plane.of("Pod").items()}
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {"gpu-0"}
