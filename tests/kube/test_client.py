"""The verbs, against a real API server."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable, Unprocessable
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import key_of, uid_of, version_of
from bulkhead.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    SERVICES,
    all_resources,
    resource_of,
)


def config_map(name: str, **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, namespace: str) -> Obj:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]},
    }


async def test_an_object_goes_in_and_out(host_client: Client, namespace: str) -> None:
    made = await host_client.create(CONFIG_MAPS, config_map("a", x="1"), namespace)
    assert await host_client.get(CONFIG_MAPS, "a", namespace) == made
    made["data"]["x"] = "2"
    replaced = await host_client.replace(CONFIG_MAPS, made)
    assert replaced["data"] == {"x": "2"}
    patched = await host_client.patch(CONFIG_MAPS, "a", {"data": {"y": "3"}}, namespace)
    assert patched["data"] == {"x": "2", "y": "3"}
    assert (await host_client.patch(CONFIG_MAPS, "a", {"data": {"x": None}}, namespace))["data"] == {"y": "3"}
    with pytest.raises(Conflict):
        await host_client.replace(CONFIG_MAPS, made)
    with pytest.raises(AlreadyExists):
        await host_client.create(CONFIG_MAPS, config_map("a"), namespace)


async def test_a_list_follows_its_pages(host_client: Client, namespace: str) -> None:
    for number in range(7):
        await host_client.create(CONFIG_MAPS, config_map(f"m{number}"), namespace)
    listed = await host_client.list(CONFIG_MAPS, namespace, limit=2)
    assert [key_of(each).name for each in listed.items] == [f"m{number}" for number in range(7)]
    assert {(each["apiVersion"], each["kind"]) for each in listed.items} == {("v1", "ConfigMap")}
    assert listed.resource_version.isdigit()
    selected = await host_client.list(CONFIG_MAPS, namespace, field_selector="metadata.name=m3")
    assert [key_of(each).name for each in selected.items] == ["m3"]


async def test_delete_with_preconditions(host_client: Client, namespace: str) -> None:
    made = await host_client.create(CONFIG_MAPS, config_map("d"), namespace)
    with pytest.raises(Conflict):
        await host_client.delete(CONFIG_MAPS, "d", namespace, uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(Conflict):
        await host_client.delete(CONFIG_MAPS, "d", namespace, uid=uid_of(made), resource_version="1")
    gone = await host_client.delete(
        CONFIG_MAPS, "d", namespace, uid=uid_of(made), resource_version=version_of(made), propagation="Background"
    )
    assert gone is None
    assert await host_client.delete(CONFIG_MAPS, "d", namespace) is None
    with pytest.raises(NotFound):
        await host_client.get(CONFIG_MAPS, "d", namespace)


async def test_delete_returns_what_is_still_there(host_client: Client, namespace: str) -> None:
    held = config_map("held")
    held["metadata"]["finalizers"] = ["bulkhead.dev/test"]
    await host_client.create(CONFIG_MAPS, held, namespace)
    deleting = await host_client.delete(CONFIG_MAPS, "held", namespace)
    assert deleting is not None
    assert deleting["metadata"]["deletionTimestamp"]
    await host_client.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace)
    assert await host_client.delete(CONFIG_MAPS, "held", namespace) is None


async def test_a_pod_is_bound_gets_status_and_ends(host_client: Client, namespace: str) -> None:
    await host_client.create(PODS, pod("p", namespace))
    binding = {"metadata": {"name": "p"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}}
    await host_client.create_subresource(PODS, "p", "binding", binding, namespace)
    status = {"status": {"phase": "Running"}}
    patched = await host_client.patch(PODS, "p", status, namespace, subresource="status")
    assert (patched["spec"]["nodeName"], patched["status"]["phase"]) == ("n1", "Running")
    deleting = await host_client.delete(PODS, "p", namespace, grace_seconds=30)
    assert deleting is not None
    assert await host_client.delete(PODS, "p", namespace, grace_seconds=0) is not None
    with pytest.raises(NotFound):
        await host_client.get(PODS, "p", namespace)


async def test_tokens_are_minted(plane_client: Client, namespace: str) -> None:
    await plane_client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "sa", "namespace": namespace}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    answer = await plane_client.create_subresource(SERVICE_ACCOUNTS, "sa", "token", request, namespace)
    assert answer["status"]["token"].count(".") == 2


async def test_a_service_keeps_the_address_it_asks_for(host_client: Client, namespace: str) -> None:
    cidr = {"metadata": {"name": f"cidr-{namespace}"}, "spec": {"cidrs": ["10.113.0.0/22"]}}
    await host_client.create(SERVICE_CIDRS, cidr)
    service = {
        "metadata": {"name": "s", "namespace": namespace},
        "spec": {"clusterIP": "10.113.0.10", "ports": [{"port": 80}]},
    }

    async with asyncio.timeout(60):
        while True:
            # The range is usable only once the server's allocator has seen it.
            try:
                made = await host_client.create(SERVICES, service)
                break
            except Unprocessable as error:
                assert error.causes[0].field == "spec.clusterIPs"  # noqa: PT017
                await asyncio.sleep(0.1)
    assert made["spec"]["clusterIP"] == "10.113.0.10"


async def test_validation_names_the_field(host_client: Client, namespace: str) -> None:
    broken = pod("p", namespace)
    broken["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes"
    with pytest.raises(Unprocessable) as caught:
        await host_client.create(PODS, broken)
    assert [cause.field for cause in caught.value.causes] == ["spec.containers[0].imagePullPolicy"]


async def test_a_kind_of_ones_own(plane_client: Client) -> None:
    names = {"plural": "boats", "singular": "boat", "kind": "Boat"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "sea.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "boats.sea.example.com"}, "spec": spec}
    applied = await plane_client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition)
    assert applied["metadata"]["name"] == "boats.sea.example.com"


async def test_raw_paths(host_client: Client) -> None:
    assert await host_client.get_raw("/readyz") == b"ok"


async def test_every_constant_is_served(host_client: Client) -> None:
    elsewhere = {"bulkhead.dev", "gateway.networking.k8s.io", "metrics.k8s.io", "snapshot.storage.k8s.io"}
    missing = []
    for resource in all_resources():
        if resource.group in elsewhere or resource.plural == "podgroups":
            continue  # by CRDs, by an extension server (tests/apiserver/test_sync_metrics.py), and by a feature gate
        root = f"/apis/{resource.group}/{resource.version}" if resource.group else "/api/v1"
        served = (await host_client.get_raw(root)).decode()
        if f'"name":"{resource.plural}"' not in served or f'"kind":"{resource.kind}"' not in served:
            missing.append(resource)
    assert missing == []
    assert resource_of("apps/v1", "Deployment").plural == "deployments"


async def test_a_server_that_is_not_there() -> None:
    config = KubeConfig(server="https://127.0.0.1:1", ca=None)
    async with Client(config, user_agent="tests", field_manager="tests") as client:
        with pytest.raises(Unavailable) as caught:
            await client.get(NODES, "n")
    assert caught.value.status == 0


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets"])
async def test_a_name_never_leaves_its_place_in_the_path(host_client: Client, name: str) -> None:
    with pytest.raises(ValueError, match="path segment"):
        await host_client.get(NAMESPACES, name)


@pytest.mark.parametrize("name", ["x?y=z", "x#y", "x%2F..%2Fy", "x y", "ü"])
async def test_odd_names_are_quoted(host_client: Client, name: str) -> None:
    with pytest.raises(ApiError) as caught:
        await host_client.get(NAMESPACES, name)
    assert caught.value.status in {400, 404}


async def test_what_time_the_server_says_it_is_is_handed_on(host_config: KubeConfig) -> None:
    told: list[str] = []
    async with Client(host_config, user_agent="tests", field_manager="tests") as client:
        client.transport.on_date = told.append
        await client.version()
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, "missing", "default")
    assert len(told) == 2
    assert all(abs(parsedate_to_datetime(each) - datetime.now(UTC)) < timedelta(minutes=5) for each in told)
