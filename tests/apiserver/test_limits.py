"""The quotas and sizes that the controller gives a tenant, on a real API server: what they refuse, and what they must not."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Obj
from bulkhead.kube.resources import LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS
from controller.admit import admit
from controller.plane.quota import limit_range, resource_quotas
from controller.plane.spec import PlaneSpec
from controller.settings import Settings
from syncer.translate import podsize
from tests.controller.samples import tenant, tenant_class

GPU = "nvidia.com/gpu"
RESOURCES = {
    GPU: {"default": 1000, "maxNominal": "1k"}, "cpu": {"default": "1000"}, "memory": {"default": "1024Gi"},
    "ephemeral-storage": {"default": "0.5Ti"}, "requests.storage": {"default": "1024Gi", "maxPerClaim": "100Gi"},
}  # fmt: skip


async def limited(client: Client, namespace: str, **bounds: Any) -> dict[str, Obj]:
    """Apply what a tenant of a class gets, and count nothing yet, as the host's controller manager would."""
    spec = admit(tenant(quota=None), tenant_class(**bounds), Settings(), service_slice="10.112.4.0/22")
    assert isinstance(spec, PlaneSpec), spec
    made = {}
    for obj in (limit_range(spec), *resource_quotas(spec)):
        obj["metadata"] = {"name": obj["metadata"]["name"], "namespace": namespace}
        kind = LIMIT_RANGES if obj["kind"] == "LimitRange" else RESOURCE_QUOTAS
        there = await client.create(kind, obj, namespace)
        if kind is RESOURCE_QUOTAS:
            hard = there["spec"]["hard"]
            assert hard == obj["spec"]["hard"], "written as the server keeps it"
            made[obj["metadata"]["name"]] = there
            status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
            await client.patch(kind, there["metadata"]["name"], status, namespace, subresource="status")
    return made


async def ask(client: Client, namespace: str, *containers: dict[str, Any], **spec: Any) -> Obj:
    listed = [{"name": f"c{at}", "image": "x"} | each for at, each in enumerate(containers)]
    body: Obj = {"metadata": {"generateName": "p-"}, "spec": {"containers": listed} | spec}
    podsize.shared(body["spec"])
    return await client.create(PODS, body, namespace)


@pytest.fixture
async def space(host_client: Client, namespace: str) -> AsyncIterator[str]:
    await limited(host_client, namespace, quota={"resources": RESOURCES})
    yield namespace
    for pod in (await host_client.list(PODS, namespace)).items:
        await host_client.delete(PODS, pod["metadata"]["name"], namespace, grace_seconds=0)


def holding(part: str, **asked: str) -> dict[str, Any]:
    return {"resources": {part: {name.replace("_", "-"): value for name, value in asked.items()}}}


NOTHING_REFUSED: dict[str, tuple[tuple[dict[str, Any], ...], dict[str, Any]]] = {
    "nothing is said": (({},), {}),
    "much memory and no limit": ((holding("requests", memory="64Gi"),), {}),
    "much of the node's disk and no limit": ((holding("requests", ephemeral_storage="100Gi"),), {}),
    "a limit alone": ((holding("limits", memory="8Mi", cpu="1m", ephemeral_storage="1Mi"),), {}),
    "two containers": ((holding("requests", cpu="1"), {}), {}),
    "an init container": (({},), {"initContainers": [{"name": "i", "image": "x"}]}),
    "the pod as a whole": (({}, {}), holding("requests", cpu="1", memory="1Gi")),
    "little of the pod as a whole": (({},), holding("requests", cpu="1m", memory="1Mi")),
    "a limit of the pod as a whole": (({},), holding("limits", cpu="1m", memory="1Mi")),
}


async def test_no_pod_is_refused_for_what_its_tenant_did_not_write(host_client: Client, space: str) -> None:
    refused = {}
    for name, (containers, spec) in NOTHING_REFUSED.items():
        try:
            await ask(host_client, space, *containers, **spec)
        except ApiError as error:
            refused[name] = str(error)
    assert not refused


async def test_no_container_is_given_a_limit_that_its_tenant_did_not_write(host_client: Client, space: str) -> None:
    made = await ask(host_client, space, holding("requests", memory="64Gi"))
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "10m", "ephemeral-storage": "64Mi", "memory": "64Gi"}
    }


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (holding("requests", cpu="1001"), "limited: requests.cpu=1k"),
        (holding("requests", memory="1025Gi"), "limited: requests.memory=1Ti"),
        (holding("requests", ephemeral_storage="513Gi"), "limited: requests.ephemeral-storage=512Gi"),
        (holding("limits", **{GPU: "1001"}), f"limited: requests.{GPU}=1k"),
    ],
)
async def test_more_than_the_quota_is_refused(host_client: Client, space: str, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ApiError, match="exceeded quota: tenant-quota") as found:
        await ask(host_client, space, asked)
    assert said in str(found.value)


async def test_claims_are_bounded_one_by_one_and_together(host_client: Client, space: str) -> None:
    async def claim(size: str) -> Obj:
        body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        return await host_client.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"generateName": "c-"}, "spec": body}, space)

    with pytest.raises(ApiError, match="maximum storage usage per PersistentVolumeClaim is 100Gi, but request is 900Ti"):
        await claim("900Ti")
    await asyncio.gather(*(claim("100Gi") for _ in range(10)))
    with pytest.raises(ApiError, match=r"requests.storage=1Ti"):
        await claim("25Gi")


async def test_every_pod_counts_those_that_have_ended_too(host_client: Client, namespace: str) -> None:
    await limited(host_client, namespace, quota={"objects": {"pods": 5, "count/pods": 2}})
    for _ in range(2):
        made = await ask(host_client, namespace, {})
        ended = {"status": {"phase": "Succeeded"}}
        await host_client.patch(PODS, made["metadata"]["name"], ended, namespace, subresource="status")
    with pytest.raises(ApiError, match="exceeded quota: tenant-quota, requested: count/pods=1, used: count/pods=2"):
        await ask(host_client, namespace, {})
