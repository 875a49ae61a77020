"""The memory limits of a plane follow what its store may hold, and what was measured of a full one fits them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.plane import apiserver, audit, etcd
from controller.plane.budgets import BUDGETS, COMPONENTS
from controller.plane.sizing import API_SERVER_MIB, STORE_QUOTA_MIB, beside_store_mib, needed_mib
from tests.kit.tenantsamples import plane_for, plane_spec, tenant, tenant_class

STORE = ("etcd", "apiserver", "controller_manager")
# The most that each program held of its own with so many MiB of data, under limits that let it live; large ConfigMaps fill a
# store of 512 MiB, of small ones there are 200 000 (docs/measurements/plane.md).
MEASURED = {
    ("large", 512): {"etcd": 1221, "apiserver": 2598, "controller_manager": 1754},
    ("small", 132): {"etcd": 145, "apiserver": 1037, "controller_manager": 584},
}
QUOTAS = st.integers(100, 8192)


@pytest.mark.parametrize("case", MEASURED)
def test_a_store_as_it_was_measured_fits_the_limits_of_such_a_quota(case: tuple[str, int]) -> None:
    for component, most in MEASURED[case].items():
        # What belongs to files that are mapped, and to the kernel, counts as well.
        assert most + 64 < needed_mib(component, case[1]), component


@given(QUOTAS, QUOTAS, st.sampled_from([1, 3]))
def test_more_data_never_gets_less_memory(one: int, other: int, replicas: int) -> None:
    small, large = sorted((one, other))
    for component in STORE:
        assert needed_mib(component, small, replicas) <= needed_mib(component, large, replicas)
        # Twice: what is read whole is an answer and what is made of it.
        assert needed_mib(component, large, replicas) > 2 * large
        assert needed_mib(component, large, 1) <= needed_mib(component, large, 3)


@given(QUOTAS, st.sampled_from([1, 3]))
def test_whatever_quota_a_tenant_has_its_limits_bear_it(quota: int, replicas: int) -> None:
    storage = {"size": "32Gi", "maxSize": "32Gi", "maxQuota": "8192Mi"}
    offer = tenant_class(controlPlane={"storage": storage, "maxReplicas": 3})
    spec = plane_for(tenant(controlPlane={"replicas": replicas, "storage": {"quota": f"{quota}Mi"}}), offer)
    assert f"--quota-backend-bytes={quota << 20}" in etcd.container(spec)["command"]
    for attribute in COMPONENTS.values():
        need = needed_mib(attribute, quota, replicas) or BUDGETS[attribute].memory_limit_mib
        assert getattr(spec.budgets, attribute).memory_limit_mib == need


def test_requests_are_those_of_a_plane_with_little_in_it_whatever_its_quota() -> None:
    storage = {"size": "32Gi", "quota": "8Gi"}
    small, large = (plane_for(tenant(), tenant_class(controlPlane=part)) for part in ({}, {"storage": storage}))
    for attribute in COMPONENTS.values():
        one, other = (getattr(plane.budgets, attribute).resources()["requests"] for plane in (small, large))
        assert one == other


def test_what_the_api_server_has_for_its_audit_trail_does_not_grow_with_the_store() -> None:
    assert beside_store_mib(needed_mib("apiserver"), STORE_QUOTA_MIB) == API_SERVER_MIB
    assert set(audit.flags(None)) <= set(apiserver.container(plane_spec())["command"])
    # A limit below what the store takes leaves a part all the same.
    assert beside_store_mib(900, STORE_QUOTA_MIB) == 300


@pytest.mark.parametrize(("replicas", "most"), [(1, 120), (3, 200)])
def test_etcd_keeps_few_entries_of_its_log_in_memory(replicas: int, most: int) -> None:
    """Each entry is up to 1.5 MiB, and etcd limits only their number: with the former 10,000 no memory limit would suffice."""
    command = etcd.container(plane_spec(control_plane={"replicas": replicas}))["command"]
    numbers = [int(flag.partition("=")[2]) for flag in command if flag.startswith(("--snapshot-count", "--snapshot-catchup"))]
    assert len(numbers) == 2
    assert sum(numbers) <= most
    assert sum(numbers) * 1.5 < needed_mib("etcd", 100, replicas)
