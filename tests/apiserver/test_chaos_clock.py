"""The policy by which a chaos experiment gives a program a wrong clock, on a real API server: that program and no other pod."""

import secrets
from collections.abc import AsyncIterator

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS, NAMESPACES, PODS
from e2e.chaos.faults import clocks
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until

LABELS = {"app": "syncer"}


@pytest.fixture
async def host(lone_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(by_token(lone_server.admin), user_agent="tests", field_manager="tests") as client:
        yield client


async def made(host: Client, labels: dict[str, str], namespace: str = "default") -> Obj:
    """A pod as the server makes it, with a variable and a mount of its own; gone again."""
    container = {"name": "main", "image": "busybox", "env": [{"name": "OWN", "value": "1"}]}
    container["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - in the pod
    spec = {"containers": [container], "volumes": [{"name": "tmp", "emptyDir": {}}]}
    metadata = {"name": f"p-{secrets.token_hex(6)}", "namespace": namespace, "labels": labels}
    created = await host.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, namespace)
    await host.delete(PODS, created["metadata"]["name"], namespace, grace_seconds=0)
    return created


def has_library(pod: Obj) -> bool:
    names = [entry["name"] for entry in pod["spec"]["containers"][0].get("env") or ()]
    return "LD_PRELOAD" in names


async def test_only_the_pods_of_the_program_get_the_library(host: Client) -> None:
    await host.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    policy, binding = clocks.policy("default", LABELS)
    await host.create(MUTATING_ADMISSION_POLICIES, policy)
    await host.create(MUTATING_ADMISSION_POLICY_BINDINGS, binding)

    async def in_force() -> bool:
        return has_library(await made(host, LABELS))

    await until(in_force, "the policy to be in force")
    pod = await made(host, LABELS)
    container = pod["spec"]["containers"][0]
    assert {"OWN", "LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE"} <= {entry["name"] for entry in container["env"]}
    mounts = {entry["name"]: entry["mountPath"] for entry in container["volumeMounts"]}
    assert mounts["faketime"] == "/faketime"
    assert mounts["tmp"] == "/tmp"  # noqa: S108 - in the pod
    assert {volume["name"] for volume in pod["spec"]["volumes"]} >= {"tmp", "faketime"}
    assert not has_library(await made(host, {"app": "another"}))
    assert not has_library(await made(host, LABELS, "other"))
