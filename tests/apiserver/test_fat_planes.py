"""A plane on a real API server that holds thousands of fat objects: how much of it, and of its lists, the controller reads."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, TooLarge, Unprocessable
from controller.inside import definitions
from controller.inside.budget import Budget
from controller.inside.calls import LIST_BYTES, PAGE_BYTES, Plane
from controller.slurm.answers import shapes
from controller.slurm.config.topology import topology_of
from controller.slurm.objects import nodesets
from controller.slurm.observe import MOST_NODES, NODE_SETS, cordoned, node_sets
from tests.kit.cloning import clone
from tests.kit.servers import ApiServer, ServerOptions, running
from tests.kit.syncerbed import until

pytestmark = pytest.mark.planes

MIB = 1024 * 1024
FAT = 60_000
FEW = 600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running("fat", tmp_path_factory.mktemp("fat"), ServerOptions(memory_mib=500)) as started:
        yield started


@pytest.fixture
async def admin(server: ApiServer) -> AsyncIterator[Client]:
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        yield client


FOLDER = "/registry/minions"


def name_of(number: int) -> str:
    return f"n-{number:04}"


async def fill(server: ApiServer, admin: Client, numbers: range, size: int, **marks: str) -> None:
    """Nodes of these numbers; the first is created, and the others are copies of it."""
    first, *others = map(name_of, numbers)
    meta = {"name": first, "labels": marks, "annotations": {"fat": "x" * size}}
    await admin.create(kinds.NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta})
    await asyncio.to_thread(clone, server, FOLDER, first, others)


async def clear(server: ApiServer) -> None:
    await asyncio.to_thread(server.forget, f"{FOLDER}/n-")


async def nodes(plane: Plane) -> tuple[Obj, ...]:
    selector = f"{labels.PLATFORM}=true"
    return await plane.list(kinds.NODES, shape=shapes.NODES, label_selector=selector, most=MOST_NODES)


@pytest.mark.apiserver
async def test_thousands_of_fat_nodes_take_a_page_at_once_and_end_at_the_bound(server: ApiServer, admin: Client) -> None:
    mine = {labels.PLATFORM: "true", "bulkhead.dev/rack": "r7"}
    await fill(server, admin, range(FEW), FAT, **mine)
    await admin.patch(kinds.NODES, name_of(0), {"spec": {"unschedulable": True}})
    budget = Budget()
    tracemalloc.start()
    async with budget.turn("a", 60) as turn:
        found = await nodes(Plane(admin, turn))
        read = turn.read
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == FEW
    assert read > FEW * FAT
    # A page, the names and labels, and nothing of what makes them fat.
    assert budget.most < PAGE_BYTES + 2048 * FEW
    assert taken < 3 * PAGE_BYTES
    assert topology_of("tree", found).units == ("rack-r7",)
    assert cordoned(found) == {name_of(0): "is cordoned"}

    await fill(server, admin, range(FEW, FEW + 400), FAT, **mine)
    async with Budget().turn("a", 60) as turn:
        with pytest.raises(TooLarge, match=f"list of nodes: more than {LIST_BYTES} bytes"):
            await nodes(Plane(admin, turn))
        assert turn.read < LIST_BYTES + PAGE_BYTES

    # What does not say that it is the platform's is not even sent.
    await clear(server)
    await fill(server, admin, range(2000, 2100), FAT)
    async with Budget().turn("a", 60) as turn:
        assert await nodes(Plane(admin, turn)) == ()
        assert turn.read < 4096


@pytest.mark.apiserver
async def test_an_object_that_cannot_be_fetched_in_one_page_is_reported(server: ApiServer, admin: Client) -> None:
    await fill(server, admin, range(3000, 3060), 250_000, **{labels.PLATFORM: "true"})
    async with Budget().turn("a", 60) as turn:
        with pytest.raises(TooLarge, match=f"more than {PAGE_BYTES}|longer than {PAGE_BYTES}"):
            await nodes(Plane(admin, turn))
    await clear(server)


@pytest.mark.apiserver
async def test_what_a_write_answers_is_metadata_alone(admin: Client) -> None:
    data = {"data": {"fat": "x" * 900_000}}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fat", "namespace": "default"}}
    await admin.create(kinds.CONFIG_MAPS, made | data)
    async with Budget().turn("a", 30) as turn:
        plane = Plane(admin, turn)
        await plane.apply(kinds.CONFIG_MAPS, made | {"data": {"ours": "y"}})
        await plane.patch(kinds.CONFIG_MAPS, "fat", {"data": {"more": "z"}}, "default")
        assert turn.read < 8192
        there = await admin.get(kinds.CONFIG_MAPS, "fat", "default")
        assert there["data"].keys() == {"fat", "ours", "more"}
        await plane.delete(kinds.CONFIG_MAPS, "fat", "default", uid=there["metadata"]["uid"])
        assert turn.read < 16_384


async def replaced(admin: Client, wanted: Obj) -> None:
    """The tenant's own definition in place of ours, and served."""
    name = wanted["metadata"]["name"]
    await admin.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, name)

    async def made() -> bool:
        try:
            await admin.create(kinds.CUSTOM_RESOURCE_DEFINITIONS, wanted)
        except KubeError:
            return False
        return True

    async def served() -> bool:
        there = await admin.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, name)
        return any(
            each["type"] == "Established" and each["status"] == "True" for each in there["status"].get("conditions") or []
        )

    await until(made, "the definition made")
    await until(served, "the definition served")


