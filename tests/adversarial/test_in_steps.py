"""Level 2: attacks that take more than one object or more than one step, between two real API servers with the real syncer."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.api.quantity import parse
from bulkhead.kube.client import MERGE_PATCH, Client
from bulkhead.kube.resources import CONFIG_MAPS, NODES, PODS, RESOURCE_QUOTAS, SECRETS
from syncer.translate.diff import STRATEGIC
from tests.kit.syncerbed import SyncerBed, until

IMAGE = "busybox:1.36"
GPU = "nvidia.com/gpu"


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    async with SyncerBed.open(host_client, plane_client) as opened:
        yield opened


def asking(name: str, amount: int, **fields: Any) -> Obj:
    return {"name": name, "image": IMAGE, "resources": {"limits": {GPU: str(amount)}}} | fields


async def debug(bed: SyncerBed, *containers: Obj) -> None:
    change = {"spec": {"ephemeralContainers": [{"image": IMAGE} | container for container in containers]}}
    await bed.plane.patch(PODS, "web", change, bed.space, subresource="ephemeralcontainers", content_type=MERGE_PATCH)


async def spec_of(bed: SyncerBed) -> Obj:
    found: Obj = (await bed.mirrored("web"))["spec"]
    return found


async def test_an_honest_pod_that_turns_hostile_step_by_step(bed: SyncerBed) -> None:
    """A14. The control of each step is the honest one before it, which reaches the host."""
    quota = {"metadata": {"name": "tenant-quota"}, "spec": {"hard": {"requests.cpu": "1"}}}
    await bed.host.create(RESOURCE_QUOTAS, quota, bed.work)
    status = {"status": {"hard": {"requests.cpu": "1"}, "used": {"requests.cpu": "0"}}}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-quota", status, bed.work, subresource="status")
    main = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": "100m"}}}
    host = await bed.running("web", bed.pod("web", containers=[main]))

    # Another image is the tenant's own business, and it alone changes.
    change = {"spec": {"containers": [{"name": "main", "image": "busybox:1.37"}]}}
    await bed.plane.patch(PODS, "web", change, bed.space, content_type=STRATEGIC)

    async def another_image() -> bool:
        return bool((await spec_of(bed))["containers"][0]["image"] == "busybox:1.37")

    await until(another_image, "the image on the host")
    assert len((await spec_of(bed))["containers"]) == 1

    # A debug container passes, one that is privileged does not, and takes the first one nowhere.
    await debug(bed, {"name": "honest"})

    async def debugged() -> bool:
        return [container["name"] for container in (await spec_of(bed)).get("ephemeralContainers", [])] == ["honest"]

    await until(debugged, "the honest debug container on the host")
    await debug(bed, {"name": "honest"}, {"name": "root", "securityContext": {"privileged": True}})
    await bed.event("web", "securityContext.privileged", reason="PodSecurityViolation")
    assert await debugged()

    # More than the quota is told, and not done. The kubelet is one that can resize.
    now = await bed.mirrored("web")
    statuses = now["status"]["containerStatuses"]
    statuses[0] |= {"resources": {"requests": {"cpu": "100m"}}, "allocatedResources": {"cpu": "100m"}}
    seen = {"status": {"containerStatuses": statuses, "observedGeneration": now["metadata"]["generation"]}}
    await bed.host.patch(PODS, now["metadata"]["name"], seen, bed.work, subresource="status")

    async def resizable() -> bool:
        shown = ((await bed.virtual("web")) or {})["status"]["containerStatuses"]
        return bool(shown[0].get("resources"))

    await until(resizable, "what the kubelet gave, in the plane")
    larger = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "5"}}}]}}
    await bed.plane.patch(PODS, "web", larger, bed.space, subresource="resize", content_type=STRATEGIC)
    await bed.event("web", reason="QuotaExceeded")
    assert (await spec_of(bed))["containers"][0]["resources"]["requests"]["cpu"] == "100m"
    assert (await bed.mirrored("web"))["metadata"]["uid"] == host["metadata"]["uid"]


async def test_a_pod_that_was_let_in_grows_no_larger_by_its_conditions_and_images(bed: SyncerBed) -> None:
    """A19. What is small at creation and may change: the texts of a readiness gate's condition, and images."""
    spec = {"readinessGates": [{"conditionType": "example.org/gate"}]}
    images = [{"name": f"c{number}", "image": IMAGE} for number in range(80)]
    await bed.running("web", bed.pod("web", **spec))
    await bed.create(bed.pod("many", containers=images))
    await bed.mirrored("many")
    closed = {"type": "example.org/gate", "status": "False", "reason": "R" * 200_000, "message": "m" * 400_000}
    now = ((await bed.virtual("web")) or {})["status"].get("conditions", [])
    body = {"status": {"conditions": [*now, closed]}}
    taken = await bed.plane.patch(PODS, "web", body, bed.space, subresource="status", content_type=MERGE_PATCH)
    texts = {condition.get("message") for condition in taken["status"]["conditions"]}
    assert closed["message"] in texts, "the control: the plane takes it"

    async def of_gate() -> Obj | None:
        listed = (await bed.mirrored("web"))["status"].get("conditions", [])
        return next((condition for condition in listed if condition["type"] == "example.org/gate"), None)

    found = await until(of_gate, "the gate's condition on the host")
    assert (found["reason"], found["message"]) == ("R" * 128, "m" * 512)
    larger = {"spec": {"containers": [container | {"image": f"example.org/{'x' * 3900}:1"} for container in images]}}
    await bed.plane.patch(PODS, "many", larger, bed.space, content_type=STRATEGIC)
    await bed.event("many", "are mirrored", reason="TooLarge")
    assert {container["image"] for container in (await bed.mirrored("many"))["spec"]["containers"]} == {IMAGE}
    # The control: one that fits is changed.
    fits = {"spec": {"containers": [images[0] | {"image": "busybox:1.37"}, *images[1:]]}}
    await bed.plane.patch(PODS, "many", fits, bed.space, content_type=STRATEGIC)

    async def changed() -> bool:
        return bool((await bed.mirrored("many"))["spec"]["containers"][0]["image"] == "busybox:1.37")

    await until(changed, "the image that fits")


