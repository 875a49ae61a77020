"""User namespaces where a class prefers them: for pods that surely can have one, and never for one that could not start."""

from dataclasses import replace
from typing import Any

import pytest

from syncer.translate.kinds import pod as pods
from syncer.translate.podspec import users
from tests.kit.translationsamples import POD, pod, view

VIEW = replace(view(), prefers_user_namespaces=True, nodes_support_user_namespaces=True)
CONTAINER = POD["spec"]["containers"][0]
ON_NODE = [
    {"name": "a", "emptyDir": {}},
    {"name": "b", "configMap": {"name": "x"}},
    {"name": "c", "secret": {"secretName": "x"}},
    {"name": "d", "downwardAPI": {"items": []}},
    {"name": "e", "projected": {"sources": [{"configMap": {"name": "x"}}]}},
]


def of(*, under: Any = VIEW, **spec: Any) -> tuple[Any, str]:
    """What a host pod says about its users, and what its tenant is told."""
    virtual = pod({"containers": [CONTAINER], **spec})
    made = pods.for_creation(virtual, under)["spec"]
    return made.get("hostUsers"), users.shared(made, virtual["spec"], under)


def container(**more: Any) -> list[dict[str, Any]]:
    return [CONTAINER | more]


def test_a_pod_that_can_gets_users_of_its_own() -> None:
    assert of() == (False, "")
    context = {"runAsUser": 65535, "fsGroup": 0, "supplementalGroups": [1]}
    assert of(volumes=ON_NODE, securityContext=context) == (False, "")
    assert of(containers=container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})) == (False, "")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "nfs"}}]}, "volume data"),
        ({"volumes": [{"name": "code", "image": {"reference": "x"}}]}, "volume code"),
        ({"containers": container(resources={"limits": {"nvidia.com/gpu": "1"}})}, "nvidia.com/gpu"),
        ({"initContainers": [CONTAINER | {"name": "i", "resources": {"limits": {"rdma/shared": "1"}}}]}, "rdma/shared"),
        ({"containers": container(resources={"limits": {"hugepages-2Mi": "2Mi", "memory": "1Gi"}})}, "hugepages-2Mi"),
        ({"containers": container(securityContext={"runAsUser": 65536})}, "65536 or above"),
        ({"securityContext": {"fsGroup": 1000650000}}, "65536 or above"),
        ({"securityContext": {"supplementalGroups": [1, 70000]}}, "65536 or above"),
        ({"containers": container(securityContext={"capabilities": {"add": ["MKNOD"]}})}, "MKNOD"),
        ({"runtimeClassName": "sandboxed"}, "runtime class"),
    ],
)
def test_a_pod_that_may_not_start_with_them_keeps_the_nodes_users_and_says_why(spec: dict[str, Any], why: str) -> None:
    resources = VIEW.allowed_resources | {"hugepages-2Mi"}
    found, told = of(under=replace(VIEW, allowed_resources=resources), **spec)
    assert found is None
    assert why in told


def test_devices_by_claims_keep_the_nodes_users() -> None:
    claimed = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
    found, told = of(under=replace(VIEW, device_classes=frozenset({"gpu.example.com"})), **claimed)
    assert found is None
    assert "devices" in told


def test_what_a_pod_says_itself_counts() -> None:
    assert of(hostUsers=True) == (True, "")
    assert of(hostUsers=False) == (False, "")


def test_one_node_that_reports_nothing_is_enough() -> None:
    found, told = of(under=replace(VIEW, nodes_support_user_namespaces=False))
    assert found is None
    assert "not all nodes" in told


def test_without_the_preference_nothing_changes() -> None:
    assert of(under=replace(VIEW, prefers_user_namespaces=False)) == (None, "")
    # Where the class requires them, nothing is in their way.
    required = replace(VIEW, user_namespaces=True, prefers_user_namespaces=False)
    assert of(under=required, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "x"}}]) == (False, "")


@pytest.mark.parametrize(
    ("handlers", "supports"),
    [
        ([{"name": "", "features": {"userNamespaces": True}}], True),
        ([{"features": {"userNamespaces": True}}], True),
        ([{"name": "", "features": {"userNamespaces": False}}, {"name": "runc", "features": {"userNamespaces": True}}], False),
        ([{"name": "runc", "features": {"userNamespaces": True}}], False),
        ([{"name": "", "features": {"userNamespaces": "yes"}}], False),
        ([{"name": ""}], False),
        ([], False),
        ("all", False),
        (None, False),
    ],
)
def test_a_node_supports_them_if_its_default_runtime_reports_it(handlers: Any, supports: bool) -> None:
    assert users.supports({"status": {"runtimeHandlers": handlers}}) is supports
