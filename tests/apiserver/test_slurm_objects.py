"""The objects of a Slurm cluster on a real API server: taken without an unknown field, admitted, and scaled within bounds."""

import json
from collections.abc import AsyncIterator

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Resource
from controller.slurm.objects import render, workers
from controller.slurm.spec import NAMESPACE
from tests.kit.crds import served
from tests.kit.slurmsamples import CASES, KEYS, slurm_spec

NODE_SETS = Resource("slurm.bulkhead.dev", "v1alpha1", "nodesets", "NodeSet", True)
SPEC = slurm_spec(CASES["everything"])


def resource(obj: Obj) -> Resource:
    return NODE_SETS if obj["kind"] == "NodeSet" else kinds.resource_of(obj["apiVersion"], obj["kind"])


async def apply(client: Client, obj: Obj) -> None:
    """Server-side apply as the controller does, and unknown fields are errors."""
    r = resource(obj)
    path = r.path(obj["metadata"].get("namespace"), obj["metadata"]["name"])
    params = {"fieldValidation": "Strict", "fieldManager": "tests", "force": "true"}
    await client.transport.request(
        "PATCH", path, params=params, body=json.dumps(obj).encode(), content_type="application/apply-patch+yaml"
    )


@pytest.fixture
async def cluster(host_client: Client) -> AsyncIterator[Client]:
    for obj in render.render(SPEC, KEYS):
        if obj["kind"] == "NodeSet":
            await served(host_client, NODE_SETS)
        await apply(host_client, obj)
    yield host_client
    for obj in reversed(render.render(SPEC, KEYS)):
        if obj["kind"] not in {"Namespace", "CustomResourceDefinition"}:
            await host_client.delete(resource(obj), obj["metadata"]["name"], obj["metadata"].get("namespace"))


async def scale(client: Client, name: str, replicas: int) -> None:
    await client.patch(NODE_SETS, name, {"spec": {"replicas": replicas}}, NAMESPACE, subresource="scale")


@pytest.mark.apiserver
async def test_every_object_is_taken_and_applying_it_again_changes_nothing(cluster: Client) -> None:
    async def versions() -> dict[tuple[str, str], str]:
        found = {}
        for obj in render.render(SPEC, KEYS):
            there = await cluster.get(resource(obj), obj["metadata"]["name"], obj["metadata"].get("namespace"))
            found[obj["kind"], obj["metadata"]["name"]] = there["metadata"]["resourceVersion"]
        return found

    for _ in range(2):  # the first apply after its creation rewrites a claim once, byte for byte the same
        before = await versions()
        for obj in render.render(SPEC, KEYS):
            await apply(cluster, obj)
    assert await versions() == before


@pytest.mark.apiserver
async def test_pod_security_admits_every_pod_and_would_not_admit_a_privileged_one(cluster: Client) -> None:
    templates = [obj["spec"]["template"] for obj in render.render(SPEC, KEYS) if obj["kind"] in {"StatefulSet", "Deployment"}]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p-{index}", "namespace": NAMESPACE},
            "spec": template["spec"],
        }
        for index, template in enumerate(templates)
    ]
    for pod in pods:  # volumes of volumeClaimTemplates are the StatefulSet's to add
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        for container in pod["spec"]["containers"]:
            container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] in volumes]
    pods += [workers.worker_pod(SPEC, each, 0) for each in SPEC.node_sets]
    for pod in pods:
        await cluster.create(kinds.PODS, pod)
        await cluster.delete(kinds.PODS, pod["metadata"]["name"], NAMESPACE, grace_seconds=0)
    privileged = workers.worker_pod(SPEC, SPEC.node_sets[0], 1)
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        await cluster.create(kinds.PODS, privileged)


@pytest.mark.apiserver
async def test_a_node_set_is_scaled_within_its_bounds_alone(cluster: Client) -> None:
    await scale(cluster, "h100", 3)
    for replicas in (0, 5):
        with pytest.raises(ApiError, match="the Tenant sets these bounds"):
            await scale(cluster, "h100", replicas)
    found = await cluster.get(NODE_SETS, "h100", NAMESPACE)
    assert found["spec"]["replicas"] == 3
    # Bounds that move under a number that is there are taken; the lease brings the number back.
    (obj,) = [obj for obj in render.render(SPEC, KEYS) if obj["kind"] == "NodeSet" and obj["metadata"]["name"] == "h100"]
    obj["spec"]["max"] = 2
    await apply(cluster, obj)
    found = await cluster.get(NODE_SETS, "h100", NAMESPACE)
    assert (found["spec"]["replicas"], found["spec"]["max"]) == (3, 2)


@pytest.mark.apiserver
async def test_a_node_set_shows_what_runs_where_autoscalers_look(cluster: Client) -> None:
    await scale(cluster, "h100", 2)
    status = {"replicas": 2, "readyReplicas": 1, "selector": "slurm.bulkhead.dev/node-set=h100", "slurmIdle": 1, "slurmDown": 1}
    await cluster.patch(NODE_SETS, "h100", {"status": status}, NAMESPACE, subresource="status")
    shown = json.loads(await cluster.get_raw(NODE_SETS.path(NAMESPACE, "h100", "scale")))
    assert shown["spec"] == {"replicas": 2}
    assert shown["status"] == {"replicas": 2, "selector": status["selector"]}
    table = json.loads(
        await cluster.transport.request(
            "GET", NODE_SETS.path(NAMESPACE, "h100"), accept="application/json;as=Table;v=v1;g=meta.k8s.io"
        )
    )
    columns = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    assert dict(zip(columns, table["rows"][0]["cells"], strict=False)) | {"Age": ""} == {
        "Name": "h100",
        "Replicas": 2,
        "Ready": 1,
        "Min": 1,
        "Max": 4,
        "GPUs": 4,
        "Idle": 1,
        "Allocated": None,
        "Down": 1,
        "Drain": None,
        "Age": "",
    }
