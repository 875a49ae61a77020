"""What tenants are allotted: whatever a class counts has a limit everywhere, whatever a Tenant leaves out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.conditions import Reason
from bulkhead.api.quantity import whole
from controller import allotment, status
from controller.admit import admit, refuse
from controller.plane.quota import resource_quotas
from controller.plane.spec import PlaneSpec
from controller.plane.syncer import settings
from controller.settings import Settings
from controller.status import Findings
from syncer.translate import node
from tests.controller.samples import tenant, tenant_class

NAMES = ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb", "example.com/tpu", "habana.ai/gaudi")


def built(asked: dict[str, Any], bounds: dict[str, Any]) -> PlaneSpec:
    made = admit(asked, bounds, Settings(), service_slice="10.112.4.0/22")
    assert isinstance(made, PlaneSpec), made
    return made


@st.composite
def classes_and_tenants(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """A class, a Tenant of it, and the number of each resource that it names; much is left out on both sides."""
    counted = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    spec: dict[str, Any] = {"gpuResources": counted} if counted else {}
    bounds = tenant_class(**spec) if counted or draw(st.booleans()) else {"metadata": {"name": "standard"}, "spec": {}}
    counted = bounds["spec"].get("gpuResources") or ["nvidia.com/gpu"]
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
    counted = bounds["spec"].get("gpuResources") or ["nvidia.com/gpu"]
    (hard,) = [each["spec"]["hard"] for each in resource_quotas(spec) if each["metadata"]["name"] == "tenant-quota"]
    told = settings(spec)
    rooms = {"a": node.Room(dict.fromkeys(counted, 2_000_000), {})}
    shown = node.gpu_shares(rooms, {name: told["limits"].get(name, 0) for name in told["gpuResources"]}, {})
    assert sorted(told["gpuResources"]) == sorted(allotment.counted_resources(bounds["spec"])) == sorted(counted)
    for name in counted:
        limit = named.get(name, 0)
        assert whole(hard[f"requests.{name}"]) == told["limits"][name] == shown["a"][name] == limit
    gpus = status.summary(spec, Findings(), {})["gpus"]
    assert (gpus["limit"], gpus["summary"]) == (sum(named.values()), f"0/{sum(named.values())}")


def test_what_is_taken_back_later_is_limited_to_nothing_and_what_a_class_adds_is_too() -> None:
    both = tenant_class(gpuResources=["nvidia.com/gpu", "amd.com/gpu"])
    assert built(tenant(), both).allotted == {"nvidia.com/gpu": "24", "amd.com/gpu": "0"}
    assert built(tenant(quota={"resources": {}}), both).allotted == {"nvidia.com/gpu": "0", "amd.com/gpu": "0"}
    assert built(tenant(quota=None), tenant_class()).allotted == {"nvidia.com/gpu": "0"}


def test_a_resource_that_the_class_no_longer_counts_is_refused_and_what_runs_stays_limited() -> None:
    refusal = refuse(tenant(), {"spec": {"gpuResources": ["amd.com/gpu"]}}, Settings())
    assert refusal is not None
    assert refusal.reason is Reason.IMPOSSIBLE_QUOTA
    assert "knows no resource nvidia.com/gpu, only amd.com/gpu" in refusal.message


@pytest.mark.parametrize("nominal", ["1k", "1e3", 1000, "1000"])
def test_a_number_counts_however_it_is_spelled(nominal: Any) -> None:
    asked = tenant(quota={"resources": {"nvidia.com/gpu": {"nominal": nominal}}})
    spec = built(asked, {"spec": {"quota": {"resources": {"nvidia.com/gpu": {"maxNominal": "1000"}}}}})
    assert settings(spec)["limits"] == {"nvidia.com/gpu": 1000}
    refusal = refuse(asked, {"spec": {"quota": {"resources": {"nvidia.com/gpu": {"maxNominal": 999}}}}}, Settings())
    assert refusal is not None
    assert refusal.reason is Reason.OUT_OF_BOUNDS


@pytest.mark.parametrize("nominal", ["0.5", "500m", "-1", "", "many", 1_000_001, "1T", True, 0.5])
def test_what_is_no_number_of_gpus_is_refused(nominal: Any) -> None:
    refusal = refuse(tenant(quota={"resources": {"nvidia.com/gpu": {"nominal": nominal}}}), {"spec": {}}, Settings())
    assert refusal is not None
    assert refusal.reason is Reason.IMPOSSIBLE_QUOTA
    assert "spec.quota.resources[nvidia.com/gpu].nominal" in refusal.message
