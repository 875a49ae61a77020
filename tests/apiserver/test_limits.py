"""The quotas and sizes that the controller gives a tenant, on a real API server: what they refuse, and what they must not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.resources import LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS
from controller.plane.quota import limit_range, resource_quotas
from syncer.translate.podspec import podsize
from tests.kit import translationsamples as samples
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_for, tenant, tenant_class

GPU = "nvidia.com/gpu"
RESOURCES = {
    GPU: {"default": 1000, "maxNominal": "1k"}, "cpu": {"default": "1000"}, "memory": {"default": "1024Gi"},
    "ephemeral-storage": {"default": "0.5Ti"}, "requests.storage": {"default": "1024Gi", "maxPerClaim": "100Gi"},
}  # fmt: skip


async def limited(client: Client, namespace: str, **bounds: Any) -> None:
    """Apply what a tenant of a class gets, and count nothing yet, as the host's controller manager would."""
    spec = plane_for(tenant(quota=None), tenant_class(**bounds))
    for obj in (limit_range(spec), *resource_quotas(spec)):
        obj["metadata"] = {"name": obj["metadata"]["name"], "namespace": namespace}
        kind = LIMIT_RANGES if obj["kind"] == "LimitRange" else RESOURCE_QUOTAS
        there = await client.create(kind, obj, namespace)
        if kind is RESOURCE_QUOTAS:
            hard = there["spec"]["hard"]
            assert hard == obj["spec"]["hard"], "written as the server keeps it"
            status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
            await client.patch(kind, there["metadata"]["name"], status, namespace, subresource="status")
    body = codec.encode({"metadata": {"name": "tried"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})

    async def sized() -> bool:
        """Whether the server knows the LimitRange by now."""
        data = await client.transport.request(
            "POST", PODS.path(namespace), params={"dryRun": "All"}, body=body, content_type="application/json"
        )
        return bool(codec.decode(data)["spec"]["containers"][0]["resources"])

    await until(sized, "containers to get a request")


async def ask(client: Client, namespace: str, *containers: dict[str, Any], **spec: Any) -> Obj:
    listed = [{"name": f"c{at}", "image": "x"} | each for at, each in enumerate(containers)]
    body: Obj = {"metadata": {"generateName": "p-"}, "spec": {"containers": listed} | spec}
    podsize.shared(body["spec"], samples.VIEW)
    return await client.create(PODS, body, namespace)


@pytest.fixture
async def space(host_client: Client, namespace: str) -> AsyncIterator[str]:
    await limited(host_client, namespace, quota={"resources": RESOURCES})
    yield namespace
    for pod in (await host_client.list(PODS, namespace)).items:
        await host_client.delete(PODS, pod["metadata"]["name"], namespace, grace_seconds=0)


async def refusal(make: Callable[[], Awaitable[Obj]]) -> str:
    """The refusal of a request from `make`; until the server has loaded a quota or size, it accepts some of them."""
    said = ""

    async def refused() -> bool:
        nonlocal said
        try:
            await make()
        except ApiError as error:
            said = str(error)
        return bool(said)

    await until(refused, "the server to refuse it")
    return said


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
    found = await refusal(lambda: ask(host_client, space, asked))
    assert "exceeded quota: tenant-quota" in found
    assert said in found


async def test_claims_are_bounded_together(host_client: Client, space: str) -> None:
    async def claim(size: str) -> Obj:
        body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        return await host_client.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"generateName": "c-"}, "spec": body}, space)

    await asyncio.gather(*(claim("100Gi") for _ in range(10)))
    assert "limited: requests.storage=1Ti" in await refusal(lambda: claim("25Gi"))


async def test_every_quota_that_a_class_may_have_is_one_that_the_host_takes(host_client: Client, namespace: str) -> None:
    of_gold = "gold.storageclass.storage.k8s.io"
    gold = f"{of_gold}/requests.storage"
    limits = {f"limits.{name}": {"default": "1Ti"} for name in ("cpu", "memory", "ephemeral-storage")}
    others = {"rdma/hca": {"default": 4}, "hugepages-2Mi": {"default": "1Gi"}, gold: {"default": "100Gi"}}
    objects = {"count/jobs.batch": 3, f"{of_gold}/persistentvolumeclaims": 4, "replicationcontrollers": 5, "resourcequotas": 9}
    defaults = {"limits": {"cpu": 4, "memory": "4Gi", "ephemeral-storage": "10Gi"}}
    quota = {"resources": RESOURCES | limits | others, "objects": objects}
    counted = ["rdma/hca", "hugepages-2Mi"]
    await limited(host_client, namespace, extendedResources=counted, containerDefaults=defaults, quota=quota)
    await ask(host_client, namespace, {})
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "gold", "resources": {"requests": {"storage": "101Gi"}}}
    body: Obj = {"metadata": {"generateName": "c-"}, "spec": spec}
    said = await refusal(lambda: host_client.create(PERSISTENT_VOLUME_CLAIMS, body, namespace))
    assert f"limited: {gold}=100Gi" in said


async def test_beside_a_limit_of_the_pod_as_a_whole_the_default_limit_of_containers_refuses_nothing(
    host_client: Client, namespace: str
) -> None:
    limits = {"cpu": "4", "memory": "4Gi"}
    await limited(host_client, namespace, containerDefaults={"limits": limits})
    body: Obj = {"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    body["spec"]["resources"] = {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "2m", "memory": "2Mi"}}
    podsize.shared(body["spec"], replace(samples.VIEW, default_limits=limits))
    made = await host_client.create(PODS, body, namespace)
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2m", "memory": "2Mi"}


async def test_every_pod_counts_those_that_have_ended_too(host_client: Client, namespace: str) -> None:
    await limited(host_client, namespace, quota={"objects": {"pods": 5, "count/pods": 2}})

    async def one_that_ends() -> Obj:
        made = await ask(host_client, namespace, {})
        ended = {"status": {"phase": "Succeeded"}}
        return await host_client.patch(PODS, made["metadata"]["name"], ended, namespace, subresource="status")

    said = await refusal(one_that_ends)
    assert "exceeded quota: tenant-quota, requested: count/pods=1, used: count/pods=2" in said
