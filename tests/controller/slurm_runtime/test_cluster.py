"""One tenant's cluster from order to rest, on a plane and a slurmrestd on paper; and the loop around many of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bulkhead.kube.errors import ApiError, Unprocessable
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Obj, Resource
from bulkhead.kube.transport import Transport
from controller.inside.calls import Plane
from controller.slurm.client import rest as rest_module
from controller.slurm.cluster import Cluster, Order
from controller.slurm.decide.status import Found, verdict
from controller.slurm.lease.plan import Times
from controller.slurm.loop import SlurmLoops
from controller.slurm.spec import SlurmSpec, TopologySpec
from controller.slurm.spec.keys import AuthKey, SlurmKeys
from tests.controller.slurm_runtime.plane import FakePlane
from tests.controller.slurm_runtime.slurmrestd import KEY, FakeSlurmrestd, job, node, number
from tests.controller.slurm_runtime.world import START, node_set, slurm_spec
from tests.fakeclock import FakeClock

TIMES = Times(idle=timedelta(seconds=60), grace=timedelta(seconds=120))
KEYS = SlurmKeys((AuthKey("one", b"a" * 32),), KEY, "secret", "private", "public")


class Bed:
    """A plane, a slurmrestd and a cluster between them."""

    def __init__(self, plane: FakePlane, fake: FakeSlurmrestd) -> None:
        self.plane = plane
        self.fake = fake
        self.clock = FakeClock(START)
        self.free: int | None = None
        self.cluster = Cluster("team-a", self.clock, lambda _: self.free)

    async def reconcile(self, *node_sets: Any, on: bool = True, **changes: Any) -> Found:
        spec = replace(slurm_spec(*node_sets), **changes)
        return await self.cluster.reconcile(cast(Plane, self.plane), Order(spec, KEYS, TIMES, on=on))

    def register(self, *workers: str) -> None:
        self.plane.start(*workers)
        for name in workers:
            seconds = int(self.clock.now().timestamp())
            self.fake.nodes.setdefault(name, node(name) | {"slurmd_start_time": number(seconds), "last_busy": number(seconds)})

    def run(self, job_id: int, name: str, **more: Any) -> None:
        ends = int((self.clock.now() + timedelta(hours=1)).timestamp())
        self.fake.jobs[job_id] = job(job_id, "RUNNING", nodes=name, end_time=number(ends)) | more
        self.fake.nodes[name] |= {"state": ["ALLOCATED", "DYNAMIC_NORM"], "alloc_cpus": 8}

    def end(self, job_id: int) -> None:
        ended = self.fake.jobs.pop(job_id)
        found = self.fake.nodes[ended["nodes"]]
        found |= {"state": sorted({*found["state"]} - {"ALLOCATED"} | {"IDLE"}), "alloc_cpus": 0}

    def workers(self) -> list[str]:
        return sorted(name for name, pod in self.plane.of("Pod").items() if "ordinal" in str(pod["metadata"]["labels"]))


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    fake = FakeSlurmrestd()
    application = web.Application()
    application.add_routes(fake.routes())
    server = TestServer(application)
    await server.start_server()
    transport = Transport(
        KubeConfig(server=f"http://{server.host}:{server.port}"), user_agent="tests", timeout=5.0, max_body=1_000_000
    )
    async with transport:
        yield Bed(FakePlane(transport), fake)
    fake.stuck.set()
    await server.close()


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


async def test_a_cluster_at_rest_costs_no_write(bed: Bed) -> None:
    for _ in range(3):
        await bed.reconcile(node_set(minimum=1, maximum=1))
        bed.register(*bed.workers())
    bed.plane.writes.clear()
    bed.fake.calls.clear()
    for _ in range(3):
        await bed.reconcile(node_set(minimum=1, maximum=1))
    assert bed.plane.writes == []
    assert {method for method, _, _ in bed.fake.calls} == {"GET"}


async def test_what_a_tenant_deletes_is_there_again_within_the_resync(bed: Bed) -> None:
    await bed.reconcile(node_set(minimum=1, maximum=1))
    del bed.plane.objects["ConfigMap", "slurm-config"]
    await bed.reconcile(node_set(minimum=1, maximum=1))
    assert ("ConfigMap", "slurm-config") not in bed.plane.objects
    bed.clock.advance(121)
    await bed.reconcile(node_set(minimum=1, maximum=1))
    assert ("ConfigMap", "slurm-config") in bed.plane.objects


async def test_the_truth_of_slurm_shows_on_pods_and_node_sets(bed: Bed) -> None:
    for _ in range(2):
        await bed.reconcile(node_set(minimum=1, maximum=1))
        bed.register(*bed.workers())
    bed.fake.nodes["gpu-0"] |= {"state": ["IDLE", "DRAIN"], "reason": "fan\nbroken"}
    await bed.reconcile(node_set(minimum=1, maximum=1))
    conditions = {each["type"]: each for each in bed.plane.objects["Pod", "gpu-0"]["status"]["conditions"]}
    assert conditions["SlurmNodeStateIdle"]["status"] == conditions["SlurmNodeStateDrain"]["status"] == "True"
    assert conditions["SlurmNodeStateDrain"]["message"] == "fan broken"
    assert conditions["Ready"]["status"] == "True"
    status = bed.plane.objects["NodeSet", "gpu"]["status"]
    assert (status["replicas"], status["slurmDrain"], status["slurmIdle"], status["readyReplicas"]) == (1, 1, 0, 0)
    bed.fake.nodes["gpu-0"] |= {"state": ["MIXED"], "reason": ""}
    await bed.reconcile(node_set(minimum=1, maximum=1))
    conditions = {each["type"]: each for each in bed.plane.objects["Pod", "gpu-0"]["status"]["conditions"]}
    assert [conditions[f"SlurmNodeState{word}"]["status"] for word in ("Idle", "Drain", "Mixed")] == ["False", "False", "True"]


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


@pytest.mark.parametrize("mood", ["gone", "errors", "garbage", "failing"])
async def test_without_an_answer_nothing_is_taken_away(bed: Bed, mood: str) -> None:
    for _ in range(2):
        await bed.reconcile(node_set(minimum=2, maximum=2))
        bed.register(*bed.workers())
    bed.fake.mood = mood
    found = await bed.reconcile(node_set(minimum=1, maximum=1))
    bed.clock.advance(170)
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


async def test_a_unit_of_the_network_that_slurm_was_told_of_is_never_taken_away(bed: Bed) -> None:
    """Slurmctld does not start while a node that it remembers stands in a unit that its configuration does not have."""
    tree = TopologySpec("tree")
    bed.plane.add_node("n1", **{"bulkhead.dev/nvlink-domain": "nvlink-7"})
    await bed.reconcile(node_set(), topology=tree)
    assert "- switch: nvlink-7" in bed.plane.objects["ConfigMap", "slurm-config"]["data"]["topology.yaml"]
    del bed.plane.objects["Node", "n1"]
    bed.plane.add_node("n2", **{"bulkhead.dev/nvlink-domain": "nvlink-8"})
    await bed.reconcile(node_set(), topology=tree)
    # A controller that has just started knows it too.
    bed.cluster = Cluster("team-a", bed.clock, lambda _: None)
    bed.fake.nodes["gpu-0"] = node("gpu-0") | {"topology": "platform:nvlink-9"}
    await bed.reconcile(node_set(), topology=tree)
    text = bed.plane.objects["ConfigMap", "slurm-config"]["data"]["topology.yaml"]
    assert [unit for unit in ("nvlink-7", "nvlink-8", "nvlink-9") if f"- switch: {unit}\n" in text] == [
        "nvlink-7",
        "nvlink-8",
        "nvlink-9",
    ]
    bed.plane.objects["ConfigMap", "slurm-config"]["data"]["topology.yaml"] += (
        "- switch: x\nInclude /etc/passwd\n - switch: A;b\n"
    )
    bed.cluster = Cluster("team-a", bed.clock, lambda _: None)
    await bed.reconcile(node_set(), topology=tree)
    assert "Include" not in bed.plane.objects["ConfigMap", "slurm-config"]["data"]["topology.yaml"]


async def test_login_nodes_that_are_no_longer_asked_for_go(bed: Bed) -> None:
    await bed.reconcile(node_set())
    assert "login" in bed.plane.of("StatefulSet")
    bed.clock.advance(61)
    await bed.reconcile(node_set(), login=None)
    assert "login" not in bed.plane.of("StatefulSet")
    assert "slurmctld" in bed.plane.of("StatefulSet")


async def test_the_condition_tells_the_story(bed: Bed) -> None:
    bed.fake.mood = "gone"
    found = await bed.reconcile(node_set())
    told = verdict(found, was=False)
    assert (told.status, told.reason) == ("False", "WaitingForSlurm")
    assert "slurmctld" in told.message
    for name in ("slurmctld", "slurmrestd", "login"):
        bed.plane.add_daemon(name)
    bed.fake.mood = "well"
    assert verdict(await bed.reconcile(node_set()), was=False).status == "True"
    bed.fake.mood = "gone"
    told = verdict(await bed.reconcile(node_set()), was=True)
    assert (told.reason, told.message.startswith("slurmrestd: ")) == ("SlurmUnreachable", True)
    bed.fake.mood = "well"
    bed.plane.add_daemon("slurmctld", ready=False)
    assert verdict(await bed.reconcile(node_set()), was=True).message == "not ready: slurmctld"


# -- the loop


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not what():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


def order() -> Order:
    spec: SlurmSpec = slurm_spec(node_set())
    return Order(spec, KEYS, TIMES)


async def test_a_silent_tenant_delays_nobody(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_module, "_CALL_SECONDS", 30.0)
    silent = FakeSlurmrestd(mood="silent")
    application = web.Application()
    application.add_routes(silent.routes())
    server = TestServer(application)
    await server.start_server()
    config = KubeConfig(server=f"http://{server.host}:{server.port}")
    async with Transport(config, user_agent="tests", timeout=30.0, max_body=1_000_000) as transport:
        planes = {"mute": FakePlane(transport), "well": bed.plane}
        changed: list[str] = []
        loops = SlurmLoops(bed.clock, lambda turn: cast(Plane, planes[turn.tenant]), lambda _: None, changed.append)
        assert loops.order("mute", order()) is None
        assert loops.order("well", order()) is None
        await until(lambda: "well" in changed)
        for _ in range(5):
            before = len(bed.fake.calls)
            await until(lambda: bed.clock.sleepers > 0)
            bed.clock.advance(4)
            await until(lambda before=before: len(bed.fake.calls) > before)  # type: ignore[misc]
        assert "mute" not in changed
        found = loops.order("well", order())
        assert found is not None
        assert found.counts is not None
        await loops.close()
        silent.stuck.set()
    await server.close()


async def test_a_plane_that_is_down_is_told_and_asked_again(bed: Bed) -> None:
    bed.plane.down = True
    changed: list[str] = []
    loops = SlurmLoops(bed.clock, lambda _: cast(Plane, bed.plane), lambda _: None, changed.append)
    loops.order("team-a", order())
    await until(lambda: len(changed) == 1)
    found = loops.order("team-a", order())
    assert found is not None
    assert "the plane is down" in found.trouble
    bed.plane.down = False
    await until(lambda: bed.clock.sleepers > 0)
    bed.clock.advance(20)
    await until(lambda: len(changed) > 1)
    await loops.close()


async def test_a_tenant_that_is_forgotten_is_left_alone(bed: Bed) -> None:
    loops = SlurmLoops(bed.clock, lambda _: cast(Plane, bed.plane), lambda _: None, lambda _: None)
    loops.order("team-a", order())
    await until(lambda: bed.clock.sleepers > 0)
    await loops.forget("team-a")
    calls = len(bed.fake.calls)
    bed.clock.advance(60)
    await asyncio.sleep(0.05)
    assert len(bed.fake.calls) == calls
    assert not loops.runs("team-a")


async def test_a_surprise_in_one_pass_is_not_the_last_pass(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [RuntimeError("a surprise")]
    real = Cluster.reconcile

    async def reconcile(self: Cluster, plane: Plane, found: Order) -> Found:
        if failures:
            raise failures.pop()
        return await real(self, plane, found)

    monkeypatch.setattr(Cluster, "reconcile", reconcile)
    loops = SlurmLoops(bed.clock, lambda _: cast(Plane, bed.plane), lambda _: None, lambda _: None)
    loops.order("team-a", order())
    await until(lambda: bed.clock.sleepers > 0)
    assert not bed.fake.calls
    bed.clock.advance(20)
    await until(lambda: bool(bed.fake.calls))
    await loops.close()


async def test_a_definition_of_the_tenants_own_stops_its_own_cluster_and_is_named(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bed.reconcile(node_set())
    scope = "spec.scope: Invalid value: field is immutable"

    async def replace_(r: Resource, obj: Obj) -> None:
        raise Unprocessable(422, "Invalid", scope)

    real = bed.plane.list

    async def list_(r: Resource, namespace: str | None = None, **more: Any) -> Any:
        if r.kind == "NodeSet":
            raise ApiError(500, "InternalError", "conversion webhook failed")
        return await real(r, namespace, **more)

    monkeypatch.setattr(bed.plane, "replace", replace_)
    monkeypatch.setattr(bed.plane, "list", list_)
    bed.clock.advance(121)
    changed: list[str] = []
    loops = SlurmLoops(bed.clock, lambda _: cast(Plane, bed.plane), lambda _: None, changed.append)
    loops.order("team-a", order())
    await until(lambda: bool(changed))
    found = loops.order("team-a", order())
    assert found is not None
    told = verdict(found, was=True)
    assert (told.status, told.reason) == ("False", "PlaneUnreadable")
    assert scope in told.message
    assert "conversion webhook failed" in told.message
    # Put right, the cluster goes on by itself.
    monkeypatch.undo()
    changed.clear()
    await until(lambda: bed.clock.sleepers > 0)
    bed.clock.advance(20)
    await until(lambda: bool(changed))
    found = loops.order("team-a", order())
    assert found is not None
    assert verdict(found, was=True).reason != "PlaneUnreadable"
    await loops.close()
