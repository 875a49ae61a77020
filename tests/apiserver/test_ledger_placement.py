"""Where the ledger's placement check and the host's scheduler have to agree, with a real kube-scheduler.

Nodes are objects without a kubelet; each test has a scheduler of its own, and an API server without pods and nodes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.kube.client import Client
from bulkhead.kube.resources import NAMESPACES, NODES, PODS, RUNTIME_CLASSES
from bulkhead.ledger import read
from e2e.performance.fragmentation import hosts, trace
from e2e.performance.fragmentation.deciding import Alone
from e2e.performance.fragmentation.timeline import play
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until
from tests.ledger.test_nodes import CASES, node_object

pytestmark = pytest.mark.ledgers

SPACE = "needs"
NODE_COUNT = 10


@pytest.fixture
async def server(file_server: ApiServer) -> AsyncIterator[ApiServer]:
    """The server of this file, in which nothing of a test stays."""
    yield file_server
    with contextlib.suppress(KeyError):
        file_server.kill("kube-scheduler")
    async with Client(by_token(file_server.admin), user_agent="tests", field_manager="tests") as client:
        for resource in (PODS, NODES):
            for item in (await client.list_metadata(resource)).items:
                await client.delete(resource, item["metadata"]["name"], item["metadata"].get("namespace"), grace_seconds=0)


async def make_node(client: Client, case: dict[str, Any], name: str, only: dict[str, str]) -> None:
    made = node_object(case, name)
    await client.create(NODES, {"metadata": made["metadata"] | {"labels": made["metadata"]["labels"] | only}})
    room = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    await client.patch(NODES, name, {"status": {"capacity": room, "allocatable": room}}, subresource="status")
    # It replaces the taint that every new node has.
    spec = made["spec"] | {"taints": made["spec"].get("taints")}
    await client.patch(NODES, name, {"spec": spec})


def renamed(value: Any, name: str) -> Any:
    """The case's one node under a name of its own."""
    if isinstance(value, dict):
        return {key: renamed(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, name) for each in value]
    return name if value == "the-node" else value


def pod_of(case: dict[str, Any], name: str, only: dict[str, str]) -> dict[str, Any]:
    spec = renamed(case["pod"], name)
    spec = spec | {"nodeSelector": spec.get("nodeSelector", {}) | only}
    return {"metadata": {"name": name}, "spec": spec | {"containers": [{"name": "main", "image": "busybox:1.36"}]}}


async def test_needs_are_matched_as_by_the_scheduler(server: ApiServer) -> None:
    """The table that the core is held to (tests/ledger/data/needs.yaml) is what a real scheduler does."""
    cases = {f"case-{number}": case for number, case in enumerate(CASES) if case.get("stored", True)}
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        await client.apply(NAMESPACES, {"metadata": {"name": SPACE}})
        for name, case in cases.items():
            # Each case has a node that only its own pod is for.
            await make_node(client, case, name, {"case": name})
        for name, case in cases.items():
            await client.create(PODS, pod_of(case, name, {"case": name}), SPACE)
        # From its first look on it sees all nodes as they are to be.
        server.start_scheduler(hosts.configuration(server))

        async def judged() -> dict[str, str] | None:
            pods = (await client.list(PODS, SPACE)).items
            found = {pod["metadata"]["name"]: verdict(pod) for pod in pods}
            return found if all(found.values()) else None

        found = await until(judged, "each pod is bound or has been refused")
    wrong = {case["name"]: found[name] for name, case in cases.items() if (found[name] == "bound") is not case["matches"]}
    assert not wrong


