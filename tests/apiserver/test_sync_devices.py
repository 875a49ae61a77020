"""ResourceClaims between two real API servers, with the test as the host's scheduler and the plane's claim controller."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.api import deviceclaims
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Forbidden, NotFound
from bulkhead.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from bulkhead.metering.claimed import claimed_of
from controller.plane.quota import resource_quotas
from syncer.mirrors.copies import RETRY_SECONDS
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.tenantsamples import plane_spec

CLASS = "gpu.example.com"
GPU = "nvidia.com/gpu"


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    with contextlib.suppress(AlreadyExists):
        await host_client.create(
            DEVICE_CLASSES, {"metadata": {"name": CLASS}, "spec": {"extendedResourceName": "example.com/gpu"}}
        )
    counted = {"deviceClassResources": {CLASS: GPU}, "limits": {GPU: 4}}
    async with SyncerBed.open(host_client, plane_client, allowedDeviceClasses=[CLASS], **counted) as opened:
        yield opened


async def test_item_52_53_54_a_claim_made_from_a_template_reaches_the_host_and_its_devices_are_shown(bed: SyncerBed) -> None:
    async def shown() -> Obj | None:
        with contextlib.suppress(NotFound):
            return await bed.plane.get(DEVICE_CLASSES, CLASS)
        return None

    assert (await until(shown, "the class in the plane"))["spec"] == {}
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
    host = await bed.copied(RESOURCE_CLAIMS, "web-gpu-x7k2p")
    assert mirrored["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": host["metadata"]["name"]}]

    result = {"request": "gpu", "driver": CLASS, "pool": bed.node, "device": "gpu-3"}
    status = {"allocation": {"devices": {"results": [result]}}}
    await bed.host.patch(RESOURCE_CLAIMS, host["metadata"]["name"], {"status": status}, bed.work, subresource="status")

    async def allocated() -> bool:
        found = await bed.plane.get(RESOURCE_CLAIMS, "web-gpu-x7k2p", bed.space)
        results = (found.get("status") or {}).get("allocation", {}).get("devices", {}).get("results", [])
        return [result["device"] for result in results] == ["gpu-3"]

    await until(allocated, "devices in the plane")
    assert ((await bed.virtual("web")) or {})["status"]["resourceClaimStatuses"] == statuses


async def test_a_claim_that_was_allocated_again_shows_what_it_has_once_its_reservation_is_lifted(bed: SyncerBed) -> None:
    """The plane's API server refuses an allocation in place of another, and none where there is a reservation."""
    await ask(bed, "mine", 1)
    host = (await bed.copied(RESOURCE_CLAIMS, "mine"))["metadata"]["name"]

    async def allocate(device: str | None) -> None:
        result = {"request": "gpu", "driver": CLASS, "pool": bed.node, "device": device}
        status = {"allocation": {"devices": {"results": [result]}} if device else None}
        await bed.host.patch(RESOURCE_CLAIMS, host, {"status": status}, bed.work, subresource="status")

    async def shows(device: str) -> None:
        async def shown() -> bool:
            found = (await bed.plane.get(RESOURCE_CLAIMS, "mine", bed.space)).get("status") or {}
            results = found.get("allocation", {}).get("devices", {}).get("results", [])
            return [result["device"] for result in results] == [device]

        await until(shown, f"{device} in the plane")

    async def reserve(users: list[Obj] | None) -> None:
        await bed.plane.patch(RESOURCE_CLAIMS, "mine", {"status": {"reservedFor": users}}, bed.space, subresource="status")

    await allocate("gpu-1")
    await shows("gpu-1")
    await reserve([{"resource": "pods", "name": "web", "uid": "u"}])
    await allocate(None)
    await allocate("gpu-2")
    await bed.quiet()
    await shows("gpu-1")
    await reserve(None)
    await shows("gpu-2")
    assert await bed.events("mine") == []


async def test_item_53_a_status_that_a_tenant_forges_is_metered_nowhere_and_the_hosts_is_with_whose_it_is(
    bed: SyncerBed,
) -> None:
    await ask(bed, "mine", 1)
    host = await bed.copied(RESOURCE_CLAIMS, "mine")
    results = [{"request": "gpu", "driver": CLASS, "pool": bed.node, "device": f"gpu-{number}"} for number in range(32)]
    reserved = [{"resource": "pods", "name": "another's", "uid": "u"}]
    forged = {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}}
    await bed.plane.patch(RESOURCE_CLAIMS, "mine", forged, bed.space, subresource="status")
    # Changes of one object are handled in order: with this label the status was.
    await bed.plane.patch(RESOURCE_CLAIMS, "mine", {"metadata": {"labels": {"app": "x"}}}, bed.space)

    async def labelled() -> bool:
        found = await bed.host.get(RESOURCE_CLAIMS, host["metadata"]["name"], bed.work)
        return "x" in found["metadata"]["labels"].values()

    await until(labelled, "the label on the host")
    assert claimed_of(await bed.host.get(RESOURCE_CLAIMS, host["metadata"]["name"], bed.work)) is None
    # The positive control: what the host says is.
    status = {"status": {"allocation": {"devices": {"results": results[:1]}}}}
    await bed.host.patch(RESOURCE_CLAIMS, host["metadata"]["name"], status, bed.work, subresource="status")
    found = claimed_of(await bed.host.get(RESOURCE_CLAIMS, host["metadata"]["name"], bed.work))
    assert found is not None
    assert (found.namespace, found.name, found.devices, found.users) == (bed.space, "mine", {CLASS: 1}, ())