def bent(**changes: object) -> Obj:
    """The definition of NodeSets as a tenant might have it: of any shape."""
    wanted = nodesets.definition()
    version = {"name": "v1alpha1", "served": True, "storage": True}
    anything = {"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    return wanted | {"spec": wanted["spec"] | {"versions": [version | anything]} | changes}


@pytest.mark.apiserver
async def test_a_definition_of_the_tenants_own_is_put_right_where_that_can_be(admin: Client) -> None:
    webhook = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://127.0.0.1:1/x"}, "conversionReviewVersions": ["v1"]},
    }
    await replaced(admin, bent(conversion=webhook))
    async with Budget().turn("a", 60) as turn:
        await definitions.put(Plane(admin, turn), nodesets.definition())
    there = await admin.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, nodesets.NAME)
    assert there["spec"]["conversion"] == {"strategy": "None"}
    assert "x-kubernetes-preserve-unknown-fields" not in str(there["spec"]["versions"])

    async def nothing_written() -> bool:
        """The API server's own controllers write the status some moments after a change."""
        before = await admin.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, nodesets.NAME)
        async with Budget().turn("a", 60) as turn:
            await definitions.put(Plane(admin, turn), nodesets.definition())
        after = await admin.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, nodesets.NAME)
        assert after["metadata"]["generation"] == before["metadata"]["generation"] == there["metadata"]["generation"]
        return bool(after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"])

    await until(nothing_written, "a pass that writes nothing")


@pytest.mark.apiserver
async def test_a_definition_that_cannot_be_put_right_says_which_field(admin: Client) -> None:
    await replaced(admin, bent(scope="Cluster"))
    async with Budget().turn("a", 60) as turn:
        plane = Plane(admin, turn)
        with pytest.raises(Unprocessable, match=r"spec\.scope"):
            await definitions.put(plane, nodesets.definition())
    other = {"name": "v1beta1", "served": True, "storage": True}
    schema = {"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    await replaced(admin, bent(versions=[other | schema]))
    async with Budget().turn("a", 60) as turn:
        with pytest.raises(Unprocessable, match="storedVersions"):
            await definitions.put(Plane(admin, turn), nodesets.definition())
    await replaced(admin, bent())
    await admin.apply(kinds.NAMESPACES, {"metadata": {"name": "slurm"}})
    wrong = {"apiVersion": "slurm.bulkhead.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "gpu", "namespace": "slurm"}}

    async def taken() -> bool:
        try:
            await admin.create(NODE_SETS, wrong | {"spec": ["anything"]})
        except KubeError:
            return False
        return True

    await until(taken, "a NodeSet of another shape")
    async with Budget().turn("a", 60) as turn:
        with pytest.raises(KubeError, match=r"nodesets.*spec"):
            await node_sets(Plane(admin, turn))
