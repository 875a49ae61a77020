"""Metering reads in claims what a real scheduler writes: the devices, since when, for which pod, and when they are released.

The scheduler and the controller of claims are real, the kubelet is kwok, the devices are in a ResourceSlice of the test.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import DEVICE_CLASSES, NAMESPACES, PODS, RESOURCE_CLAIMS
from bulkhead.metering.claimed import Claimed, claimed_of
from bulkhead.metering.held import held_of
from tests.kit.ledgerhost import GPU, LedgerHost
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until

SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
SPACE, DRIVER = "bh-devices-work", "gpu.example.com"
WHOLE, PART = "whole.example.com", "part.example.com"
MARK = {labels.SYNCED: labels.SYNCED_BY_SYNCER}


async def offer(client: Client, node: str) -> None:
    """Four devices on a node; of one class, which stands for GPUs, and of another one that none of them is of."""
    devices = [{"name": f"gpu-{number}", "attributes": {"kind": {"string": "whole"}}} for number in range(4)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec: Obj = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    await client.create(SLICES, {"metadata": {"name": "devices"}, "spec": spec})
    for name, more in ((WHOLE, {"extendedResourceName": GPU}), (PART, {})):
        chosen = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].kind == '{name.partition('.')[0]}'"
        body = {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": chosen}}]} | more}
        await client.create(DEVICE_CLASSES, body)


def pod(name: str, claim: str = "", gpus: int = 0) -> Obj:
    container: dict[str, Any] = {"name": "c", "image": "x"}
    spec: Obj = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if gpus:
        container["resources"] = {"limits": {GPU: str(gpus)}}
    if claim:
        container["resources"] = {"claims": [{"name": "d"}]}
        spec["resourceClaims"] = [{"name": "d", "resourceClaimName": claim}]
    return {"metadata": {"name": name, "labels": MARK}, "spec": spec}


class Claims:
    """The claims of one namespace as they are, and as metering reads them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, name: str, request: Obj) -> None:
        body = {"metadata": {"name": name, "labels": MARK}, "spec": {"devices": {"requests": [{"name": "r"} | request]}}}
        await self.client.create(RESOURCE_CLAIMS, body, SPACE)

    async def read(self, name: str) -> Claimed | None:
        return claimed_of(await self.client.get(RESOURCE_CLAIMS, name, SPACE))

    async def used_by(self, name: str, *pods: str) -> Claimed:
        """The claim, once it is reserved for just these."""
        uids = {(await self.client.get(PODS, each, SPACE))["metadata"]["uid"] for each in pods}

        async def so() -> Claimed | None:
            found = await self.read(name)
            return found if found is not None and set(found.users) == uids else None

        found = await until(so, f"claim {name} to be reserved for {pods}")
        assert found is not None
        return found

    async def free(self, name: str) -> None:
        async def so() -> bool:
            return await self.read(name) is None

        await until(so, f"claim {name} to have nothing")

    async def runs(self, name: str) -> Obj:
        async def so() -> Obj | None:
            found = await self.client.get(PODS, name, SPACE)
            return found if found.get("status", {}).get("phase") == "Running" else None

        found = await until(so, f"pod {name} to run")
        assert found is not None
        return found


@pytest.fixture(scope="module")
def devices_server(scheduled_server: ApiServer) -> Iterator[ApiServer]:
    scheduled_server.start_controllers("resourceclaim-controller")
    yield scheduled_server
    scheduled_server.kill("kube-controller-manager")


@pytest.fixture
async def claims(devices_server: ApiServer, ledger_host: LedgerHost) -> AsyncIterator[Claims]:
    client = ledger_host.client
    await client.create(NAMESPACES, {"metadata": {"name": SPACE}})
    made = Claims(client)
    yield made
    for each in (await client.list(PODS, SPACE)).items:
        await client.delete(PODS, each["metadata"]["name"], SPACE, grace_seconds=0)
    for each in (await client.list(RESOURCE_CLAIMS, SPACE)).items:
        await client.patch(RESOURCE_CLAIMS, each["metadata"]["name"], {"metadata": {"finalizers": None}}, SPACE)
        await client.delete(RESOURCE_CLAIMS, each["metadata"]["name"], SPACE)
    for name in (WHOLE, PART):
        await client.delete(DEVICE_CLASSES, name)
    await client.delete(SLICES, "devices")


async def test_claims_are_read_as_a_real_scheduler_writes_them(claims: Claims, ledger_host: LedgerHost) -> None:
    client = ledger_host.client
    await offer(client, await ledger_host.node("n1", 0))
    # Of two alternatives the first is of a class of which there is nothing.
    ways = [{"name": "part", "deviceClassName": PART, "count": 2}, {"name": "whole", "deviceClassName": WHOLE, "count": 1}]
    await claims.ask("mine", {"firstAvailable": ways})
    assert await claims.read("mine") is None
    await client.create(PODS, pod("first", "mine"), SPACE)
    found = await claims.used_by("mine", "first")
    assert found.devices == {WHOLE: 1}
    assert found.given is not None
    assert found.given >= found.created
    held = held_of(await claims.runs("first"))
    assert held is not None
    assert (held.devices, held.uid, held.running is not None) == ({}, found.users[0], True)
    # Shared by a second one, and given back with the last.
    await client.create(PODS, pod("second", "mine"), SPACE)
    both = await claims.used_by("mine", "first", "second")
    assert (both.given, both.devices) == (found.given, found.devices)
    await client.delete(PODS, "first", SPACE)
    await claims.used_by("mine", "second")
    await client.delete(PODS, "second", SPACE)
    await claims.free("mine")
    # Given again, to the same claim: another interval.
    await client.create(PODS, pod("third", "mine"), SPACE)
    again = await claims.used_by("mine", "third")
    assert again.uid == found.uid
    assert again.given is not None
    assert again.given >= found.given

    # What a pod asks for as a resource: the scheduler makes a claim, which is not counted again.
    await client.create(PODS, pod("plain", gpus=2), SPACE)
    held = held_of(await claims.runs("plain"))
    assert held is not None
    assert held.devices == {GPU: 2}
    (made,) = [each for each in (await client.list(RESOURCE_CLAIMS, SPACE)).items if each["metadata"]["name"] != "mine"]
    assert claimed_of(made) is None
    assert made["metadata"]["ownerReferences"][0]["name"] == "plain"
    # The positive control: but for the mark it is like any other.
    marked = claimed_of(made | {"metadata": made["metadata"] | {"labels": MARK}})
    assert marked is not None
    assert (marked.devices, marked.users) == ({WHOLE: 2}, (held.uid,))
