"""A resize is reported as seen when the host's pod has it, and not before; two real API servers, the kubelet stood in for."""

from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.resources import NODES, PODS, RESOURCE_QUOTAS
from tests.kit.servers import HOST_KUBERNETES
from tests.kit.syncerbed import SyncerBed, until

QUOTA = "requests.cpu"
STRATEGIC = "application/strategic-merge-patch+json"


async def limit(bed: SyncerBed, used: str, hard: str) -> None:
    """The host's count of the tenant's CPU; without a controller manager the host does not count by itself."""
    quota = {"metadata": {"name": "tenant-quota", "namespace": bed.work}, "spec": {"hard": {QUOTA: hard}}}
    await bed.host.apply(RESOURCE_QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota"} | quota)
    status = {"hard": {QUOTA: hard}, "used": {QUOTA: used}}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-quota", {"status": status}, bed.work, subresource="status")


async def sized(bed: SyncerBed, name: str, cpu: str) -> Obj:
    """A running pod that asks for so much, of a kubelet that can resize."""
    container = {"name": "main", "image": "busybox:1.36", "resources": {"requests": {"cpu": cpu}}}
    host = await bed.running(name, bed.pod(name, containers=[container]))
    await kubelet_says(bed, host, cpu)
    await until(lambda: reported(bed, name, cpu), "size in the plane")
    return host


async def kubelet_says(bed: SyncerBed, host: Obj, cpu: str) -> None:
    """The kubelet has seen the host pod as it is now, and runs it with so much."""
    now = await bed.host.get(PODS, host["metadata"]["name"], bed.work)
    statuses = now["status"]["containerStatuses"]
    statuses[0] |= {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
    status = {"containerStatuses": statuses, "observedGeneration": now["metadata"]["generation"]}
    await bed.host.patch(PODS, now["metadata"]["name"], {"status": status}, bed.work, subresource="status")


async def reported(bed: SyncerBed, name: str, cpu: str) -> bool:
    """Whether the plane shows this size, as what its newest generation asks for."""
    virtual = await bed.virtual(name)
    assert virtual is not None
    return size(virtual) == cpu and seen(virtual) == virtual["metadata"]["generation"]


def size(virtual: Obj) -> Any:
    return virtual["status"]["containerStatuses"][0].get("resources", {}).get("requests", {}).get("cpu")


def seen(virtual: Obj) -> Any:
    return virtual["status"].get("observedGeneration")


async def resize(bed: SyncerBed, name: str, cpu: str) -> None:
    body = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    await bed.plane.patch(PODS, name, body, bed.space, subresource="resize", content_type=STRATEGIC)


async def test_item_77_a_refused_resize_is_explained_not_seen_and_done_when_there_is_room(bed: SyncerBed) -> None:
    await limit(bed, "0", "1")
    host = await sized(bed, "web", "100m")
    await limit(bed, "900m", "1")
    main = {"name": "main", "image": "busybox:1.36", "resources": {"requests": {"cpu": "200m"}}}
    await bed.refuses(PODS, {"spec": {"containers": [main]}})
    await resize(bed, "web", "500m")

    async def refused() -> bool:
        return any(each["reason"] == "QuotaExceeded" for each in await bed.events("web"))

    await until(refused, "the refusal told")
    await bed.plane.patch(PODS, "web", {"metadata": {"labels": {"stage": "live"}}}, bed.space)

    async def labelled() -> bool:
        return ((await bed.mirror("web")) or {})["metadata"]["labels"].get("stage") == "live"

    await until(labelled, "what was not refused on the host")
    await kubelet_says(bed, host, "100m")
    await bed.quiet()
    virtual = await bed.virtual("web")
    assert virtual is not None
    assert (virtual["metadata"]["generation"], seen(virtual), size(virtual)) == (2, 1, "100m")

    await limit(bed, "100m", "1")

    async def resized() -> bool:
        return bool(((await bed.mirror("web")) or {})["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m")

    await until(resized, "new size on the host")
    await kubelet_says(bed, host, "500m")
    await until(lambda: reported(bed, "web", "500m"), "new size in the plane")


@pytest.mark.skipif(HOST_KUBERNETES != "", reason="an older host's nodes declare nothing")
async def test_item_77_a_pod_is_resized_as_a_whole_on_a_node_that_declares_it(bed: SyncerBed) -> None:
    """Since 1.36 API servers let a bound pod's own resources change only if its node says that its kubelet can do it."""
    features = ["InPlacePodLevelResourcesVerticalScaling"]
    await bed.host.patch(NODES, bed.node, {"status": {"declaredFeatures": features}}, subresource="status")

    async def declared() -> bool:
        return ((await bed.virtual_node()) or {}).get("status", {}).get("declaredFeatures") == features

    await until(declared, "what the node declares in the plane")
    whole = {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    host = await bed.running("web", bed.pod("web", resources=whole))
    await kubelet_says(bed, host, "100m")

    async def runs_with_its_size() -> bool:
        """An API server resizes nothing of a pod whose containers do not say what they run with."""
        statuses = ((await bed.virtual("web")) or {})["status"].get("containerStatuses") or [{}]
        return "resources" in statuses[0]

    await until(runs_with_its_size, "size in the plane")
    body = {"spec": {"resources": {"requests": {"cpu": "200m"}}}}
    await bed.plane.patch(PODS, "web", body, bed.space, subresource="resize", content_type=STRATEGIC)

    async def resized() -> bool:
        found = ((await bed.mirror("web")) or {}).get("spec", {}).get("resources", {})
        return bool(found.get("requests", {}).get("cpu") == "200m")

    await until(resized, "new size on the host")
    await bed.quiet()