async def test_gpus_of_every_sort_of_container_count_as_the_kubelet_gives_them(bed: SyncerBed) -> None:
    """C11: sidecars and main containers together, or an init container beside the sidecars before it, whichever is more."""
    await bed.quota(4)
    sidecar = asking("sidecar", 1, restartPolicy="Always")
    tried = {
        "main-too-many": {"initContainers": [sidecar], "containers": [asking("main", 4)]},
        "init-too-many": {"initContainers": [asking("init", 5)], "containers": [asking("main", 1)]},
        "init-beside-sidecar": {"initContainers": [sidecar, asking("init", 4)], "containers": [asking("main", 1)]},
        "two-mains": {"containers": [asking("main", 2), asking("other", 3)]},
    }
    for name, spec in tried.items():
        await bed.create(bed.pod(name, **spec))
    for name in tried:
        await bed.event(name, reason="QuotaExceeded")
        assert await bed.mirror(name) is None, name
    # The control: an init container that has ended takes nothing from those that follow.
    whole = {"initContainers": [asking("init", 4), sidecar], "containers": [asking("main", 2), asking("other", 1)]}
    await bed.create(bed.pod("whole", **whole))
    await bed.mirrored("whole")


async def test_what_is_called_like_the_platforms_own_changes_nothing_of_it(bed: SyncerBed) -> None:
    """D10: the pod reads its tenant's objects, under names of their own, beside the platform's."""
    names = ("kubernetes-environment", "devices-v1", "bulkhead-pull", "kube-root-ca.crt")
    before = {}
    for name in names:
        for kind in (CONFIG_MAPS, SECRETS):
            body = {"metadata": {"name": name}, "data": {"own": "cGxhdGZvcm0="}}
            before[kind.kind, name] = await bed.host.create(kind, body, bed.work)
            meta = {"metadata": {"name": name, "namespace": bed.space}, "data": {"forged": "Zm9yZ2Vk"}}
            if (kind, name) != (CONFIG_MAPS, "kube-root-ca.crt"):  # which a plane makes by itself, where it has controllers
                await bed.plane.create(kind, meta)
    await bed.plane.apply(
        CONFIG_MAPS,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": bed.space}}
        | {"data": {"forged": "Zm9yZ2Vk"}},
    )
    reads = [{"configMapRef": {"name": name}} for name in names] + [{"secretRef": {"name": name}} for name in names]
    await bed.create(bed.pod("web", containers=[{"name": "main", "image": IMAGE, "envFrom": reads}]))
    await bed.mirrored("web")
    for name in names:
        for kind in (CONFIG_MAPS, SECRETS):
            copy = await bed.copied(kind, name)
            assert copy["metadata"]["name"] != name
            assert list(copy["data"]) == ["forged"]
            assert await bed.host.get(kind, name, bed.work) == before[kind.kind, name]


async def test_a_node_of_the_plane_is_put_right_whatever_its_tenant_makes_of_it(bed: SyncerBed) -> None:
    """C12: more GPUs, no taints, another address, deleted; the host's node stays what it is."""
    taint = {"key": "example.org/kept", "value": "x", "effect": "NoSchedule"}
    await bed.host.patch(NODES, bed.node, {"spec": {"taints": [taint]}})

    async def as_the_host_says() -> bool:
        node = await bed.virtual_node()
        if node is None or taint not in node["spec"].get("taints", ()):
            return False
        shown = [node["status"].get(part, {}).get(GPU) for part in ("capacity", "allocatable")]
        return all(value is not None and parse(value) <= 8 for value in shown) and "1.2.3.4" not in str(
            node["status"].get("addresses")
        )

    await until(as_the_host_says, "the node in the plane")
    before = await bed.host.get(NODES, bed.node)
    forged = {
        "capacity": {GPU: "1000"}, "allocatable": {GPU: "1000"}, "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
    }  # fmt: skip
    taken = await bed.plane.patch(NODES, bed.node, {"status": forged}, subresource="status", content_type=MERGE_PATCH)
    assert taken["status"]["capacity"][GPU] == "1k", "the control: the plane takes it"
    await until(as_the_host_says, "the status put right")
    taken = await bed.plane.patch(NODES, bed.node, {"spec": {"taints": None}}, content_type=MERGE_PATCH)
    assert "taints" not in taken["spec"]
    await until(as_the_host_says, "the taints put right")
    await bed.plane.delete(NODES, bed.node)
    await until(as_the_host_says, "the node again")
    assert await bed.host.get(NODES, bed.node) == before
