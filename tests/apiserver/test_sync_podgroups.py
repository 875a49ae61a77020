"""PodGroups between two real API servers: the test stands for the controllers that protect them, a kube-scheduler places."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import informer
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import Key, Resource
from bulkhead.kube.resources import POD_GROUPS, PODS, RESOURCE_QUOTAS
from controller.plane.controller_manager import POD_GROUP_CONTROLLERS
from syncer.mirrors import reconcile as mirrors
from syncer.translate.view import TenantView
from syncer.write.host import HostWriter
from tests.kit.servers import ApiServer, Pair, by_token, with_pod_groups
from tests.kit.syncerbed import SyncerBed, until, virtual_uid

pytestmark = pytest.mark.ledgers

COUNT = "count/podgroups.scheduling.k8s.io"
NOW = "2026-01-01T00:00:00Z"


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    async with SyncerBed.open(host_client, plane_client, podGroups=True, limits={"nvidia.com/gpu": 12}) as opened:
        yield opened


async def group(bed: SyncerBed, name: str, minimum: int = 3, **spec: Any) -> Obj:
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}} | spec}
    return await bed.plane.create(POD_GROUPS, body, bed.space)


async def virtual_group(bed: SyncerBed, name: str) -> Obj | None:
    with contextlib.suppress(NotFound):
        return await bed.plane.get(POD_GROUPS, name, bed.space)
    return None


async def grouped(bed: SyncerBed, name: str, of: str = "gang", **spec: Any) -> None:
    await bed.create(bed.pod(name, schedulingGroup={"podGroupName": of}, **spec))


async def waits(bed: SyncerBed, name: str, reason: str, text: str) -> None:
    async def reported() -> bool:
        found = await bed.condition(name) or {}
        return found.get("reason") == reason and text in found.get("message", "")

    await until(reported, f"{name} waits: {reason}, {text}")
    assert await bed.mirror(name) is None


async def let_go(client: Client, name: str, namespace: str) -> None:
    """What kube-controller-manager does with a group that is being deleted and that no pod needs."""
    await client.patch(POD_GROUPS, name, {"metadata": {"finalizers": None}}, namespace)


async def test_item_91_a_group_goes_before_its_pods_and_its_status_is_shown(bed: SyncerBed) -> None:
    await grouped(bed, "train-0")
    await waits(bed, "train-0", "ReferenceMissing", "waiting for the PodGroup 'gang'")
    await group(bed, "gang", schedulingConstraints={"topology": [{"key": "bulkhead.dev/rack"}]})
    pod = await bed.mirrored("train-0")
    host = await bed.copy(POD_GROUPS, "gang")
    assert host is not None, "the group is there before its pod"
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": host["metadata"]["name"]}
    assert host["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    assert host["spec"]["schedulingConstraints"] == {"topology": [{"key": "bulkhead.dev/rack"}]}

    condition = {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": NOW}
    message = f"no room for {host['metadata']['name']} in {bed.work}"
    status = {"conditions": [condition | {"message": message}]}
    await bed.host.patch(POD_GROUPS, host["metadata"]["name"], {"status": status}, bed.work, subresource="status")

    async def up() -> bool:
        return ((await virtual_group(bed, "gang")) or {}).get("status", {}).get("conditions") == [
            condition | {"message": f"no room for gang in {bed.space}"}
        ]

    await until(up, "condition in the plane")


async def test_item_91_a_group_that_may_not_be_says_why_and_its_pods_wait(bed: SyncerBed) -> None:
    await group(bed, "gang", schedulingConstraints={"topology": [{"key": "example.org/hidden"}]})
    await grouped(bed, "train-0")
    await bed.event("gang", "spec.schedulingConstraints.topology[0].key", reason="NotAllowed")
    await waits(bed, "train-0", "ReferenceMissing", "is not on the host yet")
    assert await bed.copy(POD_GROUPS, "gang") is None
    # Recreated as it may be, it takes its pods with it.
    await bed.plane.delete(POD_GROUPS, "gang", bed.space)
    await let_go(bed.plane, "gang", bed.space)
    await group(bed, "gang")
    await bed.mirrored("train-0")


async def test_item_91_the_hosts_quota_bounds_the_groups(bed: SyncerBed) -> None:
    quota = {"hard": {COUNT: "1"}}
    await bed.host.create(RESOURCE_QUOTAS, {"metadata": {"name": "tenant-quota"}, "spec": quota}, bed.work)
    status = {"status": quota | {"used": {COUNT: "1"}}}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-quota", status, bed.work, subresource="status")
    await bed.refuses(POD_GROUPS, {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
    await group(bed, "gang")
    await bed.event("gang", "1 of 1 are in use", reason="QuotaExceeded")
    assert await bed.copy(POD_GROUPS, "gang") is None


async def test_item_91_a_groups_end_follows_and_neither_side_waits_for_the_other(bed: SyncerBed) -> None:
    await group(bed, "gang")
    await grouped(bed, "train-0")
    pod = await bed.mirrored("train-0")
    host = await bed.copied(POD_GROUPS, "gang")
    # While pods need it the plane's protection holds it, and the host's copy stays whole.
    await bed.plane.delete(POD_GROUPS, "gang", bed.space)
    await grouped(bed, "train-1")
    await bed.mirrored("train-1")
    assert not (await bed.copy(POD_GROUPS, "gang") or {})["metadata"].get("deletionTimestamp")
    await let_go(bed.plane, "gang", bed.space)

    async def ending() -> bool:
        return bool((await bed.copy(POD_GROUPS, "gang") or {})["metadata"].get("deletionTimestamp"))

    await until(ending, "the host's copy ends too")
    # Another of its name, and its pods, wait until the old one is gone; pods of the old one run on.
    made = await group(bed, "gang", 1)
    await grouped(bed, "later")
    await waits(bed, "later", "ReferenceMissing", "is not on the host yet")
    assert not pod["metadata"].get("deletionTimestamp")
    await let_go(bed.host, host["metadata"]["name"], bed.work)
    await bed.mirrored("later")
    assert virtual_uid(await bed.copy(POD_GROUPS, "gang") or {}) == made["metadata"]["uid"]


async def ends(bed: SyncerBed, name: str) -> None:
    """The group goes from both sides although pods name it: their protection had not seen those pods yet."""
    await bed.plane.delete(POD_GROUPS, name, bed.space)
    await let_go(bed.plane, name, bed.space)

    async def ending() -> bool:
        return bool((await bed.copy(POD_GROUPS, name) or {}).get("metadata", {}).get("deletionTimestamp"))

    await until(ending, "the host's copy ends too")
    copy = await bed.copied(POD_GROUPS, name)
    await let_go(bed.host, copy["metadata"]["name"], bed.work)


async def test_item_91_a_pod_whose_group_goes_just_after_it_came_waits_and_says_so(bed: SyncerBed) -> None:
    await group(bed, "gang")
    runs = await bed.running("train-1", bed.pod("train-1", schedulingGroup={"podGroupName": "gang"}))
    await grouped(bed, "train-0")
    first = await bed.mirrored("train-0")
    await bed.patrolled()
    await ends(bed, "gang")

    async def told() -> bool:
        found = await bed.condition("train-0") or {}
        return found.get("reason") == "ReferenceMissing" and "waiting for the PodGroup 'gang'" in found.get("message", "")

    await until(told, "the pod says what it waits for")
    assert await bed.mirror("train-0") is None
    # One that has a node runs on.
    await bed.idle()
    running = await bed.mirrored("train-1")
    assert (running["metadata"]["uid"], running["metadata"].get("deletionTimestamp")) == (runs["metadata"]["uid"], None)
    await group(bed, "gang")
    assert (await bed.mirrored("train-0"))["metadata"]["uid"] != first["metadata"]["uid"]


async def test_item_91_a_pod_that_is_created_just_after_its_group_went_waits_and_says_so(
    bed: SyncerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copies of both sides still show the group when the pod is translated."""
    create = HostWriter.create
    went: list[Obj] = []

    async def late(self: HostWriter, r: Resource, desired: Obj, view: TenantView) -> Obj:
        if r == PODS and not went:
            went.append(desired["spec"]["schedulingGroup"])
            await ends(bed, "gang")
        return await create(self, r, desired, view)

    monkeypatch.setattr(HostWriter, "create", late)
    await group(bed, "gang")
    await bed.copied(POD_GROUPS, "gang")
    await grouped(bed, "train-0")

    async def told() -> bool:
        found = await bed.condition("train-0") or {}
        return found.get("reason") == "ReferenceMissing" and "waiting for the PodGroup 'gang'" in found.get("message", "")

    await until(told, "the pod says what it waits for")
    assert went
    assert await bed.mirror("train-0") is None
    await group(bed, "gang")
    await bed.mirrored("train-0")


