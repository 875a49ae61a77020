"""What a tenant may use of the host, and the parts of its plane of a node: quotas, and how much Go code runs at once."""

import json

import pytest

from bulkhead.api import deviceclaims
from bulkhead.ledger.given import write
from bulkhead.ledger.model import Share, Tenant
from controller.plane.budgets import Budget
from controller.plane.quota import limit_range, resource_quotas
from controller.plane.syncer import settings
from tests.kit.tenantsamples import changed, plane_spec


def test_each_limit_stands_in_one_quota_and_that_of_pods_holds_what_pods_use() -> None:
    limits = {
        "pods": "1", "count/pods": "2", "requests.cpu": "3", "limits.memory": "4", "memory": "5", "hugepages-2Mi": "6",
        "secrets": "1", "count/secrets": "2",
        "configmaps": "1", "count/ingresses.networking.k8s.io": "2", "requests.storage": "3", "services.nodeports": "0",
        "gold.storageclass.storage.k8s.io/requests.storage": "4",
    }  # fmt: skip
    spec = plane_spec(quota={"object_limits": tuple(limits.items())})
    found = {quota["metadata"]["name"]: quota["spec"]["hard"] for quota in resource_quotas(spec)}
    assert list(found) == ["tenant-objects", "tenant-secrets", "tenant-quota"]
    # Four ConfigMaps there are the host's and the platform's, and the tokens of the two pods lie in Secrets.
    wanted = limits | {"requests.nvidia.com/gpu": "24", "configmaps": "5", "secrets": "3", "count/secrets": "4"}
    assert {key: value for hard in found.values() for key, value in hard.items()} == wanted
    assert sum(len(hard) for hard in found.values()) == len(limits) + 1
    assert set(found["tenant-secrets"]) == {"secrets", "count/secrets"}
    assert set(found["tenant-quota"]) == {
        "pods", "count/pods", "requests.cpu", "limits.memory", "memory", "hugepages-2Mi", "requests.nvidia.com/gpu",
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "hard"), [("0", "4"), ("2k", "2004"), ("996", "1k"), ("1500m", "1500m")])
def test_what_host_and_platform_keep_does_not_count_against_the_tenant(limit: str, hard: str) -> None:
    spec = plane_spec(quota={"object_limits": (("count/configmaps", limit), ("services", limit))})
    found = {quota["metadata"]["name"]: quota["spec"]["hard"] for quota in resource_quotas(spec)}
    assert found["tenant-objects"] == {"count/configmaps": hard, "services": limit}


@pytest.mark.parametrize(("limit", "hard"), [("1000", "1k"), ("1024Mi", "1Gi"), ("0.5", "500m")])
def test_limits_are_written_as_the_host_will_show_them(limit: str, hard: str) -> None:
    (found,) = resource_quotas(plane_spec(quota={"object_limits": (("pods", limit),)}))
    assert found["spec"]["hard"]["pods"] == hard


@pytest.mark.parametrize(
    ("pods", "hard"),
    [
        ({"pods": "100"}, "110"),
        ({"count/pods": "5"}, "15"),
        ({"pods": "100", "count/pods": "5"}, "15"),
        ({"pods": "100", "count/pods": "1100"}, "1110"),
        ({"pods": "2k"}, "2010"),
        ({"pods": "0.5"}, "10"),
        ({}, "10"),
    ],
)
def test_the_tokens_of_as_many_pods_as_there_may_be_do_not_count_against_the_tenant(pods: dict[str, str], hard: str) -> None:
    spec = plane_spec(quota={"object_limits": (("secrets", "10"), *pods.items())})
    found = {quota["metadata"]["name"]: quota["spec"]["hard"] for quota in resource_quotas(spec)}
    assert found["tenant-secrets"] == {"secrets": hard}


@pytest.mark.parametrize(
    ("limit", "cores", "threads"),
    [
        ("1", None, "1"),
        ("250m", None, "1"),
        ("1500m", 1, "2"),
        ("4", 1, "4"),
        (None, 1, "1"),
        (None, None, None),
        # No limit in practice, or none at all: a container's runtime is the wrong place to fail.
        ("1k", 1, "1"),
        ("0", None, None),
        ("999999999999P", 1, "1"),
        ("much", None, None),
    ],
)
def test_as_much_go_code_runs_at_once_as_the_limit_of_cpu_lets(
    limit: str | None, cores: int | None, threads: str | None
) -> None:
    env = {
        variable["name"]: variable["value"] for variable in Budget("10m", "64Mi", 100, cpu_limit=limit, cores=cores).go_env(60)
    }
    assert env == {"GOGC": "60", "GOMEMLIMIT": "90MiB"} | ({"GOMAXPROCS": threads} if threads else {})


