"""Cordons of host and tenant on one node, and where pods go then, between two real API servers."""

import json
from typing import Any

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import NODES, PODS
from tests.kit.syncerbed import SyncerBed, until


@pytest.fixture
async def bed(bed: SyncerBed) -> SyncerBed:
    await shows(bed, cordoned=False)
    return bed


async def cordon(client: Client, name: str, wish: bool) -> None:
    """What `kubectl cordon` and `kubectl uncordon` write."""
    await client.patch(NODES, name, {"spec": {"unschedulable": wish or None}})


async def shows(bed: SyncerBed, *, cordoned: bool, by_host: bool = False) -> None:
    async def there() -> bool:
        node = await bed.virtual_node()
        if node is None:
            return False
        note = (node["metadata"].get("annotations") or {}).get(marks.CORDONED_BY)
        settled = node.get("status", {}).get("allocatable") and not node["spec"].get("taints")
        return bool(settled) and (node["spec"].get("unschedulable", False), note == "host") == (cordoned, by_host)

    await until(there, f"node cordoned={cordoned}, by the host alone={by_host}")


def avoids(host: Obj) -> list[str]:
    affinity: Any = (host["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [{}])
    return [field["values"][0] for field in terms[0].get("matchFields", ()) if field["operator"] == "NotIn"]


async def mirrored(bed: SyncerBed, name: str, *away: str) -> Obj:
    """The host pod that avoids exactly these nodes."""

    async def made() -> Obj | None:
        host = await bed.mirror(name)
        return host if host is not None and avoids(host) == list(away) else None

    found: Obj = await until(made, f"host pod of {name} without {away}")
    return found


async def test_item_58_a_hosts_cordon_comes_and_goes_with_the_host(bed: SyncerBed) -> None:
    await cordon(bed.host, bed.node, True)
    await shows(bed, cordoned=True, by_host=True)
    await cordon(bed.plane, bed.node, False)
    await shows(bed, cordoned=True, by_host=True)
    await bed.stop()
    await cordon(bed.host, bed.node, False)
    await bed.start()
    await shows(bed, cordoned=False)


async def test_item_58_a_tenants_cordon_outlives_the_hosts(bed: SyncerBed) -> None:
    await cordon(bed.plane, bed.node, True)
    for _ in range(2):
        await cordon(bed.host, bed.node, True)
        await bed.quiet()
        await shows(bed, cordoned=True)
        await cordon(bed.host, bed.node, False)
        await bed.quiet()
        await shows(bed, cordoned=True)
    await bed.stop()
    await bed.start()
    await bed.quiet()
    await shows(bed, cordoned=True)
    await cordon(bed.plane, bed.node, False)
    await bed.quiet()
    await shows(bed, cordoned=False)


async def test_item_58_a_tenant_that_uncordons_under_a_hosts_cordon_is_taken_at_its_word(bed: SyncerBed) -> None:
    await cordon(bed.plane, bed.node, True)
    await cordon(bed.host, bed.node, True)
    await bed.quiet()
    await cordon(bed.plane, bed.node, False)
    await shows(bed, cordoned=True, by_host=True)
    await bed.plane.patch(NODES, bed.node, {"metadata": {"annotations": {marks.CORDONED_BY: "\u0000nobody"}}})
    await cordon(bed.plane, bed.node, False)
    await shows(bed, cordoned=True, by_host=True)
    await cordon(bed.host, bed.node, False)
    await shows(bed, cordoned=False)


async def test_item_37_58_pods_avoid_a_node_that_the_tenant_cordoned_but_for_those_that_endure_it(bed: SyncerBed) -> None:
    await cordon(bed.plane, bed.node, True)
    await bed.quiet()
    await bed.create(bed.pod("web"))
    assert avoids(await bed.mirrored("web")) == [bed.node]
    endures = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    await bed.create(bed.pod("agent", tolerations=[endures]))
    assert avoids(await bed.mirrored("agent")) == []
    await bed.create(bed.pod("here", nodeName=bed.node))
    assert avoids(await bed.mirrored("here")) == []
    await cordon(bed.host, bed.node, True)
    await cordon(bed.plane, bed.node, False)
    await shows(bed, cordoned=True, by_host=True)
    await mirrored(bed, "web")


async def test_item_37_a_pod_that_waits_follows_the_cordons_and_one_that_is_placed_stays(bed: SyncerBed) -> None:
    placed = await bed.running("placed")
    await bed.create(bed.pod("waiting"))
    first = await mirrored(bed, "waiting")
    virtual = await bed.virtual("waiting")
    await cordon(bed.plane, bed.node, True)
    second = await mirrored(bed, "waiting", bed.node)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    await bed.quiet()
    now = await bed.mirror("placed")
    assert now is not None
    assert now["metadata"]["uid"] == placed["metadata"]["uid"]
    assert now["metadata"]["generation"] == 1
    await bed.stop()
    await cordon(bed.plane, bed.node, False)
    await bed.start()
    await mirrored(bed, "waiting")
    waiting = await bed.virtual("waiting")
    assert virtual is not None
    assert waiting is not None
    assert waiting["metadata"]["uid"] == virtual["metadata"]["uid"]


async def test_item_37_72_a_waiting_pod_that_the_host_holds_or_has_just_placed_is_left_alone(bed: SyncerBed) -> None:
    await bed.create(bed.pod("held"))
    held = await bed.mirrored("held")
    note = {"metadata": {"finalizers": ["example.com/queue"]}}
    await bed.host.patch(PODS, held["metadata"]["name"], note, bed.work)
    await bed.create(bed.pod("late"))
    late = await bed.mirrored("late")
    await bed.stop()
    await cordon(bed.plane, bed.node, True)
    await bed.bind(late)
    await bed.start()
    await bed.quiet()
    for name, before in (("held", held), ("late", late)):
        host = await bed.mirror(name)
        assert host is not None
        assert host["metadata"]["uid"] == before["metadata"]["uid"]
        assert "deletionTimestamp" not in host["metadata"]
    await bed.host.patch(PODS, held["metadata"]["name"], {"metadata": {"finalizers": None}}, bed.work)
    await mirrored(bed, "held", bed.node)


async def test_item_47_a_pod_that_finds_no_node_for_the_tenants_cordons_says_so(bed: SyncerBed) -> None:
    await cordon(bed.plane, bed.node, True)
    await bed.quiet()
    await bed.create(bed.pod("web"))
    host = await bed.mirrored("web")
    said = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    status = {"phase": "Pending", "conditions": [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    await bed.host.patch(PODS, host["metadata"]["name"], {"status": status}, bed.work, subresource="status")

    async def reported() -> bool:
        return f"cordoned in this cluster: {bed.node}" in json.dumps(await bed.condition("web"))

    await until(reported, "the cordon as a reason")
