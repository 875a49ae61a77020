"""One tenant that storms: a process of its own, so that it delays no clock of the benchmark.

    parent ── one line of JSON: API with credentials, namespace, storm ──> stdin      stdout ──> "storming", then what it did

It storms until its stdin is closed, and removes what it created.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.objects import Resource
from e2e import workloads
from workstation.chaos import prober

_WRITERS = 8
_WATCHES = 200
_LISTED = 2000
_NEVER = 100
_MARK = "storm"
_LOUD_CPU = "250m"
_PAUSE_SECONDS = 0.2


@dataclass
class Storm:
    """What a storm works with, and what it has done so far."""

    client: Client
    namespace: str
    # Whether the tenant has the whole API server: only then it may have webhooks.
    whole: bool
    count: int = 0
    refused: int = 0
    made: list[Resource] = field(default_factory=list)

    async def does(self, call: Awaitable[object]) -> None:
        """Make one call, and count it."""
        try:
            await call
            self.count += 1
        except KubeError:
            self.refused += 1
            await asyncio.sleep(_PAUSE_SECONDS)


def _named(kind: str, name: str, namespace: str, **more: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {_MARK: "yes"}},
    } | more


async def _objects(storm: Storm, worker: int) -> None:
    number = 0
    while True:
        number += 1
        body = _named("ConfigMap", f"storm-{worker}-{number}", storm.namespace, data={"x": "y" * 1000})
        await storm.does(storm.client.create(kinds.CONFIG_MAPS, body))


async def _watches(storm: Storm, worker: int) -> None:
    async def one() -> None:
        while True:
            with suppress(KubeError):
                listed = await storm.client.list_metadata(kinds.CONFIG_MAPS, storm.namespace)
                events = storm.client.watch(kinds.CONFIG_MAPS, storm.namespace, resource_version=listed.resource_version)
                async with aclosing(events):
                    async for _ in events:
                        storm.count += 1
            await asyncio.sleep(_PAUSE_SECONDS)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_WATCHES // _WRITERS):
            tasks.create_task(one())
        if worker == 0:
            tasks.create_task(_objects(storm, worker))


async def _lists(storm: Storm, worker: int) -> None:
    for number in range(worker, _LISTED, _WRITERS):
        body = _named("ConfigMap", f"listed-{number}", storm.namespace, data={"x": "y" * 1000})
        await storm.does(storm.client.create(kinds.CONFIG_MAPS, body))
    while True:
        await storm.does(storm.client.get_raw(kinds.CONFIG_MAPS.path(storm.namespace), timeout=30.0))


async def _pods(storm: Storm, worker: int) -> None:
    number = 0
    while True:
        number += 1
        name = f"churn-{worker}-{number}"
        pod = workloads.pod(
            name, workloads.pod_spec(where=workloads.SIMULATED), namespace=storm.namespace, labels={_MARK: "yes"}
        )
        await storm.does(storm.client.create(kinds.PODS, pod))
        await asyncio.sleep(_PAUSE_SECONDS)
        await storm.does(storm.client.delete(kinds.PODS, name, storm.namespace, grace_seconds=0))


async def _webhooks(storm: Storm, worker: int) -> None:
    if worker == 0:
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"}
        hook = {
            "name": "storm.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 2,
            "clientConfig": {"url": "https://127.0.0.1:9/"},
            "rules": [rule],
        }
        made = {"metadata": {"name": _MARK, "labels": {_MARK: "yes"}}, "webhooks": [hook]}
        await storm.client.apply(kinds.VALIDATING_WEBHOOKS, made)
    await _objects(storm, worker)


async def _never(storm: Storm, worker: int) -> None:
    for number in range(worker, _NEVER, _WRITERS):
        spec = workloads.pod_spec(gpus=1_000_000, where=workloads.SIMULATED)
        pod = workloads.pod(f"never-{number}", spec, namespace=storm.namespace, labels={_MARK: "yes"})
        await storm.does(storm.client.create(kinds.PODS, pod))
    await asyncio.sleep(3600)


async def _logs(storm: Storm, worker: int) -> None:
    name = "loud"
    if worker == 0:
        command = ("sh", "-c", "while true; do echo storm storm storm storm storm storm storm storm; done")
        spec = workloads.pod_spec(command)
        # What this storm is about is what it prints and what is read of it; `noise-cpu` of `make chaos` is about CPU.
        spec["containers"][0]["resources"]["limits"]["cpu"] = _LOUD_CPU
        pod = workloads.pod(name, spec, namespace=storm.namespace, labels={_MARK: "yes"})
        await storm.does(storm.client.create(kinds.PODS, pod))
    while True:
        path = f"{kinds.PODS.path(storm.namespace, name, 'log')}?tailLines=5000"
        await storm.does(storm.client.get_raw(path, timeout=10.0))


STORMS: Mapping[str, Callable[[Storm, int], Awaitable[None]]] = {
    "objects": _objects,
    "watches": _watches,
    "lists": _lists,
    "pods": _pods,
    "webhooks": _webhooks,
    "never-fits": _never,
    "logs": _logs,
}


@asynccontextmanager
async def storming(storm: Storm, name: str) -> AsyncIterator[None]:
    """Storm for the duration of a block, and remove what it created."""
    tasks = [asyncio.ensure_future(STORMS[name](storm, worker)) for worker in range(_WRITERS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(KubeError):
            await storm.client.delete(kinds.VALIDATING_WEBHOOKS, _MARK)
        for r in (kinds.PODS, kinds.CONFIG_MAPS):
            await _emptied(storm, r)


async def _emptied(storm: Storm, r: Resource) -> None:
    for _ in range(120):
        with suppress(KubeError):
            query = {"labelSelector": f"{_MARK}=yes", "gracePeriodSeconds": "0"}
            await storm.client.transport.request("DELETE", r.path(storm.namespace), params=query, timeout=60.0)
            if not (await storm.client.list_metadata(r, storm.namespace, label_selector=f"{_MARK}=yes")).items:
                return
        await asyncio.sleep(_PAUSE_SECONDS)


async def _main() -> None:
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    order = json.loads(await reader.readline())
    client = Client(prober.decode(order["config"]), user_agent="storm", field_manager="storm", timeout=20.0, connections=64)
    async with client:
        storm = Storm(client, order["namespace"], order["whole"])
        async with storming(storm, order["storm"]):
            print("storming", flush=True)
            await reader.read()
            done = f"{storm.count} done, {storm.refused} refused"
        print(done, flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