async def test_item_91_a_group_that_is_made_again_gets_the_pods_of_the_one_before(bed: SyncerBed) -> None:
    """The host holds the copy of the earlier group while a pod of the host names it, and that pod waits for the group."""
    await group(bed, "gang")
    await grouped(bed, "train-0")
    first = await bed.mirrored("train-0")
    await bed.stop()
    await bed.plane.delete(POD_GROUPS, "gang", bed.space)
    await let_go(bed.plane, "gang", bed.space)
    made = await group(bed, "gang", 1)
    await bed.start()

    async def taken_back() -> bool:
        return await bed.mirror("train-0") is None

    await until(taken_back, "the pod no longer holds the earlier group")
    copy = await bed.copied(POD_GROUPS, "gang")
    await let_go(bed.host, copy["metadata"]["name"], bed.work)
    assert (await bed.mirrored("train-0"))["metadata"]["uid"] != first["metadata"]["uid"]
    assert virtual_uid(await bed.copy(POD_GROUPS, "gang") or {}) == made["metadata"]["uid"]


async def test_item_91_a_deleted_copy_is_recreated_and_absence_is_not_a_deletion(bed: SyncerBed) -> None:
    await group(bed, "gang")
    first = await bed.copied(POD_GROUPS, "gang")
    name = first["metadata"]["name"]
    await bed.host.delete(POD_GROUPS, name, bed.work)
    await let_go(bed.host, name, bed.work)

    async def again() -> bool:
        found = await bed.copy(POD_GROUPS, "gang")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await until(again, "host group made again")
    # Gone while the syncer was away: shown by no event, proven by the plane.
    await bed.stop()
    await bed.plane.delete(POD_GROUPS, "gang", bed.space)
    await let_go(bed.plane, "gang", bed.space)
    await bed.start()

    async def ending() -> bool:
        return bool((await bed.copy(POD_GROUPS, "gang") or {})["metadata"].get("deletionTimestamp"))

    await until(ending, "the host's copy ends")


