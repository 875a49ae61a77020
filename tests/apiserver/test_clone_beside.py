"""A clone and its live original on one host, each with its syncer: nothing on the host is shared, adopted or ended.

host ──< syncer of red ── red (etcd, API server, controller manager)
     └─< syncer of the clone ── the clone, of a store that was copied while red's pods ran
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from controller.plane.sections import Cloned, Restoring
from controller.plane.spec import API_SERVER
from tests.kit.filling import Filling
from tests.kit.planeprocess import ETCD, KCM, PlaneProcesses
from tests.kit.storecopy import store_of
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
# The slice that the bed gives to a tenant, and another one.
RED: Final = plane_spec(tenant="red", identity="99999999-8888-7777-6666-555555555555", service_slice="10.112.0.0/22")
RED2: Final = plane_spec(tenant="red2", identity="22222222-8888-7777-6666-555555555555", service_slice="10.112.64.0/22")
UID: Final = "11111111-2222-3333-4444-555555555555"
CLUSTER: Final = "33333333-2222-3333-4444-555555555555"
ADDRESSES: Final = {
    "dnsAddress": "10.112.64.10",
    "apiAddress": "10.112.64.1",
    "shimAddress": "10.112.64.11",
    "publicAddress": "10.112.64.12",
    "serviceSlice": RED2.service_slice,
}
MIRRORED: Final = (kinds.PODS, kinds.PERSISTENT_VOLUME_CLAIMS, kinds.SERVICES, kinds.SECRETS, kinds.CONFIG_MAPS)


def client_of(plane: PlaneProcesses) -> Client:
    return Client(plane.admin, user_agent="tests", field_manager="tests")


async def started(plane: PlaneProcesses) -> None:
    plane.start(ETCD, API_SERVER)
    await asyncio.to_thread(plane.wait)
    # It gives up on an API server that needs longer than 30 s.
    plane.start(KCM)


async def on_host(host: Client, work: str) -> dict[str, str]:
    found = {}
    for kind in MIRRORED:
        for obj in (await host.list(kind, work)).items:
            # The host's own controllers have none of these here.
            found[f"{kind.kind} {obj['metadata']['name']}"] = str(obj["metadata"]["uid"])
    return found


async def pods(client: Client, namespace: str, count: int) -> list[Obj]:
    async def there() -> list[Obj] | None:
        found = (await client.list(kinds.PODS, namespace)).items
        return found if len(found) == count else None

    made: list[Obj] = await until(there, f"{count} pods in {namespace}")
    return made


async def fill_in(plane: Client, space: str) -> None:
    async def has_account() -> bool:
        return bool((await plane.list(kinds.SERVICE_ACCOUNTS, space)).items)

    await until(has_account, "the service account of the namespace")
    meta = {"namespace": space}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "main", "image": "busybox:1.36", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }
    wanted = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    await plane.create(
        kinds.SERVICES, {"metadata": meta | {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    )
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await plane.create(kinds.PERSISTENT_VOLUME_CLAIMS, {"metadata": meta | {"name": "data"}, "spec": claim})
    await plane.create(kinds.DEPLOYMENTS, {"metadata": meta | {"name": "web"}, "spec": wanted})
    await plane.create(
        kinds.PODS, {"metadata": meta | {"name": "alone"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    )


@contextlib.asynccontextmanager
async def cloned(red: PlaneProcesses, folder: Path) -> AsyncIterator[PlaneProcesses]:
    """The clone of a plane that runs, as it is now."""
    store = await store_of(red)
    plane = PlaneProcesses(folder, RED2)
    filling = Filling(plane, Restoring(UID, len(store), 1_000_000_000, cloned=Cloned(RED.service_slice, CLUSTER, slurm=False)))
    filling.keys.mkdir()
    (filling.keys / "from").write_text(red.keys.encryption_key)
    (filling.keys / "to").write_text(plane.keys.encryption_key)

    async def chunks() -> AsyncIterator[bytes]:
        yield store

    try:
        filling.start()
        await filling.send(chunks())
        await filling.filled()
        filling.stop()
        await started(plane)
        yield plane
    finally:
        filling.stop(signal.SIGKILL)
        plane.stop()


async def test_no_pod_volume_or_service_of_the_host_is_shared(host_client: Client, tmp_path: Path) -> None:
    red = PlaneProcesses(tmp_path / "red", RED)
    try:
        await started(red)
        with contextlib.suppress(AlreadyExists):
            await host_client.create(
                kinds.SERVICE_CIDRS, {"metadata": {"name": "clone"}, "spec": {"cidrs": [RED2.service_slice]}}
            )
        async with client_of(red) as inside, SyncerBed.open(host_client, inside, tenantUID=RED.identity) as bed:
            await fill_in(inside, bed.space)
            for pod in await pods(host_client, bed.work, 3):
                await bed.bind(pod)
            await bed.copied(kinds.PERSISTENT_VOLUME_CLAIMS, "data")
            await bed.copied(kinds.SERVICES, "web")
            await bed.idle()
            before = await on_host(host_client, bed.work)
            virtual = {pod["metadata"]["uid"] for pod in await pods(inside, bed.space, 3)}
            assert all(pod["spec"].get("nodeName") for pod in await pods(inside, bed.space, 3))
            async with (
                cloned(red, tmp_path / "red2") as red2,
                client_of(red2) as own,
                SyncerBed.open(host_client, own, tenantUID=RED2.identity, **ADDRESSES) as bed2,
            ):
                mirrors = await pods(host_client, bed2.work, 2)
                await bed2.patrolled()
                await bed.patrolled()
                after = await on_host(host_client, bed2.work)
                assert not set(before.values()) & set(after.values())
                # The original is as it was, whatever both syncers have compared.
                assert await on_host(host_client, bed.work) == before
                # Pods of the clone are others, on no node of the original; claims have no volume of it.
                assert {pod["metadata"]["uid"] for pod in await pods(own, bed.space, 2)}.isdisjoint(virtual)
                assert all("nodeName" not in pod["spec"] for pod in mirrors)
                (claim,) = (await host_client.list(kinds.PERSISTENT_VOLUME_CLAIMS, bed2.work)).items
                assert "volumeName" not in claim["spec"]
                (theirs,) = (await host_client.list(kinds.SERVICES, bed.work)).items
                (ours,) = (await host_client.list(kinds.SERVICES, bed2.work)).items
                assert ip_address(ours["spec"]["clusterIP"]) in ip_network(RED2.service_slice)
                assert ip_address(theirs["spec"]["clusterIP"]) in ip_network(RED.service_slice)
                assert {node["metadata"]["name"] for node in (await own.list(kinds.NODES)).items} == {bed2.node}
            # The clone is gone, and the original still is as it was.
            await bed.patrolled()
            assert await on_host(host_client, bed.work) == before
            assert {pod["metadata"]["uid"] for pod in await pods(inside, bed.space, 3)} == virtual
    finally:
        red.stop()
