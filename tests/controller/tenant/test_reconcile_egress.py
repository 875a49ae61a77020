"""A tenant whose class opens every address, on a real API server: what its policies say as servers of the host come and go."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from ipaddress import ip_address

import pytest

from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from tests.controller.plane.test_egress import opens
from tests.kit import lag
from tests.kit.controllerhost import ControllerHost, ask, take_down
from tests.kit.crds import install
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
OUTWARD = {"isolation": {"network": {"egressCIDRs": ["0.0.0.0/0", "::/0"]}}}
VOLUME = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "persistentVolumeReclaimPolicy": "Retain"}
CSI = {"driver": "nfs.csi.k8s.io", "volumeHandle": "h", "volumeAttributes": {"server": "fd00:5::9", "share": "/"}}

MADE = (
    *((kinds.PERSISTENT_VOLUMES, name) for name in ("one", "two", "three")),
    *((kinds.SHARED_VOLUMES, name) for name in ("data", "named")),
    *((kinds.TENANT_CLASSES, name) for name in ("audited", "outward")),
    (kinds.STORAGE_CLASSES, "nfs"),
)


@pytest.fixture
async def client(host_client: Client) -> AsyncIterator[Client]:
    """A host with such a class; every other tenant there would be closed to the servers of a test, which go at its end."""
    await install(host_client)
    await host_client.apply(kinds.TENANT_CLASSES, tenant_class(**OUTWARD) | {"metadata": {"name": "outward"}})
    yield host_client
    for resource, name in MADE:
        with contextlib.suppress(NotFound):
            await host_client.patch(resource, name, {"metadata": {"finalizers": None}})  # the API server's own, of volumes
            await host_client.delete(resource, name)


async def opened(client: Client, world: ControllerHost, name: str, *addresses: str) -> list[str]:
    """Which of these addresses the tenant's policies open, once what the controller has seen was rendered."""

    async def seen() -> bool:
        return all(await asyncio.gather(*map(lag.caught_up, world.ranges._informers)))

    await until(seen, "the ranges to be what the host has")
    await world.settle(name)
    found = (await client.list(kinds.NETWORK_POLICIES, f"bh-{name}-work")).items
    peers = [peer for each in found for rule in each["spec"].get("egress") or [] for peer in rule.get("to") or []]
    blocks = [peer for peer in peers if "ipBlock" in peer]
    return [each for each in addresses if any(opens(block, ip_address(each)) for block in blocks)]


def storage_closed(tenant: Obj) -> tuple[str, str]:
    found = condition_of(tenant, "StorageClosed")
    return str(found.get("status")), str(found.get("message"))


async def test_a_server_is_closed_to_tenants_from_when_the_host_has_it_until_the_last_volume_is_gone(client: Client) -> None:
    await ask(client, "outward", **{"class": "outward"})
    servers = ("198.51.100.10", "198.51.100.11", "198.51.100.12", "198.51.100.13", "fd00:5::9")
    outside = "198.51.100.7"
    async with ControllerHost(client) as world:
        # Of none is anything known yet.
        assert await opened(client, world, "outward", *servers, outside) == [*servers, outside]
        for name, source in (
            ("one", {"nfs": {"server": "198.51.100.10", "path": "/a"}}),
            ("two", {"nfs": {"server": "198.51.100.10", "path": "/b"}}),
            ("three", {"csi": CSI}),
        ):
            await client.create(kinds.PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": VOLUME | source})
        parameters = {"server": "198.51.100.11", "share": "/"}
        await client.create(
            kinds.STORAGE_CLASSES, {"metadata": {"name": "nfs"}, "provisioner": "nfs.csi.k8s.io", "parameters": parameters}
        )
        shared = {"nfs": {"server": "198.51.100.12", "path": "/export"}, "classes": ["outward"]}
        await client.apply(kinds.SHARED_VOLUMES, {"metadata": {"name": "data"}, "spec": shared})
        webhook = {
            "url": "https://audit.example.org/{tenant}", "address": "198.51.100.13", "secretName": "audit",
            "certificateAuthority": "-----BEGIN CERTIFICATE-----",
        }  # fmt: skip
        audited = tenant_class(audit={"sink": "Webhook", "webhook": webhook})
        await client.apply(kinds.TENANT_CLASSES, audited | {"metadata": {"name": "audited"}})
        assert await opened(client, world, "outward", *servers, outside) == [outside]
        await client.delete(kinds.PERSISTENT_VOLUMES, "one")
        await client.delete(kinds.SHARED_VOLUMES, "data")
        assert await opened(client, world, "outward", *servers, outside) == ["198.51.100.12", outside]
        await take_down(world, "outward")


async def test_a_server_with_a_name_alone_is_told_until_it_has_an_address(client: Client) -> None:
    await ask(client, "hopeful", **{"class": "outward"})
    async with ControllerHost(client) as world:
        await opened(client, world, "hopeful")
        assert storage_closed(await client.get(kinds.TENANTS, "hopeful")) == ("None", "None")
        shared = {"nfs": {"server": "nfs.example.org", "path": "/export"}, "classes": ["outward"]}
        await client.apply(kinds.SHARED_VOLUMES, {"metadata": {"name": "named"}, "spec": shared})
        await opened(client, world, "hopeful")
        status, message = storage_closed(await client.get(kinds.TENANTS, "hopeful"))
        assert status == "False"
        assert "nfs.example.org" in message
        found = await client.get(kinds.SHARED_VOLUMES, "named")
        found["spec"]["nfs"]["server"] = "198.51.100.20"
        await client.replace(kinds.SHARED_VOLUMES, found)
        assert await opened(client, world, "hopeful", "198.51.100.20") == []
        assert storage_closed(await client.get(kinds.TENANTS, "hopeful")) == ("None", "None")
        await take_down(world, "hopeful")