async def test_item_91_a_class_that_offers_none_has_pods_say_so(host_client: Client, plane_client: Client) -> None:
    async with SyncerBed.open(host_client, plane_client) as bed:
        await group(bed, "gang")
        await grouped(bed, "train-0")
        await waits(bed, "train-0", "NotSupported", "pod groups are not offered")
        assert "PodGroup" not in bed.session.caches.kinds  # type: ignore[union-attr]


# -- API servers without the gates


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API that comes is noticed at once."""
    monkeypatch.setattr(informer, "_RETRY_UNSERVED_SECONDS", 0.2)
    monkeypatch.setattr(mirrors, "RETRY_SECONDS", 0.2)


def serve(server: ApiServer, *, groups: bool) -> None:
    """Start it again with pod groups, or without, unless it runs so already."""
    plain = server.options.service_range
    options = with_pod_groups(plain) if groups else type(server.options)(service_range=plain)
    if options == server.options:
        return
    server.kill()
    server.options = options
    server.start_apiserver()
    server.wait()


@pytest.mark.usefixtures("hasty")
async def test_item_91_a_host_that_has_no_groups_says_so_and_mirrors_everything_else(
    file_server: ApiServer, plane_client: Client
) -> None:
    serve(file_server, groups=False)
    async with (
        Client(by_token(file_server.admin), user_agent="tests", field_manager="tests") as host,
        SyncerBed.open(host, plane_client, podGroups=True) as bed,
    ):
        await group(bed, "gang")
        await grouped(bed, "train-0")
        await waits(bed, "train-0", "NotSupported", "the platform's host does not serve PodGroup")
        await bed.event("gang", "the platform's host does not serve PodGroup", reason="NotSupported")
        await bed.running("plain")
        # The syncer notices by itself that a host now has the feature gates.
        serve(file_server, groups=True)
        pod = await bed.mirrored("train-0")
        assert pod["spec"]["schedulingGroup"]["podGroupName"] == (await bed.copy(POD_GROUPS, "gang") or {})["metadata"]["name"]


@pytest.mark.usefixtures("hasty")
async def test_item_91_a_plane_that_serves_no_groups_for_a_while_takes_none_from_the_host(
    file_server: ApiServer, host_client: Client
) -> None:
    serve(file_server, groups=True)
    async with (
        Client(by_token(file_server.admin), user_agent="tests", field_manager="tests") as plane,
        SyncerBed.open(host_client, plane, podGroups=True) as bed,
    ):
        await group(bed, "gang")
        first = await bed.copied(POD_GROUPS, "gang")
        await bed.stop()
        serve(file_server, groups=False)
        session = await bed.start()
        assert not session.caches.virtual["PodGroup"].served
        session.patrol.round()

        async def patrolled() -> bool:
            return not session.patrol.pending

        await until(patrolled, "every key reconciled")
        assert session.caches.virtual["PodGroup"].store.get(Key(bed.space, "gang")) is None
        serve(file_server, groups=True)

        async def served() -> bool:
            return session.caches.virtual["PodGroup"].store.get(Key(bed.space, "gang")) is not None

        await until(served, "the plane's group is seen again", 120)
        found = (await bed.copy(POD_GROUPS, "gang") or {})["metadata"]
        assert (found["uid"], found.get("deletionTimestamp")) == (first["metadata"]["uid"], None)


# -- real components


@pytest.fixture
def protection(apiservers: Pair) -> Iterator[None]:
    for server in (apiservers.host, apiservers.plane):
        server.start_controllers(*POD_GROUP_CONTROLLERS)
    yield
    for server in (apiservers.host, apiservers.plane):
        server.kill("kube-controller-manager")


@pytest.mark.usefixtures("protection")
async def test_item_91_upstreams_protection_lets_both_go_after_the_last_pod(bed: SyncerBed) -> None:
    await group(bed, "gang")
    await grouped(bed, "train-0")
    pod = await bed.running("train-1", bed.pod("train-1", schedulingGroup={"podGroupName": "gang"}))
    await bed.mirrored("train-0")
    # A namespace that ends deletes in any order: here the group goes first.
    await bed.plane.delete(POD_GROUPS, "gang", bed.space)
    for name in ("train-0", "train-1"):
        await bed.plane.delete(PODS, name, bed.space)

    async def ending() -> bool:
        return bool((await bed.mirror("train-1") or {})["metadata"].get("deletionTimestamp"))

    await until(ending, "the pod that runs is pending deletion")
    held = await bed.copy(POD_GROUPS, "gang")
    assert held is not None, "held while a pod of it runs"
    assert not held["metadata"].get("deletionTimestamp")
    await bed.kubelet_ends(pod)

    async def gone() -> bool:
        return await virtual_group(bed, "gang") is None and await bed.copy(POD_GROUPS, "gang") is None

    await until(gone, "the group gone on both sides", 60)


@pytest.fixture
def scheduler(apiservers: Pair) -> Iterator[None]:
    apiservers.host.start_scheduler()
    yield
    apiservers.host.kill("kube-scheduler")


@pytest.mark.usefixtures("scheduler")
async def test_item_91_a_gang_runs_whole_or_not_at_all(bed: SyncerBed) -> None:
    names = [f"train-{number}" for number in range(3)]
    await group(bed, "gang", len(names))
    half = {"limits": {"nvidia.com/gpu": "4"}}
    for name in names:
        containers = [{"name": "main", "image": "busybox:1.36", "resources": half}]
        await grouped(bed, name, containers=containers, nodeSelector={"pool": bed.tenant})

    async def condition() -> str:
        conditions = ((await virtual_group(bed, "gang")) or {}).get("status", {}).get("conditions", [])
        return "".join(f"{each['status']} {each['reason']}" for each in conditions)

    async def nodes() -> list[str]:
        pods = [await bed.virtual(name) or {} for name in names]
        return [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]

    async def refused() -> bool:
        return await condition() == "False Unschedulable"

    # One node has room for two of the three.
    await until(refused, "the gang reports that there is no room", 60)
    assert await nodes() == []
    assert not [pod for pod in await bed.host_pods() if pod["spec"].get("nodeName")]
    other = f"other-{bed.tenant}"
    await bed.make_node(other)

    async def placed() -> bool:
        return len(await nodes()) == len(names)

    await until(placed, "the whole gang has its nodes", 60)
    assert set(await nodes()) == {bed.node, other}

    async def accepted() -> bool:
        return (await condition()).startswith("True")

    await until(accepted, "the gang reports that it is placed")
