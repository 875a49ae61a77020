"""A plane of one whose node is gone with its volume: its Tenant says so, and from which snapshot it can be restored."""

import asyncio
from datetime import UTC, datetime

import pytest

from bulkhead.api import names
from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.work.clock import SystemClock
from controller.host.snapshots import Snapshots
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.places import Places
from tests.kit import lag
from tests.kit.background import background
from tests.kit.controllerhost import ControllerHost, ask
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
TENANT, NODE = "stranded", "w3-of-stranded"
SPACE = names.plane_namespace(TENANT)
UNPLACED = "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."


async def whole(client: Client, name: str, identity: str, taken: str) -> None:
    """A TenantSnapshot that is stored."""
    body = {"apiVersion": names.API_VERSION, "kind": "TenantSnapshot", "metadata": {"name": name}, "spec": {"tenant": TENANT}}
    await client.create(kinds.TENANT_SNAPSHOTS, body)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Complete", "status": "True", "reason": "Stored", "message": "whole", "lastTransitionTime": now}
    status = {"conditions": [condition], "identity": identity, "startTime": taken}
    await client.patch(kinds.TENANT_SNAPSHOTS, name, {"status": status}, subresource="status")


async def pod(client: Client, component: Obj) -> None:
    """plane-0 without a node, as after its node was deleted, and the claim of its volume."""
    meta = {"namespace": SPACE, "labels": component}
    on_node = {"annotations": {"volume.kubernetes.io/selected-node": NODE}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await client.create(kinds.PERSISTENT_VOLUME_CLAIMS, {"metadata": meta | on_node | {"name": "data-plane-0"}, "spec": claim})
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    security |= {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    containers = [{"name": "etcd", "image": "x", "securityContext": security}]
    await client.create(kinds.PODS, {"metadata": meta | {"name": "plane-0"}, "spec": {"containers": containers}})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": UNPLACED}
    await client.patch(kinds.PODS, "plane-0", {"status": {"conditions": [condition]}}, SPACE, subresource="status")


async def test_a_plane_whose_node_is_gone_names_the_last_whole_snapshot_and_the_command(client: Client) -> None:
    requests = Snapshots(client, lambda _: None)
    tasks = SnapshotTasks(client, SystemClock(), Places())
    async with background(requests.run()), ControllerHost(client, snapshots=(requests, tasks)) as controller:
        await asyncio.wait_for(requests._informer.synced(), 60)
        await ask(client, TENANT)
        tenant = await controller.settle(TENANT)
        # It was built, and served before.
        await client.patch(kinds.TENANTS, TENANT, {"status": {"planeClusterUID": "u"}}, subresource="status")
        identity = tenant["status"]["planeIdentity"]
        template = (await client.get(kinds.STATEFUL_SETS, "plane", SPACE))["spec"]["template"]
        await pod(client, template["metadata"]["labels"])

        async def told() -> Obj:
            async def seen() -> bool:
                return await lag.caught_up(requests._informer)

            await until(seen, "the copies of TenantSnapshots")
            return dict(condition_of(await controller.settle(TENANT), "PlaneReady"))

        condition = await told()
        assert (condition["status"], condition["reason"]) == ("False", "NodeLost")
        assert f"the volume of plane-0 is on node {NODE}, which no longer exists" in condition["message"]
        assert "there is no whole snapshot of it" in condition["message"]
        await whole(client, "stranded-old", identity, "2026-06-01T10:00:00Z")
        await whole(client, "stranded-new", identity, "2026-06-01T12:00:00Z")
        await whole(client, "stranded-of-another", "00000000-8888-7777-6666-555555555555", "2026-06-02T12:00:00Z")
        message = str((await told())["message"])
        assert "the last whole snapshot is stranded-new of 2026-06-01T12:00:00Z" in message
        assert message.endswith(f"bulkhead tenant restore {TENANT} --from stranded-new --key FILE")
        # A node that is back and answers is not the cause.
        await client.create(kinds.NODES, {"metadata": {"name": NODE}})
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(kinds.NODES, NODE, {"status": ready}, subresource="status")
        assert (await told())["reason"] == "PodNotStarting"
        await client.delete(kinds.NODES, NODE)
        assert (await told())["reason"] == "NodeLost"
