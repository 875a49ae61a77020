"""Pods that the tenant binds itself, by hand or by a scheduler of its own, between two real API servers."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import CONFIG_MAPS, NODES, POD_GROUPS, PODS
from syncer.write.placed import KEY, RECENT
from tests.kit.servers import Pair
from tests.kit.syncerbed import SyncerBed, until

MINE = "my-scheduler"
_PINNED = "requiredDuringSchedulingIgnoredDuringExecution"


def own(bed: SyncerBed, name: str, **spec: Any) -> Obj:
    return bed.pod(name, schedulerName=MINE, **spec)


async def noted(bed: SyncerBed) -> set[str]:
    try:
        found = await bed.host.get(CONFIG_MAPS, RECENT, bed.settings.plane_namespace)
    except NotFound:
        return set()
    return set(found["data"][KEY].split())


async def gone(bed: SyncerBed, name: str) -> bool:
    return await bed.virtual(name) is None


async def says(bed: SyncerBed, name: str, reason: str) -> Obj:
    async def said() -> Obj | None:
        found = await bed.condition(name)
        return found if found is not None and found.get("reason") == reason else None

    found: Obj = await until(said, f"{name} says {reason}")
    return found


async def runs(bed: SyncerBed, name: str) -> None:
    async def running() -> bool:
        return ((await bed.virtual(name)) or {"status": {}})["status"].get("phase") == "Running"

    await until(running, f"{name} runs in the plane")


def pinned(host: Obj) -> list[list[str]]:
    terms = host["spec"]["affinity"]["nodeAffinity"][_PINNED]["nodeSelectorTerms"]
    return [field["values"] for term in terms for field in term["matchFields"]]


async def seen_on(bed: SyncerBed, node: str) -> None:
    """A tenant's scheduler binds to what it sees: the plane has the node."""

    async def there() -> bool:
        return node in {each["metadata"]["name"] for each in (await bed.plane.list(NODES)).items}

    await until(there, f"{node} in the plane")


async def test_item_37_50_a_bare_binding_runs_where_it_says(bed: SyncerBed) -> None:
    await bed.create(own(bed, "web"))
    await says(bed, "web", "WaitingForScheduler")
    assert await bed.mirror("web") is None, "nothing is on the host before the tenant's scheduler has decided"
    await seen_on(bed, bed.node)
    await bed.bind_virtual("web")
    host = await bed.mirrored("web")
    assert pinned(host) == [[bed.node]]
    assert "nodeName" not in host["spec"], "the host's scheduler decides"
    assert host["spec"]["schedulerName"] == "default-scheduler"
    # It was bound before the host knew of it, and lives.
    await bed.patrolled()
    virtual = await bed.virtual("web")
    assert virtual is not None
    assert not virtual["metadata"].get("deletionTimestamp")
    assert await noted(bed) == set()
    await bed.bind(host)
    await bed.run(host)
    await runs(bed, "web")
    assert await noted(bed) == {virtual["metadata"]["uid"]}


async def test_item_50_why_the_host_does_not_place_it_stands_on_the_pod(bed: SyncerBed) -> None:
    await seen_on(bed, bed.node)
    await bed.create(own(bed, "web"))
    await bed.bind_virtual("web")
    host = await bed.mirrored("web")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
    status = {"status": {"conditions": [condition]}}
    await bed.host.patch(PODS, host["metadata"]["name"], status, bed.work, subresource="status")
    assert "0/3 nodes are available" in (await says(bed, "web", "Unschedulable"))["message"]
    assert not await gone(bed, "web")


async def test_item_37_50_an_unknown_node_and_a_full_quota_are_reported_on_the_pod(bed: SyncerBed) -> None:
    await bed.create(own(bed, "astray"))
    await bed.bind_virtual("astray", "node-of-another")
    assert "node-of-another" in (await says(bed, "astray", "NodeNotVisible"))["message"]
    assert await bed.mirror("astray") is None
    # Four GPUs are the tenant's limit.
    greedy = bed.gpu_pod("greedy", 5)
    greedy["spec"]["schedulerName"] = MINE
    await bed.create(greedy)
    await bed.bind_virtual("greedy")
    await says(bed, "greedy", "QuotaExceeded")
    assert await bed.mirror("greedy") is None


