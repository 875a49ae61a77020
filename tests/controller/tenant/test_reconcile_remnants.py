"""A tenant goes, though another Service of the host has an address in its slice, on a real API server.

The server gives addresses and checks them; a stand-in for the host's controller of ServiceCIDRs lets them go by its rule.
"""

import asyncio
from ipaddress import ip_address, ip_network

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Unprocessable
from controller.decide.remnant import remnant_of
from tests.kit.controllerhost import ControllerHost, ask, finish_namespaces, take_down
from tests.kit.presence import is_gone
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]

FINALIZER = "networking.k8s.io/service-cidr-finalizer"


async def test_a_service_keeps_its_address_and_its_slices_tenant_goes(client: Client) -> None:
    async with ControllerHost(client) as world:
        await ask(client, "leaving")
        await world.settle("leaving")
        (cidr,) = (await client.get(kinds.SERVICE_CIDRS, "bh-leaving"))["spec"]["cidrs"]
        await client.patch(kinds.SERVICE_CIDRS, "bh-leaving", {"metadata": {"finalizers": [FINALIZER]}})
        address = str(ip_network(cidr)[200])
        await service_at(client, "settler", address)
        await client.delete(kinds.TENANTS, "leaving")

        async def gone() -> bool:
            await world.reconciler.reconcile("leaving")
            await finish_namespaces(client, "leaving")
            await let_one_go(client)
            return await is_gone(client, kinds.TENANTS, "leaving")

        await until(gone, "the Tenant to go")
        assert await is_gone(client, kinds.SERVICE_CIDRS, "bh-leaving")
        (left,) = (await client.list(kinds.SERVICE_CIDRS, label_selector=f"{labels.LEFT_BY}=leaving")).items
        assert left["spec"]["cidrs"] == [cidr]
        assert left["metadata"]["deletionTimestamp"]
        assert (await client.get(kinds.SERVICES, "settler", "default"))["spec"]["clusterIP"] == address
        # The host keeps it for the Service, and the next tenant gets another slice.
        await let_one_go(client)
        await ask(client, "following")
        await world.settle("following")
        assert (await client.get(kinds.SERVICE_CIDRS, "bh-following"))["spec"]["cidrs"] != [cidr]
        await take_down(world, "following")
        await client.delete(kinds.SERVICES, "settler", "default")

        async def kept_for_none() -> bool:
            await let_one_go(client)
            return await is_gone(client, kinds.SERVICE_CIDRS, left["metadata"]["name"])

        await until(kept_for_none, "the remnant to go with the last address in it")


async def test_a_remnant_of_a_plane_that_was_kept_is_ended_though_the_controller_died(client: Client) -> None:
    """A Tenant that is being deleted is looked at again; a plane that is kept without one is not, once its slice is gone."""
    made = {"metadata": {"name": "bh-kept", "labels": labels.made_for("kept")}, "spec": {"cidrs": ["10.127.248.0/22"]}}
    left = await client.create(kinds.SERVICE_CIDRS, remnant_of(made))
    async with ControllerHost(client) as world:
        await ask(client, "newcomer")
        await world.settle("newcomer")
        assert (await client.get(kinds.SERVICE_CIDRS, left["metadata"]["name"]))["metadata"]["deletionTimestamp"]
        await let_one_go(client)
        await take_down(world, "newcomer")
    assert await is_gone(client, kinds.SERVICE_CIDRS, left["metadata"]["name"])


async def service_at(client: Client, name: str, address: str) -> None:
    """A Service of the host with this address, once the API server knows the range that it is from."""
    spec = {"clusterIP": address, "ports": [{"port": 80}]}
    service: Obj = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec}

    async def made() -> bool:
        try:
            await client.create(kinds.SERVICES, service)
        except Unprocessable:
            return False
        return True

    await until(made, f"the API server to give {address}")


async def let_one_go(client: Client) -> None:
    """The next step of the host's controller: of the ServiceCIDRs that are to go, the oldest that orphans no address goes."""
    listed = (await client.list(kinds.SERVICE_CIDRS)).items
    addresses = [ip_address(obj["metadata"]["name"]) for obj in (await client.list(kinds.IP_ADDRESSES)).items]
    leaving = [obj for obj in listed if obj["metadata"].get("deletionTimestamp")]
    for obj in sorted(leaving, key=lambda obj: str(obj["metadata"]["deletionTimestamp"])):
        own = ip_network(obj["spec"]["cidrs"][0])
        others = [ip_network(other["spec"]["cidrs"][0]) for other in listed if other is not obj]
        if any(own == other for other in others) or not any(address in own for address in addresses):
            await client.patch(kinds.SERVICE_CIDRS, obj["metadata"]["name"], {"metadata": {"finalizers": None}})
            return
    await asyncio.sleep(0.02)