def test_without_any_limit_the_quota_of_pods_is_there() -> None:
    assert [quota["metadata"]["name"] for quota in resource_quotas(plane_spec(quota={"limits": (), "object_limits": ()}))] == [
        "tenant-quota"
    ]


def test_a_gpu_resource_without_a_limit_is_limited_to_nothing() -> None:
    spec = plane_spec(quota={"gpu_resources": ("nvidia.com/gpu", "amd.com/gpu"), "limits": (), "object_limits": ()})
    (found,) = resource_quotas(spec)
    assert found["spec"]["hard"] == {"requests.nvidia.com/gpu": "0", "requests.amd.com/gpu": "0"}
    assert settings(spec)["limits"] == {"nvidia.com/gpu": 0, "amd.com/gpu": 0}


def test_containers_get_a_request_and_claims_no_bound_that_would_judge_each_of_their_changes() -> None:
    spec = changed(
        plane_spec(), quota={"container_defaults": (("cpu", "10m", ""), ("memory", "32Mi", "4Gi")), "most_per_claim": "2Ti"}
    )
    assert limit_range(spec)["spec"]["limits"] == [
        {"type": "Container", "defaultRequest": {"cpu": "10m", "memory": "32Mi"}, "default": {"memory": "4Gi"}},
    ]
    assert settings(spec)["mostPerClaim"] == "2Ti"
    assert settings(spec)["containerDefaults"] == {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "4Gi"}}


def test_a_count_of_objects_never_stands_in_the_place_of_a_quota() -> None:
    spec = plane_spec(quota={"object_limits": (("requests.nvidia.com/gpu", "500"), ("requests.cpu", "7"))})
    (found,) = resource_quotas(spec)
    assert found["spec"]["hard"] == {"requests.nvidia.com/gpu": "24", "requests.cpu": "7"}


def test_devices_by_claims_are_held_to_the_resource_that_they_stand_for_or_to_a_number_of_their_own() -> None:
    spec = plane_spec(
        quota={
            "extended_resources": ("rdma/hca", "hugepages-2Mi"),
            "limits": (("hugepages-2Mi", "8Gi"), ("nvidia.com/gpu", "24")),
            "object_limits": (("pods", "10"), (deviceclaims.COUNT, "200")),
            "device_classes": (
                ("gpu.example.com", "nvidia.com/gpu"),
                ("nic.example.com", "rdma/hca"),
                ("imex.example.com", 4),
                ("x", 0),
            ),
        },
    )
    found = {quota["metadata"]["name"]: quota["spec"]["hard"] for quota in resource_quotas(spec)}
    # Claims of the host's own scheduler, one for each pod at most, are not the tenant's.
    assert found["tenant-objects"] == {
        "count/resourceclaims.resource.k8s.io": "210",
        "gpu.example.com.deviceclass.resource.k8s.io/devices": "24",
        "nic.example.com.deviceclass.resource.k8s.io/devices": "0",
        "imex.example.com.deviceclass.resource.k8s.io/devices": "4",
        "x.deviceclass.resource.k8s.io/devices": "0",
    }
    assert found["tenant-quota"] == {
        "pods": "10", "requests.nvidia.com/gpu": "24", "requests.rdma/hca": "0", "requests.hugepages-2Mi": "8Gi",
    }  # fmt: skip
    told = settings(spec)
    assert told["limits"] == {"nvidia.com/gpu": 24, "rdma/hca": 0, "imex.example.com": 4, "x": 0}
    assert told["deviceClassResources"] == {"gpu.example.com": "nvidia.com/gpu", "nic.example.com": "rdma/hca"}


def test_what_devices_of_a_class_are_metered_as_is_noted_with_the_flavor_that_the_tenant_likes_best() -> None:
    shares = {(flavor, "nvidia.com/gpu"): Share(4) for flavor in ("a100", "h100")}
    tenant = Tenant("team-a", cohort="c", shares=shares, prefers={"nvidia.com/gpu": ("h100", "a100")})
    classes = (("gpu.example.com", "nvidia.com/gpu"), ("nic.example.com", "rdma/hca"), ("imex.example.com", 4))
    spec = plane_spec(
        quota={"extended_resources": ("rdma/hca",), "limits": (("nvidia.com/gpu", "24"),), "device_classes": classes},
        ledger={"given": write(tenant)},
    )
    (quota,) = [quota for quota in resource_quotas(spec) if quota["metadata"]["name"] == "tenant-objects"]
    assert json.loads(quota["metadata"]["annotations"][deviceclaims.LINES]) == {
        "gpu.example.com": "nvidia.com/gpu@h100", "nic.example.com": "rdma/hca",
    }  # fmt: skip
    # As it is read, nothing is reported about a class of which the tenant may have no device.
    assert deviceclaims.lines_of(quota) == {
        "gpu.example.com": ("h100", "nvidia.com/gpu"), "imex.example.com": ("", "imex.example.com"),
    }  # fmt: skip