async def test_item_37_a_pod_bound_by_hand_after_its_host_pod_was_made_goes_there_too(bed: SyncerBed) -> None:
    await seen_on(bed, bed.node)
    await bed.create(bed.pod("web"))
    first = await bed.mirrored("web")
    await bed.bind_virtual("web")

    async def again() -> Obj | None:
        found = await bed.mirror("web")
        return found if found is not None and found["metadata"]["uid"] != first["metadata"]["uid"] else None

    host: Obj = await until(again, "the host pod to be recreated")
    assert pinned(host) == [[bed.node]]
    await bed.bind(host)
    await bed.run(host)
    await runs(bed, "web")


async def test_item_37_a_pod_bound_elsewhere_than_the_host_placed_it_says_so(bed: SyncerBed) -> None:
    other = f"other-{bed.tenant}"
    await bed.make_node(other)
    await seen_on(bed, other)
    await bed.create(bed.pod("web"))
    host = await bed.mirrored("web")
    await bed.stop()
    await bed.bind(host)
    await bed.bind_virtual("web", other)
    await bed.start()
    await bed.event("web", other, bed.node, reason="Misplaced")
    await until(lambda: gone(bed, "web"), "the pod is deleted")


async def test_a_pod_that_was_placed_and_lost_while_the_syncer_was_away_is_told_once_and_does_not_run_again(
    bed: SyncerBed,
) -> None:
    await seen_on(bed, bed.node)
    held = own(bed, "held")
    held["metadata"]["finalizers"] = ["example.com/waits-for-the-end"]
    for pod in (own(bed, "plain"), held):
        await bed.create(pod)
        await bed.bind_virtual(pod["metadata"]["name"])
    hosts = [await bed.mirrored(name) for name in ("plain", "held")]
    for host in hosts:
        await bed.bind(host)
    uids = {((await bed.virtual(name)) or {})["metadata"]["uid"] for name in ("plain", "held")}

    async def both() -> bool:
        return await noted(bed) == uids

    await until(both, "noted on the host")
    await bed.idle()
    await bed.stop()
    for host in hosts:
        await bed.kubelet_ends(host)
    # The tenant says that it never had a place. It may write what it likes, and it is not believed.
    forged = {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}
    await bed.plane.patch(
        PODS, "plain", forged, bed.space, subresource="status", content_type="application/strategic-merge-patch+json"
    )
    await bed.start()
    await until(lambda: gone(bed, "plain"), "the lost pod is gone")
    await bed.event("plain", "no pod runs twice", reason="Lost")

    async def lost() -> Obj | None:
        status = ((await bed.virtual("held")) or {"status": {}})["status"]
        return status if status.get("reason") == "Lost" else None

    assert (await until(lost, "its end to be reported"))["phase"] == "Failed"
    version = ((await bed.virtual("held")) or {})["metadata"]["resourceVersion"]
    await bed.patrolled()
    assert ((await bed.virtual("held")) or {})["metadata"]["resourceVersion"] == version, "told once"
    assert await bed.host_pods() == []
    await bed.plane.patch(PODS, "held", {"metadata": {"finalizers": None}}, bed.space)
    await until(lambda: gone(bed, "held"), "the pod goes with its finalizer")


async def test_a_pod_that_was_never_placed_and_lost_is_made_again(bed: SyncerBed) -> None:
    await seen_on(bed, bed.node)
    await bed.create(own(bed, "web"))
    await bed.bind_virtual("web")
    first = await bed.mirrored("web")
    await bed.stop()
    await bed.host.delete(PODS, first["metadata"]["name"], bed.work)
    await bed.start()

    async def again() -> bool:
        return ((await bed.mirror("web")) or first)["metadata"]["uid"] != first["metadata"]["uid"]

    await until(again, "another host pod")


# -- a real scheduler in the plane


@pytest.fixture
def schedulers(apiservers: Pair) -> Iterator[None]:
    """One on the host, and one of the tenant's own."""
    apiservers.host.start_scheduler()
    apiservers.plane.start_own_scheduler(MINE)
    yield
    apiservers.plane.kill("kube-scheduler")
    apiservers.host.kill("kube-scheduler")


