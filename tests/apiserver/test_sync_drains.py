"""Drains of host nodes that disruption budgets hold up, on real API servers; the host's own controllers are played."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from bulkhead.api.conditions import timestamp
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.resources import NODES, POD_DISRUPTION_BUDGETS, PODS
from syncer.translate.kinds.drain import DRAINED
from tests.kit.syncerbed import SyncerBed, until

pytestmark = pytest.mark.apiserver
REFUSED = {"kubectl.kubernetes.io/default-container": "x" * 300}
LONG = timedelta(hours=2)


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    async with SyncerBed.open(host_client, plane_client) as opened:
        yield opened


async def cordon(bed: SyncerBed, ago: timedelta, node: str = "") -> None:
    """What `kubectl cordon` and the host's node controller write."""
    taint = {
        "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": timestamp(datetime.now(UTC) - ago),
    }  # fmt: skip
    await bed.host.patch(NODES, node or bed.node, {"spec": {"unschedulable": True, "taints": [taint]}})


async def uncordon(bed: SyncerBed, node: str = "") -> None:
    await bed.host.patch(NODES, node or bed.node, {"spec": {"unschedulable": None, "taints": None}})


def web(bed: SyncerBed, name: str) -> Obj:
    pod = bed.pod(name)
    pod["metadata"]["labels"] = {"app": "web"}
    return pod


async def guard(bed: SyncerBed, name: str = "web", **spec: object) -> None:
    body = {"selector": {"matchLabels": {"app": "web"}}} | (spec or {"minAvailable": 2**31 - 1})
    await bed.plane.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": name}, "spec": body}, bed.space)


async def keeps(bed: SyncerBed, number: int, name: str = "web") -> None:
    async def right() -> bool:
        found = await bed.copy(POD_DISRUPTION_BUDGETS, name)
        return found is not None and found["spec"]["minAvailable"] == number

    await until(right, f"{name} to keep {number} on the host")


async def drained(bed: SyncerBed, *names: str) -> None:
    """Wait until the host pods of just these have left their budgets."""

    async def right() -> bool:
        pods = await bed.host_pods()
        found = {each["metadata"]["name"] for each in pods if DRAINED in each["metadata"]["labels"]}
        return found == {bed.host_name("Pod", name) for name in names}

    await until(right, f"pods without budgets: {names}")


async def evict(bed: SyncerBed, name: str) -> str:
    """What `kubectl drain` asks for; returns why not. A real host's API server counts budgets as it reads them."""
    host = bed.host_name("Pod", name)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": host}}
    try:
        await bed.host.create_subresource(PODS, host, "eviction", body, bed.work)
    except ApiError as error:
        return str(error)
    return ""


async def test_a_budget_keeps_no_more_than_there_is_and_no_longer_than_the_deadline(bed: SyncerBed) -> None:
    other = f"other-{bed.tenant}"
    await bed.make_node(other)
    await guard(bed)
    for name, node in (("a", bed.node), ("b", bed.node), ("c", other)):
        await bed.create(web(bed, name))
        host = await bed.mirrored(name)
        await bed.bind(host, node)
        await bed.run(host)
    await keeps(bed, 3)
    assert "disruption budget" in await evict(bed, "a")
    # An hour is not over yet.
    await cordon(bed, timedelta(minutes=5))
    await bed.idle()
    await drained(bed)
    assert "disruption budget" in await evict(bed, "a")
    await uncordon(bed)
    await cordon(bed, LONG)
    await drained(bed, "a", "b")
    await keeps(bed, 1)
    assert await evict(bed, "a") == ""
    await bed.kubelet_ends(await bed.mirrored("a"))
    # What is on other nodes is kept as before.
    assert "disruption budget" in await evict(bed, "c")
    event = await bed.event("b", bed.node, "budgets (web)", "3600 s", reason="DrainDeadline")
    assert event["type"] == "Warning"
    await uncordon(bed)
    await drained(bed)
    await keeps(bed, 2)
    assert "disruption budget" in await evict(bed, "b")


async def test_a_pod_of_two_budgets_fails_a_drain_until_the_deadline(bed: SyncerBed) -> None:
    """`kubectl drain` ends with the API server's words, which docs/troubleshooting.md quotes."""
    await guard(bed)
    await guard(bed, "web2", maxUnavailable=1)
    await bed.running("a", web(bed, "a"))
    await bed.plane.patch(
        POD_DISRUPTION_BUDGETS,
        "web2",
        {"status": {"observedGeneration": 1, "desiredHealthy": 0}},
        bed.space,
        subresource="status",
    )
    await keeps(bed, 0, "web2")
    await keeps(bed, 1)
    assert "This pod has more than one PodDisruptionBudget" in await evict(bed, "a")
    await cordon(bed, LONG)
    await drained(bed, "a")
    assert await evict(bed, "a") == ""


async def test_what_comes_to_a_drained_node_leaves_its_budget_too_and_a_restart_changes_nothing(bed: SyncerBed) -> None:
    await guard(bed)
    await cordon(bed, LONG)
    await bed.idle()
    await bed.running("late", web(bed, "late"))
    await drained(bed, "late")
    before = (await bed.mirrored("late"))["metadata"]["resourceVersion"]
    await bed.stop()
    await bed.start()
    await bed.idle()
    await bed.patrolled()
    assert (await bed.mirrored("late"))["metadata"]["resourceVersion"] == before
    # Uncordoned while no syncer runs.
    await bed.stop()
    await uncordon(bed)
    await bed.start()
    await drained(bed)
    # A label of the tenant's own is another one.
    await bed.plane.patch(PODS, "late", {"metadata": {"labels": {DRAINED: "true"}}}, bed.space)
    await bed.idle()
    await drained(bed)


async def test_budgets_hold_for_as_long_as_the_class_says(host_client: Client, plane_client: Client) -> None:
    async with SyncerBed.open(host_client, plane_client, drainSeconds=-1) as bed:
        await guard(bed)
        await bed.running("a", web(bed, "a"))
        await cordon(bed, timedelta(days=900))
        await bed.idle()
        await drained(bed)
        assert "disruption budget" in await evict(bed, "a")
    async with SyncerBed.open(host_client, plane_client, drainSeconds=3) as bed:
        await guard(bed)
        await bed.running("a", web(bed, "a"))
        await cordon(bed, timedelta(0))
        # Nothing happens on the host when the deadline passes.
        await drained(bed, "a")
        assert await evict(bed, "a") == ""


async def test_a_pod_that_no_longer_translates_holds_up_no_drain(bed: SyncerBed) -> None:
    await guard(bed)
    await bed.running("a", web(bed, "a"))
    await bed.plane.patch(PODS, "a", {"metadata": {"annotations": REFUSED}}, bed.space)
    await bed.event("a", "metadata.annotations")
    await cordon(bed, LONG)
    await drained(bed, "a")
