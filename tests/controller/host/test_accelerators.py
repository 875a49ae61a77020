"""Notes of held accelerators on host nodes: what is counted, that nothing is kept of pods, and who may die on the way."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from bulkhead.api.accelerators import HELD
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Unavailable
from bulkhead.kube.resources import NAMESPACES, NODES, PODS, TENANT_CLASSES
from controller.host.accelerators import Accelerators, of_node, of_pod
from tests.kit import lag
from tests.kit.crds import install
from tests.kit.leading import leading
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant_class

GPU, AMD, OTHER = "nvidia.com/gpu", "amd.com/gpu", "example.com/nic"


def pod(name: str, node: str, **asks: int) -> Obj:
    limits = {key.replace("__", "/").replace("_", "."): str(count) for key, count in asks.items()}
    container = {"name": "main", "image": "busybox:1.36", "resources": {"limits": limits}}
    spec = {"containers": [container]} | ({"nodeName": node} if node else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": "u", "resourceVersion": "7"}, "spec": spec}


def test_item_49_nothing_is_kept_of_a_pod_but_where_it_is_and_what_it_holds() -> None:
    big = pod("a", "n1", nvidia_com__gpu=2, cpu=1)
    big["metadata"] |= {"annotations": {"x": "y" * 200_000}, "labels": {"a": "b"}}
    meta, body = of_pod(msgspec.json.encode(big), None)
    assert (meta.name, meta.uid, meta.resource_version, meta.annotations, meta.labels) == ("a", "u", "7", None, None)
    assert body == b'["n1",{"nvidia.com/gpu":2}]'
    for nothing in (pod("b", "n1", cpu=1), pod("c", "", nvidia_com__gpu=2), pod("d", "n1"), {"metadata": {"name": "e"}}):
        assert of_pod(msgspec.json.encode(nothing), None)[1] == b""
    ended = pod("f", "n1", nvidia_com__gpu=2) | {"status": {"phase": "Failed"}}
    assert of_pod(msgspec.json.encode(ended), None)[1] == b""


def test_item_49_nothing_is_kept_of_a_node_but_its_note() -> None:
    node = {"metadata": {"name": "n", "annotations": {"x": "y" * 200_000, HELD: "{}"}, "labels": {"a": "b"}}}
    meta, body = of_node(msgspec.json.encode(node), None)
    assert (meta.annotations, meta.labels, body) == ({HELD: "{}"}, None, b"{}")
    del node["metadata"]["annotations"][HELD]
    assert of_node(msgspec.json.encode(node), None)[0].annotations is None


class Host:
    """Two nodes and a namespace of a real API server."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.space = f"held-{secrets.token_hex(4)}"
        self.nodes = [f"{self.space}-{number}" for number in range(2)]

    async def run(self, name: str, node: str, **asks: int) -> None:
        made = pod(name, node, **asks)
        await self.client.create(PODS, made | {"metadata": {"name": name}}, self.space)

    async def end(self, name: str, phase: str) -> None:
        await self.client.patch(PODS, name, {"status": {"phase": phase}}, self.space, subresource="status")

    async def delete(self, name: str) -> None:
        await self.client.delete(PODS, name, self.space, grace_seconds=0)

    async def note(self, text: str | None) -> None:
        await self.client.patch(NODES, self.nodes[0], {"metadata": {"annotations": {HELD: text}}})

    async def says(self, *texts: str | None) -> None:
        async def so() -> bool:
            found = [await self.client.get(NODES, name) for name in self.nodes]
            return [(each["metadata"].get("annotations") or {}).get(HELD) for each in found] == list(texts)

        await until(so, f"notes {texts}")


@pytest.fixture
async def host(host_client: Client) -> AsyncIterator[Host]:
    made = Host(host_client)
    await install(host_client)
    await host_client.create(NAMESPACES, {"metadata": {"name": made.space}})
    for name in made.nodes:
        await host_client.create(NODES, {"metadata": {"name": name}})
    for name, resources in (("a", [GPU]), ("b", [GPU, AMD])):
        spec = tenant_class(gpuResources=resources)
        await host_client.apply(TENANT_CLASSES, spec | {"metadata": {"name": f"{made.space}-{name}"}})
    yield made
    for each in (await host_client.list(PODS, made.space)).items:
        await made.delete(each["metadata"]["name"])
    for name in ("a", "b"):
        await host_client.delete(TENANT_CLASSES, f"{made.space}-{name}")
    for name in made.nodes:
        await host_client.delete(NODES, name)


async def test_item_49_notes_follow_the_pods_of_all_tenants(host: Host) -> None:
    one, two = host.nodes
    async with leading(Accelerators(host.client)) as leader:
        await host.run("a", one, nvidia_com__gpu=3, example_com__nic=1)
        await host.run("b", one, nvidia_com__gpu=2, amd_com__gpu=1)
        await host.run("c", two, example_com__nic=4)
        await host.run("d", "", nvidia_com__gpu=8)
        await host.run("e", one, cpu=1)
        await host.says('{"amd.com/gpu":1,"nvidia.com/gpu":5}', None)
        await until(lambda: lag.caught_up(leader._pods), "every pod to be seen")
        kept = {key.name for key in leader._pods.store.keys() if key.namespace == host.space}  # noqa: SIM118
        assert kept == {"a", "b", "c"}
        await host.end("a", "Succeeded")
        await host.says('{"amd.com/gpu":1,"nvidia.com/gpu":2}', None)
        await host.client.delete(TENANT_CLASSES, f"{host.space}-b")
        await host.says('{"nvidia.com/gpu":2}', None)
        await host.delete("b")
        await host.says(None, None)


async def test_item_49_what_a_dead_controller_left_and_what_an_outside_hand_writes_is_put_right(host: Host) -> None:
    one, two = host.nodes
    async with leading(Accelerators(host.client)):
        await host.run("a", one, nvidia_com__gpu=3)
        await host.says('{"nvidia.com/gpu":3}', None)
    await host.delete("a")
    await host.run("b", two, nvidia_com__gpu=1)
    async with leading(Accelerators(host.client)), leading(Accelerators(host.client)):
        await host.says(None, '{"nvidia.com/gpu":1}')
        for wrong in ("garbage", '{"nvidia.com/gpu":64}'):
            await host.note(wrong)
            await host.says(None, '{"nvidia.com/gpu":1}')


class Faulty(Client):
    """A client whose first writes fail."""

    failures = 2

    async def patch(self, *args: Any, **kwargs: Any) -> Obj:
        if self.failures:
            self.failures -= 1
            raise Unavailable(503, "ServiceUnavailable", "not now")
        return await super().patch(*args, **kwargs)


async def test_item_49_a_note_that_could_not_be_written_is_written_later(host: Host, host_config: Any) -> None:
    async with Faulty(host_config, user_agent="tests", field_manager="tests") as client, leading(Accelerators(client)):
        await host.run("a", host.nodes[0], nvidia_com__gpu=3)
        await host.says('{"nvidia.com/gpu":3}', None)
        assert client.failures == 0


async def test_item_49_a_node_that_goes_in_between_stops_nothing(
    host: Host, eventually: Callable[[Callable[[], object]], Awaitable[None]]
) -> None:
    async with leading(Accelerators(host.client)) as leader:
        await eventually(lambda: leader._nodes.has_synced)
        assert await leader._write(f"{host.space}-never", "{}")
        await host.run("a", f"{host.space}-never", nvidia_com__gpu=3)
        await host.run("b", host.nodes[0], nvidia_com__gpu=1)
        await host.says('{"nvidia.com/gpu":1}', None)
