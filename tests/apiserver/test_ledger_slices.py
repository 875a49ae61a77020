"""Pods that ask for a resource of which only ResourceSlices tell: the ledger lets them go, and a real scheduler places them.

Scheduler, controllers of claims and of quotas are real, the kubelet is kwok, and the slices are what a driver would write.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bulkhead.api import deviceclaims, names
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS, RESOURCE_SLICES
from controller.dispatch.loop import Ledger
from tests.kit.leading import leading
from tests.kit.ledgerhost import GPU, LedgerHost, gated, leads
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until

pytestmark = pytest.mark.ledgers

DRIVER, CLASS = "gpu.example.com", "gpu.example.com"
SIMPLE = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].kind == 'gpu'"
STRANGE = f"device.attributes['{DRIVER}'].kind in ['gpu']"


class Driver:
    """What a driver and its admin write."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.slices: list[str] = []

    async def offers(self, node: str, number: int) -> None:
        devices = [{"name": f"gpu-{at}", "attributes": {"kind": {"string": "gpu"}}} for at in range(number)]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec: Obj = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        await self.client.create(RESOURCE_SLICES, {"metadata": {"name": f"slice-{node}"}, "spec": spec})
        self.slices.append(f"slice-{node}")

    async def maps(self, expression: str) -> None:
        """GPUs are the devices that this selects."""
        spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": GPU}
        await self.client.create(DEVICE_CLASSES, {"metadata": {"name": CLASS}, "spec": spec})


@pytest.fixture(scope="module")
def devices_server(scheduled_server: ApiServer) -> Iterator[ApiServer]:
    scheduled_server.start_controllers("resourceclaim-controller", "resourcequota-controller")
    yield scheduled_server
    scheduled_server.kill("kube-controller-manager")


@pytest.fixture
async def driver(devices_server: ApiServer, ledger_host: LedgerHost) -> AsyncIterator[Driver]:
    made = Driver(ledger_host.client)
    yield made
    await ledger_host.client.delete(DEVICE_CLASSES, CLASS)
    for each in made.slices:
        await ledger_host.client.delete(RESOURCE_SLICES, each)


async def running(host: LedgerHost, tenant: str, name: str) -> Obj:
    async def so() -> Obj | None:
        found = await host.get(tenant, name)
        return found if found and found.get("status", {}).get("phase") == "Running" else None

    found: Obj = await until(so, f"{name} of {tenant} to run", 60)
    return found


async def test_a_pod_gets_devices_that_only_slices_list_and_waits_at_the_gate_for_those_that_are_held(
    driver: Driver, ledger_host: LedgerHost
) -> None:
    host = ledger_host
    bare, there = await host.node("n0", 0), await host.node("n1", 0)
    team = await host.tenant("team", 16)
    async with leading(Ledger(host.client, leads)):
        await host.run(team, "first", 3)
        # The control: without the driver's ResourceSlices no node has any.
        await host.told(team, "first", "NeverFits", seconds=60)
        await driver.maps(SIMPLE)
        await driver.offers(there, 4)
        found = await running(host, team, "first")
        assert found["spec"]["nodeName"] == there
        # The scheduler alone knows which devices are free.
        assert "kubernetes.io/hostname" not in found["spec"]["nodeSelector"]
        await host.run(team, "second", 2)
        await host.told(team, "second", "NoCapacity", f"1 {GPU} are free there", 60)
        await host.run(team, "large", 5)
        await host.told(team, "large", "NeverFits", seconds=60)
        await host.client.delete(PODS, "first", names.work_namespace(team))
        assert (await running(host, team, "second"))["spec"]["nodeName"] == there
        # A gang, of which each pod has its place on another node.
        await driver.offers(bare, 2)
        for number in range(2):
            await host.run(team, f"train-{number}", 2, gang=("train", 2))
        assert {(await running(host, team, f"train-{number}"))["spec"]["nodeName"] for number in range(2)} == {bare, there}


async def test_no_pod_is_refused_for_uncounted_devices(driver: Driver, ledger_host: LedgerHost) -> None:
    """What the class selects is not understood: the quota decides, and the scheduler says what there is."""
    host = ledger_host
    there = await host.node("n0", 0)
    await driver.maps(STRANGE)
    await driver.offers(there, 4)
    team = await host.tenant("team", 8, ceiling=32)
    async with leading(Ledger(host.client, leads)):
        await host.run(team, "fits", 4)
        await running(host, team, "fits")
        await host.run(team, "waits", 2)
        await host.admitted(team, 2, 60)

        async def unschedulable() -> bool:
            pod = await host.get(team, "waits") or {}
            conditions = pod.get("status", {}).get("conditions") or ()
            return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)

        await until(unschedulable, "the scheduler to say that there is no room", 60)
        await host.run(team, "beyond", 3)
        await host.told(team, "beyond", "QuotaExceeded", seconds=60)
        await host.client.delete(PODS, "fits", names.work_namespace(team))
        await running(host, team, "waits")


async def test_the_host_counts_such_a_pod_once_as_a_resource_and_its_claim_once_as_devices_of_the_class(
    driver: Driver, ledger_host: LedgerHost
) -> None:
    host = ledger_host
    await driver.maps(SIMPLE)
    await driver.offers(await host.node("n0", 0), 4)
    team = await host.tenant("team", 8)
    space = names.work_namespace(team)
    of_class = deviceclaims.quota_name(CLASS)
    hard = {f"requests.{GPU}": "8", of_class: "8", deviceclaims.COUNT: "8"}
    await host.client.create(RESOURCE_QUOTAS, {"metadata": {"name": "devices"}, "spec": {"hard": hard}}, space)

    async def used(**wanted: Any) -> bool:
        found = (await host.client.get(RESOURCE_QUOTAS, "devices", space)).get("status", {}).get("used") or {}
        return [found.get(name) for name in hard] == list(wanted.values())

    async with leading(Ledger(host.client, leads)):
        await until(lambda: used(gpus="0", devices="0", claims="0"), "the quota to be counted", 60)
        await host.run(team, "gated", 3)
        await running(host, team, "gated")
        (claim,) = (await host.client.list(RESOURCE_CLAIMS, space)).items
        assert claim["metadata"]["ownerReferences"][0]["name"] == "gated"
        await until(lambda: used(gpus="3", devices="3", claims="1"), "pod and claim to be counted", 60)
        assert not gated(await host.get(team, "gated") or {})

        async def stands() -> bool:
            return (await host.standing(team)).get("used") == 3

        await until(stands, "the ledger's own count", 60)
        # A claim that a pod makes itself is both.
        request = {"name": "r", "exactly": {"deviceClassName": CLASS, "count": 1}}
        await host.client.create(
            RESOURCE_CLAIMS, {"metadata": {"name": "own"}, "spec": {"devices": {"requests": [request]}}}, space
        )
        await until(lambda: used(gpus="4", devices="4", claims="2"), "the claim to be counted", 60)
        await host.client.delete(RESOURCE_CLAIMS, "own", space)
