"""Labels and taints that a tenant puts on its nodes, and where its pods go then, between two real API servers."""

from typing import Any

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import NODES
from tests.kit.syncerbed import SyncerBed, until

MINE = "tenant.example/color"
TAINT = {"key": "tenant.example/repair", "value": "yes", "effect": "NoSchedule"}


@pytest.fixture
async def bed(bed: SyncerBed) -> SyncerBed:
    await shows(bed)
    return bed


async def shows(bed: SyncerBed, *taints: str) -> None:
    """Wait for the virtual node with exactly these taints."""

    async def there() -> bool:
        node = await bed.virtual_node()
        if node is None:
            return False
        return bool(node.get("status", {}).get("allocatable")) and [
            each["key"] for each in node["spec"].get("taints") or ()
        ] == list(taints)

    await until(there, f"node with taints {taints}")


async def label(bed: SyncerBed, value: str | None) -> None:
    await bed.plane.patch(NODES, bed.node, {"metadata": {"labels": {MINE: value}}})


async def taint(client: Client, name: str, *taints: Obj) -> None:
    await client.patch(NODES, name, {"spec": {"taints": list(taints) or None}})


async def wishes(bed: SyncerBed, name: str, *fields: tuple[str, str]) -> Obj:
    """Wait for the host pod of one required term with exactly these fields, or of none."""

    async def made() -> Obj | None:
        host = await bed.mirror(name)
        if host is None:
            return None
        affinity: Any = (host["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [{}])
        found = [(each["operator"], each["values"][0]) for each in terms[0].get("matchFields", ())]
        return host if len(terms) == 1 and found == list(fields) and "deletionTimestamp" not in host["metadata"] else None

    found: Obj = await until(made, f"host pod of {name} with {fields}")
    return found


async def test_item_37_a_pod_that_asks_for_a_label_of_the_tenants_own_goes_where_that_is(bed: SyncerBed) -> None:
    await bed.create(bed.pod("web", nodeSelector={MINE: "blue"}))
    first = await wishes(bed, "web")
    assert first["spec"]["nodeSelector"][MINE] == "blue"
    await label(bed, "blue")
    second = await wishes(bed, "web", ("In", bed.node))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert MINE not in (second["spec"].get("nodeSelector") or {})
    await bed.create(bed.pod("other", nodeSelector={MINE: "green"}))
    other = await wishes(bed, "other")
    assert other["spec"]["affinity"]["nodeAffinity"]
    await bed.stop()
    await label(bed, "green")
    await bed.start()
    await wishes(bed, "other", ("In", bed.node))
    await wishes(bed, "web")


async def test_item_37_a_pod_that_is_placed_stays_whatever_the_tenant_labels(bed: SyncerBed) -> None:
    await label(bed, "blue")
    await until(lambda: _known(bed), "the label is known")
    await bed.create(bed.pod("web", nodeSelector={MINE: "blue"}))
    placed = await wishes(bed, "web", ("In", bed.node))
    await bed.bind(placed)
    await label(bed, None)
    await bed.quiet()
    now = await bed.mirror("web")
    assert now is not None
    assert now["metadata"]["uid"] == placed["metadata"]["uid"]


async def test_item_59_a_taint_of_the_tenants_own_stays_beside_the_hosts_and_keeps_its_pods_away(bed: SyncerBed) -> None:
    hosts = {"key": "example.com/host", "effect": "NoSchedule"}
    await taint(bed.plane, bed.node, TAINT)
    await bed.quiet()
    await shows(bed, "tenant.example/repair")
    await bed.create(bed.pod("web"))
    await wishes(bed, "web", ("NotIn", bed.node))
    await bed.create(bed.pod("endures", tolerations=[{"key": "tenant.example/repair", "operator": "Exists"}]))
    await wishes(bed, "endures")
    await taint(bed.host, bed.node, hosts)
    await shows(bed, "example.com/host", "tenant.example/repair")
    node = await bed.plane.get(NODES, bed.node)
    assert node["metadata"]["annotations"][marks.HOST_TAINTS] == "example.com/host:NoSchedule"
    await taint(bed.plane, bed.node, TAINT)
    await shows(bed, "example.com/host", "tenant.example/repair")
    await bed.stop()
    await taint(bed.host, bed.node)
    await bed.start()
    await shows(bed, "tenant.example/repair")
    await taint(bed.plane, bed.node)
    await wishes(bed, "web")
    await bed.quiet()
    await shows(bed)


async def _known(bed: SyncerBed) -> bool:
    return bed.session is not None and bool(bed.session.caches.view().node_labels)
