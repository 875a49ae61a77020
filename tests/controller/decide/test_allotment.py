"""What tenants are allotted: whatever a class counts has a limit everywhere, whatever a Tenant leaves out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.conditions import Reason
from bulkhead.api.quantity import Amount, canonical, parse, whole
from controller import allotment
from controller.decide.admit import refuse
from controller.plane.policyfacts import policy_facts
from controller.plane.quota import limit_range, resource_quotas
from controller.plane.sections import PodBound
from controller.plane.spec import PlaneSpec
from controller.plane.syncer import settings
from controller.refusal import Refusal
from controller.tenant.facets.quota import report as said
from syncer.settings import parse as read
from syncer.translate.kinds import node
from tests.kit.tenantsamples import case, plane_for, tenant, tenant_class

OTHERS = ("rdma/hca", "nvidia.com/hostdev")
NAMES = ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb", "example.com/tpu", "habana.ai/gaudi")


def built(asked: dict[str, Any], bounds: dict[str, Any]) -> PlaneSpec:
    return plane_for(asked, bounds)


def amounts(numbers: dict[str, int]) -> dict[str, Amount]:
    return {name: Amount.of(number) for name, number in numbers.items()}


@st.composite
def classes_and_tenants(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """A class, a Tenant of it, and the number of each resource that it names; much is left out on both sides."""
    counted = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    spec: dict[str, Any] = {"gpuResources": counted} if counted else {}
    others = draw(st.lists(st.sampled_from(OTHERS), unique=True, max_size=2))
    spec |= {"extendedResources": others} if others else {}
    bounds = tenant_class(**spec) if spec or draw(st.booleans()) else {"metadata": {"name": "standard"}, "spec": {}}
    counted = [*(bounds["spec"].get("gpuResources") or ["nvidia.com/gpu"]), *others]
    bounds["spec"]["quota"] = draw(st.sampled_from([{}, {"resources": {}}, {"resources": {counted[0]: {}}}]))
    named = draw(st.dictionaries(st.sampled_from(sorted(counted)), st.integers(0, 1_000_000)))
    spelled = {name: {"nominal": draw(st.sampled_from([number, str(number)]))} for name, number in named.items()}
    quota = draw(st.sampled_from([{"resources": spelled}, {"resources": spelled, "objects": {"pods": 5}}]))
    asked = tenant(quota=quota)
    if not named:
        asked["spec"] |= {"quota": draw(st.sampled_from([{}, {"resources": {}}, None, quota]))}
    return bounds, asked, named


@given(classes_and_tenants())
def test_everything_that_counts_as_a_gpu_is_limited_to_what_the_tenant_names(
    made: tuple[dict[str, Any], dict[str, Any], dict[str, int]],
) -> None:
    bounds, asked, named = made
    spec = built(asked, bounds)
    gpus = bounds["spec"].get("gpuResources") or ["nvidia.com/gpu"]
    counted = [*gpus, *bounds["spec"].get("extendedResources", ())]
    (hard,) = [quota["spec"]["hard"] for quota in resource_quotas(spec) if quota["metadata"]["name"] == "tenant-quota"]
    told = settings(spec)
    rooms = {"a": node.Room(dict.fromkeys(counted, 2_000_000), {})}
    shown = node.gpu_shares(rooms, {name: told["limits"].get(name, 0) for name in told["gpuResources"]}, {})
    assert (sorted(told["gpuResources"]), sorted(allotment.counted_resources(bounds["spec"]))) == (
        sorted(gpus),
        sorted(counted),
    )
    for name in counted:
        limit = named.get(name, 0)
        assert whole(hard[f"requests.{name}"]) == told["limits"][name] == limit
        assert name not in gpus or shown["a"][name] == limit
    total = sum(number for name, number in named.items() if name in gpus)
    summary = said.report(spec, {}).fields["gpus"]
    assert (summary["limit"], summary["summary"]) == (total, f"0/{total}")


def test_what_is_taken_back_later_is_limited_to_nothing_and_what_a_class_adds_is_too() -> None:
    both = tenant_class(gpuResources=["nvidia.com/gpu", "amd.com/gpu"])
    assert built(tenant(), both).quota.allotted == amounts({"nvidia.com/gpu": 24, "amd.com/gpu": 0})
    assert built(tenant(quota={"resources": {}}), both).quota.allotted == amounts({"nvidia.com/gpu": 0, "amd.com/gpu": 0})
    assert built(tenant(quota=None), tenant_class()).quota.allotted == amounts({"nvidia.com/gpu": 0})


def test_a_resource_that_the_class_no_longer_counts_is_refused_and_what_runs_stays_limited() -> None:
    refusal = refuse(case(tenant(), {"spec": {"gpuResources": ["amd.com/gpu"]}}))
    assert refusal is not None
    assert refusal.reason is Reason.IMPOSSIBLE_QUOTA
    assert "has no resource nvidia.com/gpu, only amd.com/gpu" in refusal.message


@pytest.mark.parametrize("nominal", ["1k", "1e3", 1000, "1000"])
def test_a_number_counts_however_it_is_spelled(nominal: Any) -> None:
    asked = tenant(quota={"resources": {"nvidia.com/gpu": {"nominal": nominal}}})
    spec = built(asked, {"spec": {"quota": {"resources": {"nvidia.com/gpu": {"maxNominal": "1000"}}}}})
    assert settings(spec)["limits"] == {"nvidia.com/gpu": 1000}
    refusal = refuse(case(asked, {"spec": {"quota": {"resources": {"nvidia.com/gpu": {"maxNominal": 999}}}}}))
    assert refusal is not None
    assert refusal.reason is Reason.OUT_OF_BOUNDS


@pytest.mark.parametrize("nominal", ["0.5", "500m", "-1", "", "many", 1_000_001, "1T", True, 0.5])
def test_a_malformed_number_of_gpus_is_refused(nominal: Any) -> None:
    refusal = refuse(case(tenant(quota={"resources": {"nvidia.com/gpu": {"nominal": nominal}}}), {"spec": {}}))
    assert refusal is not None
    assert refusal.reason is Reason.IMPOSSIBLE_QUOTA
    assert "spec.quota.resources[nvidia.com/gpu].nominal" in refusal.message


# -- cpu, memory, storage

AMOUNTS = ("cpu", "memory", "ephemeral-storage", "requests.storage")


def of_class(**resources: Any) -> dict[str, Any]:
    return {"metadata": {"name": "standard"}, "spec": {"quota": {"resources": resources}}}


def hard(spec: PlaneSpec) -> dict[str, str]:
    return {name: value for quota in resource_quotas(spec) for name, value in quota["spec"]["hard"].items()}


def test_a_tenant_has_what_it_asks_for_else_the_default_of_its_class_else_the_most() -> None:
    offer = of_class(cpu={"default": 64, "maxNominal": 512}, memory={"maxNominal": "4Ti"})
    plain = hard(built(tenant(quota=None), offer))
    assert (plain["requests.cpu"], plain["requests.memory"], plain["requests.nvidia.com/gpu"]) == ("64", "4Ti", "0")
    assert not {"requests.ephemeral-storage", "requests.storage"} & plain.keys()
    asked = {"cpu": {"nominal": "0.5e3"}, "memory": {"nominal": "512Gi"}, "requests.storage": {"nominal": "1024Gi"}}
    given = hard(built(tenant(quota={"resources": asked}), offer))
    assert (given["requests.cpu"], given["requests.memory"], given["requests.storage"]) == ("500", "512Gi", "1Ti")


def test_a_class_that_says_nothing_sets_no_ceiling_and_gives_no_gpus() -> None:
    def of_gpus(bounds: dict[str, Any]) -> dict[str, Amount]:
        return built(tenant(quota=None), bounds).quota.allotted

    assert of_gpus({"spec": {}}) == amounts({"nvidia.com/gpu": 0})
    assert of_gpus(of_class(**{"nvidia.com/gpu": {"default": 2, "maxNominal": 8}})) == amounts({"nvidia.com/gpu": 2})
    assert of_gpus(of_class(**{"nvidia.com/gpu": {"maxNominal": 8}})) == amounts({"nvidia.com/gpu": 0})


@given(
    st.sampled_from(AMOUNTS),
    st.dictionaries(
        st.sampled_from(["default", "maxNominal"]), st.sampled_from([0, 7, "7", "1k", "1Ki", "512Gi", "1e3", "2Ti"])
    ),
    st.none() | st.sampled_from([0, 7, "1k", "1000", "1Ki", "1e3", "600Gi", "3Ti", 10**12]),
)
def test_no_tenant_has_more_than_its_class_allows(name: str, offer: dict[str, Any], nominal: Any) -> None:
    if "default" in offer and "maxNominal" in offer and parse(offer["default"]) > parse(offer["maxNominal"]):
        return  # the CRD refuses it
    asked = tenant(quota={} if nominal is None else {"resources": {name: {"nominal": nominal}}})
    refusal = refuse(case(asked, of_class(**{name: offer})))
    if refusal is not None:
        assert refusal.reason is Reason.OUT_OF_BOUNDS
        assert parse(nominal) > parse(offer["maxNominal"])
        assert f"{nominal} is more than the {offer['maxNominal']}" in refusal.message
        return
    found = hard(built(asked, of_class(**{name: offer}))).get(name if name == "requests.storage" else f"requests.{name}")
    wanted = offer.get("default", offer.get("maxNominal")) if nominal is None else nominal
    assert found == (None if wanted is None else canonical(wanted))
    assert "maxNominal" not in offer or (found is not None and parse(found) <= parse(offer["maxNominal"]))


@pytest.mark.parametrize(
    ("name", "nominal"),
    [
        ("memory", "-1"),
        ("memory", "much"),
        ("cpu", ""),
        ("cpu", True),
        ("requests.storage", "0.5"),
        ("cpu", "1e40"),
        ("storage", 1),
    ],
)
def test_malformed_quantities_and_unknown_resources_are_refused(name: str, nominal: Any) -> None:
    refusal = refuse(case(tenant(quota={"resources": {name: {"nominal": nominal}}}), {"spec": {}}))
    assert refusal is not None
    assert (refusal.reason, f"spec.quota.resources[{name}]" in refusal.message) == (Reason.IMPOSSIBLE_QUOTA, True)


def test_a_class_that_cannot_be_read_is_refused_with_the_field() -> None:
    refusal = refuse(case(tenant(), of_class(memory={"maxPerPod": "1e40"})))
    assert refusal is not None
    assert (
        "class: spec.quota.resources[memory].maxPerPod: must be a quantity such as 64 or 512Gi, not '1e40'" in refusal.message
    )


def test_a_class_whose_number_of_objects_cannot_be_read_is_refused_with_the_field() -> None:
    refusal = refuse(case(tenant(), tenant_class(quota={"objects": {"pods": "many"}})))
    assert refusal == Refusal(Reason.IMPOSSIBLE_QUOTA, "class: spec.quota.objects[pods]: must be a quantity, not 'many'")
    asked = refuse(case(tenant(quota={"objects": {"count/a.b": "many"}}), tenant_class()))
    assert asked is not None
    assert (asked.reason, "spec.quota.objects[count/a.b]: many" in asked.message) == (Reason.OUT_OF_BOUNDS, True)


def test_bounds_of_pods_and_claims_go_to_syncer_policy_and_limit_range() -> None:
    offer = of_class(
        cpu={"maxPerPod": "0.5"}, memory={"maxPerPod": "1024Gi", "maxLimitRequestRatio": 4},
        **{"requests.storage": {"maxPerClaim": "100Gi"}},
    )  # fmt: skip
    spec = built(tenant(), offer)
    assert spec.quota.pod_bounds == (PodBound("cpu", "500m"), PodBound("memory", "1Ti", "4"))
    told = settings(spec)
    assert (told["mostPerPod"], told["mostLimitRequestRatio"]) == ({"cpu": "500m", "memory": "1Ti"}, {"memory": "4"})
    facts = policy_facts(spec)
    assert facts["bulkhead.dev/most-per-pod"] == "cpu=500m,memory=1Ti"
    assert facts["bulkhead.dev/most-limit-request-ratio"] == "memory=4"
    assert facts["bulkhead.dev/most-per-claim"] == told["mostPerClaim"] == "100Gi"
    assert [limit["type"] for limit in limit_range(spec)["spec"]["limits"]] == ["Container"]
    assert "mostPerPod" not in settings(built(tenant(), tenant_class()))


def defaults(**given: Any) -> dict[str, Any]:
    (found,) = limit_range(built(tenant(), tenant_class(**given)))["spec"]["limits"]
    return found


SMALL = {"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "64Mi"}


def test_containers_always_get_a_request_and_a_limit_only_where_the_class_has_one() -> None:
    assert defaults() == {"type": "Container", "defaultRequest": SMALL}
    found = defaults(containerDefaults={"requests": {"cpu": "1"}, "limits": {"memory": "4Gi", "cpu": "2"}})
    assert found == {"type": "Container", "defaultRequest": SMALL | {"cpu": "1"}, "default": {"memory": "4Gi", "cpu": "2"}}
    assert defaults(containerDefaults={"limits": {"memory": "16Mi"}})["defaultRequest"]["memory"] == "16Mi"


def test_pods_that_have_ended_count_and_leave_room_for_those_that_run() -> None:
    for quota, wanted in (
        ({}, {"pods": "1k", "count/pods": "2k"}),
        ({"objects": {"pods": 5000}}, {"pods": "5k", "count/pods": "6k"}),
        ({"objects": {"pods": 5000, "count/pods": 5500}}, {"pods": "5k", "count/pods": "5500"}),
    ):
        found = hard(built(tenant(), tenant_class(quota=quota)))
        assert {name: found[name] for name in wanted} == wanted
    found = hard(built(tenant(quota={"objects": {"pods": 10}}), tenant_class()))
    assert (found["pods"], found["count/pods"], found["secrets"]) == ("10", "2k", "3k")


def test_a_device_class_counts_against_the_resource_that_it_stands_for_or_has_none_unless_a_number_is_given() -> None:
    bounds = {
        "extendedResources": ["rdma/hca", "hugepages-2Mi"],
        "allowedDeviceClasses": ["a", "b", "c", "d", "e"],
        "deviceClassQuota": {
            "a": {"resource": "nvidia.com/gpu"},
            "b": {"resource": "rdma/hca"},
            "c": {"devices": 4},
            # A resource that the class once counted, and one that is not allowed.
            "d": {"resource": "amd.com/gpu"},
            "e": {"resource": "hugepages-2Mi"},
            "z": {"devices": 9},
        },
    }
    assert allotment.device_classes(bounds) == {"a": "nvidia.com/gpu", "b": "rdma/hca", "c": 4, "d": 0, "e": 0}
    assert allotment.device_classes({}) == {}
    spec = built(tenant(), {"metadata": {"name": "standard"}, "spec": bounds})
    told = read(json.dumps(settings(spec)).encode())
    assert told.extended_resources == ("rdma/hca", "hugepages-2Mi")
    assert told.device_class_resources == {"a": "nvidia.com/gpu", "b": "rdma/hca"}
    assert told.limits == {"nvidia.com/gpu": 24, "rdma/hca": 0, "c": 4, "d": 0, "e": 0}


# -- classes that contradict themselves


def why(**given: Any) -> str:
    """Why no tenant of such a class can be had."""
    found = refuse(case(tenant(quota=None), {"metadata": {"name": "standard"}, "spec": given}))
    return found.message if found else ""


@pytest.mark.parametrize(
    "name",
    [
        "pods", "services", "storage", "count/pods", "count/ingresses.networking.k8s.io", "requests.cpu", "requests.memory",
        "requests.nvidia.com/gpu", "limits.nvidia.com/gpu", "limits.pods", "requests.hugepages-2Mi", "kubernetes.io/cpu",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "gpu.example.com.deviceclass.resource.k8s.io/devices",
    ],
)  # fmt: skip
def test_a_class_has_quotas_of_what_the_host_counts_and_each_under_one_name(name: str) -> None:
    assert f"[{name}]: cannot be counted, only cpu" in why(quota={"resources": {name: {"default": 4}}})
    assert f"{name}: cannot be counted, only" in why(gpuResources=[name])
    asked = refuse(case(tenant(quota={"resources": {name: {"nominal": 4}}}), {"spec": {}}))
    assert asked is not None
    assert asked.reason is Reason.IMPOSSIBLE_QUOTA


def test_a_quota_of_limits_needs_a_limit_for_pods_that_name_none() -> None:
    quota = {"resources": {"limits.memory": {"default": "64Gi"}}}
    said = "[limits.memory]: the host would reject pods without a limit; set containerDefaults.limits.memory as their default"
    without: tuple[dict[str, Any], ...] = ({}, {"limits": {"cpu": 1}}, {"requests": {"memory": "1Gi"}})
    for defaulted in without:
        assert said in why(quota=quota, containerDefaults=defaulted)
    assert not why(quota=quota, containerDefaults={"limits": {"memory": "4Gi"}})


@pytest.mark.parametrize(
    ("bound", "given", "said"),
    [
        ({"maxLimitRequestRatio": 10}, {"requests": {"cpu": "10m"}, "limits": {"cpu": 4}}, "4 is more than 10 times"),
        ({"maxLimitRequestRatio": "10"}, {"limits": {"cpu": "4e0"}}, "the default request of 10m"),
        ({"maxLimitRequestRatio": 10}, {"requests": {"cpu": "0.4"}, "limits": {"cpu": 4}}, ""),
        ({"maxLimitRequestRatio": 10}, {"requests": {"cpu": 0}, "limits": {"cpu": 4}}, "the default request of 0"),
        ({"maxLimitRequestRatio": 10}, {"limits": {"cpu": "5m"}}, ""),
        ({"maxLimitRequestRatio": 10}, {"limits": {"memory": "64Gi"}}, ""),
        ({"maxPerPod": "300m"}, {"requests": {"cpu": "301m"}}, "301m is more than one pod may request"),
        ({"maxPerPod": "300m"}, {"requests": {"cpu": "0.3"}, "limits": {"cpu": 4}}, ""),
        ({}, {"requests": {"cpu": "2"}, "limits": {"cpu": "1900m"}}, "2 is more than the default limit of 1900m"),
        ({"maxPerPod": "9m"}, {}, "10m is more than one pod may request: maxPerPod of cpu is 9m"),
    ],
)
def test_what_a_class_gives_containers_keeps_to_its_own_bounds(bound: Any, given: Any, said: str) -> None:
    found = why(quota={"resources": {"cpu": bound}}, containerDefaults=given)
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.parametrize("name", ["pods", "requests.cpu", "storage", "nvidia.com/gpu"])
def test_containers_are_given_what_every_container_uses_and_nothing_else(name: str) -> None:
    for part in ("requests", "limits"):
        assert f"containerDefaults.{part}[{name}]: defaults exist only for cpu" in why(containerDefaults={part: {name: 1}})


def test_the_syncer_is_told_what_containers_are_given() -> None:
    told = read(json.dumps(settings(built(tenant(), tenant_class(containerDefaults={"limits": {"cpu": 2}})))).encode())
    assert told.container_defaults.requests == SMALL
    assert told.container_defaults.limits == {"cpu": "2"}


# -- tolerations of classes that were stored before the CRD refused them

OWN = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
PATIENT = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}


@pytest.mark.parametrize("field", ["tolerations", "allowedTolerations"])
@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"operator": "Exists"}, ".key: must be the key of a taint: without it, every taint is tolerated"),
        ({"key": "", "operator": "Exists", "effect": "NoSchedule"}, ".key: must be the key of a taint"),
        ({"key": None}, ".key: must be the key of a taint"),
        ({}, ".key: must be the key of a taint"),
        (
            {"key": "bulkhead.dev/tenant", "operator": "Exists"},
            ".key: bulkhead.dev/tenant: tolerations of bulkhead.dev taints are not allowed",
        ),
        (
            {"key": "x.bulkhead.dev/tenant", "value": "a"},
            ".key: x.bulkhead.dev/tenant: tolerations of bulkhead.dev taints are not allowed",
        ),
        (
            {"key": "node-role.kubernetes.io/control-plane"},
            ".key: node-role.kubernetes.io/control-plane: is not allowed: it keeps tenants off",
        ),
        ({"key": "pool=gpu", "operator": "Exists"}, ": pool=gpu= is not a valid key and value"),
        ({"key": "a", "value": "b c"}, ": a=b c is not a valid key and value"),
        ({"key": "a", "operator": "Exists", "value": "b"}, ".value: b: operator Exists compares no value"),
        ({"key": "a", "tolerationSeconds": 0}, ".tolerationSeconds: needs effect NoExecute"),
    ],
)
def test_what_no_pod_may_tolerate_is_refused_with_its_entry_and_dropped_for_those_that_run(
    field: str, entry: dict[str, Any], said: str
) -> None:
    nodes = {"selector": {"pool": "a"}, field: [OWN, entry, PATIENT]}
    refusal = refuse(case(tenant(quota=None), tenant_class(nodes=nodes)))
    assert refusal is not None
    assert refusal.reason is Reason.INVALID_CONFIGURATION
    assert f"class: spec.nodes.{field}[1]{said}" in refusal.message
    assert allotment.without_faults({"nodes": nodes})["nodes"] == {"selector": {"pool": "a"}, field: [OWN, PATIENT]}


def test_tolerations_of_a_pools_own_taints_stay() -> None:
    nodes = {"tolerations": [OWN, {"key": "mybulkhead.dev/x"}], "allowedTolerations": [PATIENT]}
    assert not why(nodes=nodes)
    assert allotment.without_faults({"nodes": nodes})["nodes"] == nodes
    assert "nodes" not in allotment.without_faults({})
