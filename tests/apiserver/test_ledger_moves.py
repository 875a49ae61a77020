"""Pods make room for a larger one where their cohort says so, with a real scheduler: what is moved runs again elsewhere."""

import json

from bulkhead.api import labels, ledger, names
from bulkhead.api.objects import Obj
from bulkhead.kube.resources import COHORTS, PODS
from controller.dispatch.loop import Ledger
from tests.kit.background import background
from tests.kit.leading import leading
from tests.kit.ledgerhost import LedgerHost, Watched, leads
from tests.kit.syncerbed import until

_OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}]


async def runs(host: LedgerHost, tenant: str, name: str, node: str = "") -> Obj:
    async def so() -> Obj | None:
        pod = await host.get(tenant, name)
        running = pod is not None and pod.get("status", {}).get("phase") == "Running"
        return pod if running and pod is not None and node in {"", pod["spec"]["nodeName"]} else None

    found: Obj = await until(so, f"{name} of {tenant} runs on {node or 'a node'}")
    return found


def owned(host: LedgerHost, tenant: str, name: str) -> Obj:
    """A pod that something in the plane makes again."""
    pod = host.pod(tenant, name, 4)
    pod["metadata"]["annotations"][labels.VIRTUAL_OWNERS] = json.dumps(_OWNER)
    return pod


async def broken(host: LedgerHost, tenant: str) -> tuple[str, str]:
    """Two nodes, each with a pod that takes half of it."""
    space = names.work_namespace(tenant)
    first = await host.node("n0")
    await host.client.create(PODS, owned(host, tenant, "one"), space)
    await host.run(tenant, "full", 4)
    for name in ("one", "full"):
        await runs(host, tenant, name, first)
    second = await host.node("n1")
    await host.client.create(PODS, owned(host, tenant, "two"), space)
    await runs(host, tenant, "two", second)
    await host.client.delete(PODS, "full", space)

    async def gone() -> bool:
        return await host.get(tenant, "full") is None

    await until(gone, "half of the first node is free")
    return first, second


async def test_a_pod_moves_where_the_cohort_says_so_and_nowhere_else(ledger_host: LedgerHost) -> None:
    host = ledger_host
    cohort = await host.cohort("still", reclaim={"minRuntime": "0s"})
    team = await host.tenant("team", 16, cohort, ceiling=64)
    space = names.work_namespace(team)
    async with leading(Ledger(host.client, leads)):
        nodes = await broken(host, team)
        await host.run(team, "large", 8)
        message = await host.told(team, "large", "NoCapacity")
        assert message.endswith("are free there, at most 4 on one node")
        assert not [pod for pod in await host.pods(team) if ledger.RECLAIM in pod["metadata"]["annotations"]]
        went: list[str] = []
        async with Watched(host.client, most={space: 16}, room=dict.fromkeys(nodes, 8)).watching():
            version = (await host.client.list(PODS, space)).resource_version
            async with background(_made_again(host, team, version, went)):
                await host.client.patch(COHORTS, cohort, {"spec": {"consolidation": {"policy": "WhenBroken"}}})
                large = await runs(host, team, "large")
                (other,) = set(nodes) - {large["spec"]["nodeName"]}
                (moved,) = await until(lambda: _copy(went), "the test to see which pod went")
                for name in ({"one", "two"} - {moved}) | {f"{moved}-again"}:
                    await runs(host, team, name, other)
    assert len(went) == 1, "one of the two"


async def _made_again(host: LedgerHost, tenant: str, version: str, went: list[str]) -> None:
    """Recreates a pod, with a note that says why, as soon as the former one is gone."""
    space = names.work_namespace(tenant)
    async for event in host.client.watch(PODS, space, resource_version=version, timeout_seconds=3600):
        meta = {} if event.type == "BOOKMARK" else event.object()["metadata"]
        if event.type != "DELETED" or meta["name"] not in {"one", "two"}:
            continue
        note = ledger.read_reclaim(meta["annotations"])
        assert note is not None
        assert note.cause == "Consolidated"
        assert note.message.startswith("it makes room for a larger workload")
        went.append(meta["name"])
        # Under another name, as a ReplicaSet does: kwok deletes by name, even if another pod has the name by then.
        await host.client.create(PODS, owned(host, tenant, f"{meta['name']}-again"), space)


async def _copy(names: list[str]) -> list[str]:
    return list(names)
