"""Load balancers of tenants with MetalLB's own controller: an address, none left, another pool, an unserved class."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Resource
from controller.settings import Settings
from tests.kit.controllerhost import ControllerHost, ask, take_down
from tests.kit.crds import served
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until
from tests.ways.asking import certified, exposed, settles
from tests.ways.implementations import manifests, metallb

POOLS = Resource("metallb.io", "v1beta1", "ipaddresspools", "IPAddressPool", True)
NAMESPACE = "metallb-system"
BALANCED = {"exposure": {"type": "LoadBalancer"}}
INSTALLED = Settings(exposure_domains=("k8s.example.org",))
SECONDS = 60.0
FIRST = "198.51.100.1"


@pytest.fixture
async def pooled(client: Client, server: ApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    """A host with MetalLB and two pools, of one address each; only the first is given out without being named."""
    for each in manifests("metallb", "config/crd/bases"):
        await client.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, each)
    await served(client, POOLS)
    await client.apply(kinds.NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for name, address, automatic in (("first", FIRST, True), ("second", "203.0.113.9", False)):
        spec = {"addresses": [f"{address}/32"], "autoAssign": automatic}
        await client.apply(POOLS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    with metallb(server, tmp_path / "metallb", NAMESPACE):
        yield client


async def events(client: Client, namespace: str) -> str:
    return " ".join(str(each.get("message")) for each in (await client.list(kinds.EVENTS, namespace)).items)


async def test_an_address_comes_runs_out_comes_free_and_changes(pooled: Client) -> None:
    client = pooled
    async with ControllerHost(client, settings=INSTALLED) as world:
        await ask(client, "first", **BALANCED)
        tenant = await until(lambda: settles(world, "first", "True", FIRST), "the address", SECONDS)
        assert tenant["status"]["endpoint"] == f"https://{FIRST}:443"
        names, addresses = await certified(client, "first")
        assert FIRST in addresses
        assert "first.k8s.example.org" in names

        await ask(client, "second", **BALANCED)
        tenant = await until(lambda: settles(world, "second", "False", "WaitingForAddress"), "it waits", SECONDS)
        assert "kubectl -n bh-second describe service plane-public" in exposed(tenant)[2]

        async def told() -> bool:
            return "no available IPs" in await events(client, "bh-second")

        # What that command shows.
        await until(told, "MetalLB's own words in an event of the Service", SECONDS)
        assert tenant["status"]["endpoint"].startswith("https://10.112.")

        await take_down(world, "first")
        tenant = await until(lambda: settles(world, "second", "True", FIRST), "the address that came free", SECONDS)
        assert FIRST in (await certified(client, "second"))[1]
    moved = replace(INSTALLED, exposure_load_balancer_annotations='{"metallb.io/address-pool": "second"}')
    async with ControllerHost(client, settings=moved) as world:
        tenant = await until(lambda: settles(world, "second", "True", "203.0.113.9"), "the other pool's address", SECONDS)
        assert tenant["status"]["endpoint"] == "https://203.0.113.9:443"
        addresses = (await certified(client, "second"))[1]
        assert "203.0.113.9" in addresses
        assert FIRST not in addresses
        await take_down(world, "second")


async def test_a_class_that_no_controller_serves_is_named(pooled: Client) -> None:
    async with ControllerHost(pooled, settings=replace(INSTALLED, exposure_load_balancer_class="example.net/nobody")) as world:
        await ask(pooled, "classed", **BALANCED)
        tenant = await until(lambda: settles(world, "classed", "False", "WaitingForAddress"), "it waits", SECONDS)
        assert "a load balancer controller of class example.net/nobody on the host" in exposed(tenant)[2]
        await take_down(world, "classed")
