"""ResourceClaims between two real API servers, with the test as the host's scheduler and the plane's claim controller."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound
from bulkhead.kube.objects import Obj
from bulkhead.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS
from tests.apiserver.bed import Bed, until

CLASS = "gpu.example.com"


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[Bed]:
    with contextlib.suppress(AlreadyExists):
        await host_client.create(
            DEVICE_CLASSES, {"metadata": {"name": CLASS}, "spec": {"extendedResourceName": "example.com/gpu"}}
        )
    async with Bed.open(host_client, plane_client, allowedDeviceClasses=[CLASS]) as opened:
        yield opened


async def below(bed: Bed, name: str) -> Obj | None:
    try:
        return await bed.host.get(RESOURCE_CLAIMS, bed.host_name("ResourceClaim", name), bed.work)
    except NotFound:
        return None


async def test_item_52_53_54_a_claim_made_from_a_template_reaches_the_host_and_its_devices_come_up(bed: Bed) -> None:
    shown = await bed.plane.get(DEVICE_CLASSES, CLASS)
    assert shown["spec"] == {}
    await bed.create(bed.pod("web", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "template"}]))

    async def waits() -> bool:
        return ((await bed.condition("web")) or {}).get("reason") == "ReferenceMissing"

    await until(waits, "pod waits for its claim")
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": 1}}
    claim = {"metadata": {"name": "web-gpu-x7k2p"}, "spec": {"devices": {"requests": [request]}}}
    await bed.plane.create(RESOURCE_CLAIMS, claim, bed.space)
    statuses = [{"name": "gpu", "resourceClaimName": "web-gpu-x7k2p"}]
    await bed.plane.patch(PODS, "web", {"status": {"resourceClaimStatuses": statuses}}, bed.space, subresource="status")
    mirrored = await bed.mirrored("web")
    host = await until(lambda: below(bed, "web-gpu-x7k2p"), "host claim")
    assert mirrored["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": host["metadata"]["name"]}]

    result = {"request": "gpu", "driver": CLASS, "pool": bed.node, "device": "gpu-3"}
    status = {"allocation": {"devices": {"results": [result]}}}
    await bed.host.patch(RESOURCE_CLAIMS, host["metadata"]["name"], {"status": status}, bed.work, subresource="status")

    async def allocated() -> bool:
        found = await bed.plane.get(RESOURCE_CLAIMS, "web-gpu-x7k2p", bed.space)
        results = (found.get("status") or {}).get("allocation", {}).get("devices", {}).get("results", [])
        return [each["device"] for each in results] == ["gpu-3"]

    await until(allocated, "devices above")
    assert ((await bed.virtual("web")) or {})["status"]["resourceClaimStatuses"] == statuses


async def test_item_53_a_class_that_is_not_offered_is_refused_with_a_reason(bed: Bed) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "of-the-host", "count": 1}}
    await bed.plane.create(
        RESOURCE_CLAIMS, {"metadata": {"name": "grab"}, "spec": {"devices": {"requests": [request]}}}, bed.space
    )

    async def told() -> bool:
        return any(f"offered: {CLASS}" in each["message"] for each in await bed.events("grab"))

    await until(told, "event")
    assert await below(bed, "grab") is None
