"""Nodes that become another tenant's alone, between two real API servers."""

from bulkhead.api import labels as marks
from bulkhead.kube.resources import NODES
from tests.kit.syncerbed import SyncerBed, until


async def test_item_58_a_node_looks_cordoned_while_it_empties_and_is_gone_when_it_is_anothers(bed: SyncerBed) -> None:
    async def cordoned(wanted: bool) -> bool:
        node = await bed.virtual_node()
        return node is not None and node["spec"].get("unschedulable", False) is wanted

    async def gone() -> bool:
        return await bed.virtual_node() is None

    await until(lambda: cordoned(False), "the open node")
    taint = {"key": marks.TENANT, "value": "another", "effect": "NoSchedule"}
    await bed.host.patch(NODES, bed.node, {"spec": {"taints": [taint]}})
    await until(lambda: cordoned(True), "the node to look cordoned")
    await bed.host.patch(NODES, bed.node, {"metadata": {"labels": {marks.TENANT: "another"}}})
    await until(gone, "the node to be shown no more")
    await bed.host.patch(NODES, bed.node, {"metadata": {"labels": {marks.TENANT: None}}, "spec": {"taints": None}})
    await until(lambda: cordoned(False), "the node to come back")