async def test_item_53_a_class_that_is_not_offered_is_refused_with_a_reason(bed: SyncerBed) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "of-the-host", "count": 1}}
    await bed.plane.create(
        RESOURCE_CLAIMS, {"metadata": {"name": "grab"}, "spec": {"devices": {"requests": [request]}}}, bed.space
    )

    await bed.event("grab", f"offered: {CLASS}")
    assert await bed.copy(RESOURCE_CLAIMS, "grab") is None


async def ask(bed: SyncerBed, name: str, count: int, template: str = "") -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": count}}
    # What the plane's own controller makes of a template says so, and counts like any other.
    meta = {"name": name} | ({"annotations": {"resource.kubernetes.io/pod-claim-name": template}} if template else {})
    await bed.plane.create(RESOURCE_CLAIMS, {"metadata": meta, "spec": {"devices": {"requests": [request]}}}, bed.space)


async def test_item_47_53_claims_and_pods_together_never_pass_the_quota_and_room_is_taken_at_once(bed: SyncerBed) -> None:
    await ask(bed, "first", 3, template="gpu")
    await bed.copied(RESOURCE_CLAIMS, "first")
    await bed.create(bed.gpu_pod("web"))
    await bed.mirrored("web")
    await ask(bed, "second", 2)
    await bed.create(bed.gpu_pod("more"))

    async def reported() -> bool:
        notes = [event["message"] for event in await bed.events("second")]
        reason = ((await bed.condition("more")) or {}).get("reason")
        return reason == "QuotaExceeded" and any("asked for 2 nvidia.com/gpu, 4 of 4 are in use" in note for note in notes)

    await until(reported, "both say why they wait")
    assert await bed.copy(RESOURCE_CLAIMS, "second") is None
    await bed.plane.delete(RESOURCE_CLAIMS, "first", bed.space)
    # Long before the next try that is made without a reason.
    await bed.copied(RESOURCE_CLAIMS, "second", RETRY_SECONDS * 2 / 3)
    await bed.mirrored("more")


async def test_item_53_the_largest_number_of_devices_in_a_claim_harms_no_other(bed: SyncerBed) -> None:
    requests = [
        {"name": f"r{number}", "exactly": {"deviceClassName": CLASS, "count": 1024, "tolerations": [{"operator": "Exists"}]}}
        for number in range(32)
    ]
    await bed.plane.create(
        RESOURCE_CLAIMS, {"metadata": {"name": "grab"}, "spec": {"devices": {"requests": requests}}}, bed.space
    )

    await bed.event("grab", "a taint of the host keeps")
    assert await bed.copy(RESOURCE_CLAIMS, "grab") is None


async def test_item_53_the_host_counts_devices_under_the_names_of_the_tenants_quota(bed: SyncerBed) -> None:
    """Whatever the syncer believes: the claims here are made past it."""
    spec = plane_spec(
        quota={
            "device_classes": ((CLASS, GPU),),
            "limits": ((GPU, "4"),),
            "object_limits": ((deviceclaims.COUNT, "2"), ("pods", "0")),
        }
    )
    (hard,) = [quota["spec"]["hard"] for quota in resource_quotas(spec) if quota["metadata"]["name"] == "tenant-objects"]
    await bed.host.create(RESOURCE_QUOTAS, {"metadata": {"name": "tenant-objects"}, "spec": {"hard": hard}}, bed.work)
    status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-objects", status, bed.work, subresource="status")

    async def made(name: str, **request: Any) -> str:
        devices = {"requests": [{"name": "gpu"} | request]}
        try:
            await bed.host.create(RESOURCE_CLAIMS, {"metadata": {"name": name}, "spec": {"devices": devices}}, bed.work)
        except Forbidden as error:
            return error.message
        return ""

    ways = [{"name": f"w{count}", "deviceClassName": CLASS, "count": count} for count in (1, 3)]

    async def counted() -> bool:
        """The API server learns of a quota, and of its status, a moment later."""
        said = await made("five", exactly={"deviceClassName": CLASS, "count": 5})
        if not said:
            await bed.host.delete(RESOURCE_CLAIMS, "five", bed.work)
        return f"exceeded quota: tenant-objects, requested: {deviceclaims.quota_name(CLASS)}=5" in said

    await until(counted, "the host to count")
    assert await made("either", firstAvailable=ways) == ""
    assert f"used: {deviceclaims.quota_name(CLASS)}=3" in await made("two", exactly={"deviceClassName": CLASS, "count": 2})
    assert f"{deviceclaims.quota_name(CLASS)}=32" in await made(
        "all", exactly={"deviceClassName": CLASS, "allocationMode": "All"}
    )
    assert await made("one", exactly={"deviceClassName": CLASS}) == ""
    assert deviceclaims.COUNT in await made("third", exactly={"deviceClassName": "of-nobody"})