def asking(*containers: dict[str, str], inits: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    """A pod's spec by what its containers request; of devices a limit is one."""

    def one(number: int, asks: dict[str, str], **also: Any) -> dict[str, Any]:
        limits = {name: amount for name, amount in asks.items() if "/" in name}
        requests = {name: amount for name, amount in asks.items() if "/" not in name}
        return {"name": f"c{number}", "image": "busybox:1.36", "resources": {"requests": requests, "limits": limits}} | also

    made = [one(number + 100, each.get("asks", each), **each.get("also", {})) for number, each in enumerate(inits)]
    return {"containers": [one(number, each) for number, each in enumerate(containers)], "initContainers": made, **more}


ASKING: dict[str, dict[str, Any]] = {
    "containers": asking({"cpu": "500m", "memory": "1Gi", labels.GPU: "4"}, {"cpu": "1", labels.GPU: "2"}),
    "an-init-container": asking({"cpu": "1", labels.GPU: "1"}, inits=({"cpu": "3", labels.GPU: "8"},)),
    "sidecars": asking(
        {"cpu": "1"}, inits=({"asks": {"cpu": "1"}, "also": {"restartPolicy": "Always"}}, {"cpu": "3"}, {labels.GPU: "1"})
    ),
    "overhead": asking({"cpu": "1"}, runtimeClassName="heavy"),
    "as-a-whole": asking({"cpu": "4", "memory": "1Mi"}, resources={"requests": {"cpu": "5"}, "limits": {"cpu": "6"}}),
    "limits-alone": {"containers": [{"name": "main", "image": "busybox:1.36", "resources": {"limits": {"cpu": "2"}}}]},
}


async def test_what_a_pod_asks_for_is_counted_as_by_the_scheduler(server: ApiServer) -> None:
    """On a node with exactly what the ledger counts a pod finds room, and where any of it is one less it does not."""
    heavy = {"metadata": {"name": "heavy"}, "handler": "heavy", "overhead": {"podFixed": {"cpu": "250m", "memory": "1Mi"}}}
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        await client.apply(NAMESPACES, {"metadata": {"name": SPACE}})
        await client.create(RUNTIME_CLASSES, heavy)
        fits: dict[str, bool] = {}
        for name, spec in ASKING.items():
            body = {"metadata": {"name": f"{name}-there"}, "spec": spec | {"nodeSelector": {"case": f"{name}-there"}}}
            seen = read.pod_of(await client.create(PODS, body, SPACE))
            assert seen is not None
            assert seen.asks
            await make_room(client, f"{name}-there", seen.asks)
            fits[f"{name}-there"] = True
            for short in seen.asks:
                node = f"{name}-short-{len(fits)}"
                await client.create(
                    PODS, body | {"metadata": {"name": node}, "spec": spec | {"nodeSelector": {"case": node}}}, SPACE
                )
                await make_room(client, node, {**seen.asks, short: seen.asks[short] - 1})
                fits[node] = False
        # From its first look on it sees all nodes as they are to be.
        server.start_scheduler(hosts.configuration(server))

        async def judged() -> dict[str, str] | None:
            pods = (await client.list(PODS, SPACE)).items
            found = {pod["metadata"]["name"]: verdict(pod) for pod in pods}
            return found if all(found.values()) else None

        found = await until(judged, "each pod is bound or has been refused")
    assert {name: reason == "bound" for name, reason in found.items()} == fits


async def make_room(client: Client, name: str, asks: Mapping[str, int]) -> None:
    await client.create(NODES, {"metadata": {"name": name, "labels": {"case": name}}})
    room = {key: f"{amount}m" if key == "cpu" else str(amount) for key, amount in asks.items()} | {"pods": "1"}
    await client.patch(NODES, name, {"status": {"capacity": room, "allocatable": room}}, subresource="status")
    await client.patch(NODES, name, {"spec": {"taints": None}})


def verdict(pod: dict[str, Any]) -> str:
    if pod["spec"].get("nodeName"):
        return "bound"
    conditions = pod.get("status", {}).get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == "PodScheduled"), "")


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_same_trace_gives_the_same_admissions_alone_and_on_a_host(server: ApiServer, seed: int) -> None:
    """Every pod of a trace at the same moment on the same node: what was decided is what a real scheduler binds."""
    jobs = trace.make(seed, nodes=NODE_COUNT, jobs=60, load=1.2)
    capacity = NODE_COUNT * trace.PER_NODE
    alone = await play(jobs, Alone([trace.node(number) for number in range(NODE_COUNT)]), capacity)
    assert len(alone.started) == len(jobs)
    assert max(each.waiting for each in alone.samples) >= 5, "some had to wait"
    async with asyncio.timeout(500), hosts.opened(server, hosts.Gated, NODE_COUNT) as side:
        real = await play(jobs, side, capacity)
    assert real.placed == alone.placed
    assert real.samples == alone.samples