@pytest.fixture
async def grouping(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    async with SyncerBed.open(host_client, plane_client, podGroups=True, limits={"nvidia.com/gpu": 12}) as opened:
        yield opened


@pytest.mark.usefixtures("schedulers")
async def test_item_37_50_a_gang_of_the_tenants_own_kube_scheduler_runs_whole_or_not_at_all(grouping: SyncerBed) -> None:
    bed = grouping
    names = [f"train-{number}" for number in range(3)]
    gang = {"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"gang": {"minCount": len(names)}}}}
    await bed.plane.create(POD_GROUPS, gang, bed.space)
    half = {"limits": {"nvidia.com/gpu": "4"}}
    for name in names:
        containers = [{"name": "main", "image": "busybox:1.36", "resources": half}]
        await bed.create(own(bed, name, containers=containers, schedulingGroup={"podGroupName": "gang"}))
    # One node has room for two of the three, as the tenant's scheduler says; and what it says stays.
    await says(bed, names[0], "Unschedulable")
    await bed.patrolled()
    assert (await bed.condition(names[0]) or {}).get("reason") == "Unschedulable"
    assert await bed.host_pods() == []
    other = f"other-{bed.tenant}"
    await bed.make_node(other)

    async def placed() -> bool:
        hosts = await bed.host_pods()
        return len(hosts) == len(names) and all(each["spec"].get("nodeName") for each in hosts)

    await until(placed, "the whole gang is placed by the host", 120)
    for name in names:
        virtual, host = await bed.virtual(name) or {}, await bed.mirror(name) or {}
        assert virtual["spec"]["nodeName"] == host["spec"]["nodeName"]
        assert pinned(host) == [[host["spec"]["nodeName"]]]
        await bed.run(host)
    for name in names:
        await runs(bed, name)
    await bed.patrolled()
    assert all([not await gone(bed, name) for name in names])


# -- queues of the tenant's own that hold pods back by gates


async def test_item_44_a_pod_that_a_queue_lets_go_to_a_flavor_of_nodes_goes_there(bed: SyncerBed) -> None:
    """What Kueue does with single pods: its gate at the creation, the flavor's labels and no gate at the admission."""
    pod = bed.pod("train", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    await bed.create(pod)
    first = await bed.mirrored("train")
    assert len(first["spec"]["schedulingGates"]) == 1, "it cannot start"
    admitted = {"spec": {"nodeSelector": {"example.com/flavor": "spot"}, "schedulingGates": []}}
    await bed.plane.patch(PODS, "train", admitted, bed.space)

    async def let_go() -> Obj | None:
        found = await bed.mirror("train")
        assert found is None or found["spec"].get("schedulingGates") or found["metadata"]["uid"] != first["metadata"]["uid"]
        return found if found is not None and not found["spec"].get("schedulingGates") else None

    host: Obj = await until(let_go, "the host pod may start")
    assert host["spec"]["nodeSelector"]["example.com/flavor"] == "spot"
    assert not await gone(bed, "train")


async def test_item_44_a_gated_pod_whose_node_affinity_is_narrowed_starts_on_those_nodes(bed: SyncerBed) -> None:
    """What operators do that choose nodes by a pod's images: a gate at the creation, then an affinity, then no gate."""
    await bed.create(bed.pod("train", schedulingGates=[{"name": "example.com/arch"}]))
    first = await bed.mirrored("train")
    term = {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]}
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    await bed.plane.patch(PODS, "train", {"spec": {"affinity": {"nodeAffinity": wanted}}}, bed.space)

    async def anew() -> Obj | None:
        found = await bed.mirror("train")
        return found if found is not None and found["metadata"]["uid"] != first["metadata"]["uid"] else None

    host: Obj = await until(anew, "the host pod is made again")
    assert host["spec"]["affinity"]["nodeAffinity"] == wanted
    assert len(host["spec"]["schedulingGates"]) == 1, "it still cannot start"
    await bed.plane.patch(PODS, "train", {"spec": {"schedulingGates": []}}, bed.space)

    async def let_go() -> Obj | None:
        found = await bed.mirror("train")
        return found if found is not None and not found["spec"].get("schedulingGates") else None

    assert (await until(let_go, "the host pod may start"))["metadata"]["uid"] == host["metadata"]["uid"]
    assert not await gone(bed, "train")


async def test_item_44_a_gated_pod_of_the_tenants_own_scheduler_is_not_on_the_host(bed: SyncerBed) -> None:
    await bed.create(own(bed, "train", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
    await bed.patrolled()
    assert (await bed.condition("train") or {}).get("reason") == "SchedulingGated", "what its API server said of it stays"
    assert await bed.mirror("train") is None
    await bed.plane.patch(PODS, "train", {"spec": {"schedulingGates": []}}, bed.space)
    await seen_on(bed, bed.node)
    await bed.bind_virtual("train")
    assert pinned(await bed.mirrored("train")) == [[bed.node]]
