"""The sides with a real API server and a real kube-scheduler, with and without the ledger in front of it.

    begin: create pods ──> watch shows them          settle, gated: decide ──> gate away, pinned ──> all are bound as decided
    end: delete pods ────> watch shows them gone     settle, plain: until no pod that waits would fit on any node

Every wait has a deadline. If a node has the GPUs for a pod, it has the CPU and the memory too (`trace`). So counting GPUs shows
whether another pod would still be placed.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from bulkhead.api import labels
from bulkhead.kube.client import STRATEGIC_PATCH, Client
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import NAMESPACES, NODES, PODS
from bulkhead.ledger.model import Admission, Node
from bulkhead.ledger.read import node_of
from controller.dispatch import patches
from e2e.performance.fragmentation import trace
from e2e.performance.fragmentation.deciding import admissions, seen
from e2e.performance.fragmentation.trace import Job
from tests.kit.servers import ApiServer

_AT_ONCE: Final = 16
_SECONDS: Final = 120.0
# Bin packing of GPUs, as an admin would tune a stock scheduler for them.
PACKING: Final[Mapping[str, Any]] = {
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": labels.GPU, "weight": 10}]}},
        }
    ]
}


class Host:
    """What both sides share, on a host of their own."""

    gated = False

    def __init__(self, client: Client, nodes: int) -> None:
        self.client = client
        self.nodes = [trace.node(number) for number in range(nodes)]
        self.arrived: dict[str, float] = {}
        self._told: set[str] = set()
        self._changed = asyncio.Event()
        self.pods = Informer(client, PODS, namespace=trace.SPACE, on_change=self._heard)

    def _heard(self, _change: Change) -> None:
        self._changed.set()

    async def prepare(self) -> None:
        """The namespace and the nodes."""
        await self.client.apply(NAMESPACES, {"metadata": {"name": trace.SPACE}})
        await at_once(self._make_node(node) for node in self.nodes)

    async def _make_node(self, node: dict[str, Any]) -> None:
        name = node["metadata"]["name"]
        await self.client.create(NODES, {"metadata": node["metadata"]})
        await self.client.patch(NODES, name, {"status": node["status"]}, subresource="status")
        # This process alone plays the kubelet, so it must also remove the taint of new nodes.
        await self.client.patch(NODES, name, {"spec": {"taints": None}})

    async def begin(self, job: Job, now: float) -> None:
        self.arrived |= dict.fromkeys(job.names, now)
        await at_once(self.client.create(PODS, trace.pod(job, name, gated=self.gated), trace.SPACE) for name in job.names)
        await self.until(lambda: all(Key(trace.SPACE, name) in self.pods.store for name in job.names), f"{job.name} is seen")

    async def end(self, job: Job) -> None:
        await at_once(self.client.delete(PODS, name, trace.SPACE, grace_seconds=0) for name in job.names)
        self._told -= set(job.names)
        await self.until(
            lambda: not any(Key(trace.SPACE, name) in self.pods.store for name in job.names), f"{job.name} is gone"
        )

    async def until(self, check: Callable[[], bool], what: str) -> None:
        """Wait until the watch has shown something."""
        try:
            async with asyncio.timeout(_SECONDS):
                while True:
                    self._changed.clear()
                    if check():
                        return
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"not within {_SECONDS:g} s: {what}") from None

    def news(self) -> Mapping[str, str]:
        """Pods that were placed since the last call."""
        found = {
            obj["metadata"]["name"]: str(obj["spec"]["nodeName"])
            for obj in self.pods.store.objects()
            if obj["spec"].get("nodeName") and obj["metadata"]["name"] not in self._told
        }
        self._told |= found.keys()
        return found


class Plain(Host):
    """Without a ledger: the scheduler may place every pod as soon as it is created."""

    async def settle(self, now: float) -> Mapping[str, str]:
        del now
        await self.until(self._at_rest, "no pod that waits would fit anywhere")
        return self.news()

    def _at_rest(self) -> bool:
        free = dict.fromkeys((node["metadata"]["name"] for node in self.nodes), trace.PER_NODE)
        waiting = []
        for obj in self.pods.store.objects():
            gpus, node = _gpus(obj), obj["spec"].get("nodeName")
            if node:
                free[node] -= gpus
            else:
                waiting.append(gpus)
        return not waiting or min(waiting) > max(free.values())


class Gated(Host):
    """The ledger in front of the scheduler: admitted pods lose their gate, are pinned, and are bound before the next turn."""

    gated = True

    async def settle(self, now: float) -> Mapping[str, str]:
        nodes = [node_of(node) for node in self.nodes]
        while admitted := admissions(nodes, (self._seen(obj) for obj in self.pods.store.objects()), now):
            await at_once(self._let_go(item, now) for item in admitted)
            names = [item.pod.name for item in admitted]
            await self.until(functools.partial(self._bound, names), f"{len(names)} pods are bound")
        return self.news()

    def _seen(self, obj: dict[str, Any]) -> Any:
        return seen(obj, self.arrived[obj["metadata"]["name"]])

    async def _let_go(self, each: Admission, now: float) -> None:
        body = patches.admission(each, now, patches.pinned(each, Node(each.node, {}, {labels.HOSTNAME: each.node})))
        await self.client.patch(PODS, each.pod.name, body, trace.SPACE, content_type=STRATEGIC_PATCH)

    def _bound(self, names: Sequence[str]) -> bool:
        found = (self.pods.store.get(Key(trace.SPACE, name)) or {"spec": {}} for name in names)
        return all(obj["spec"].get("nodeName") for obj in found)


def _gpus(obj: Mapping[str, Any]) -> int:
    return int(obj["spec"]["containers"][0]["resources"]["requests"][labels.GPU])


async def at_once(calls: Iterable[Awaitable[Any]]) -> None:
    """All of them, a few at a time."""
    few = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Awaitable[Any]) -> None:
        async with few:
            await call

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(one(call))


@contextlib.asynccontextmanager
async def opened(
    server: ApiServer, kind: type[Host], nodes: int, profile: Mapping[str, Any] = MappingProxyType({})
) -> AsyncIterator[Any]:
    """A side on a running server, with its own scheduler until the block ends."""
    async with Client(server.admin, user_agent="bench", field_manager="bench") as client:
        host = kind(client, nodes)
        await host.prepare()
        server.start_scheduler(configuration(server, profile))
        watching = asyncio.create_task(_forever(host.pods.run()))
        try:
            await host.pods.synced()
            yield host
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            server.kill("kube-scheduler")


async def _forever(run: Coroutine[Any, Any, Any]) -> None:
    await run


def configuration(server: ApiServer, profile: Mapping[str, Any] = MappingProxyType({})) -> Path:
    """The configuration of the stock scheduler: its defaults, except for its limit of requests and a profile."""
    path = server.folder / "scheduler.yaml"
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(server.folder / "components.kubeconfig"), "qps": 1000, "burst": 1000},
        "profiles": [{"schedulerName": "default-scheduler", **profile}],
    }
    path.write_text(yaml.safe_dump(config))
    return path
