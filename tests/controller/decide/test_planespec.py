"""What becomes of a Tenant and its class: the plane's budgets, isolation and offers."""

from typing import Any

import pytest

from bulkhead.api import privileges
from bulkhead.api.conditions import Reason
from bulkhead.api.quantity import Amount
from controller.decide.admit import refuse
from controller.decide.planespec import revoked_of
from controller.plane.spec import PlaneSpec
from controller.settings import Settings
from tests.kit.tenantsamples import case, plane_for, tenant, tenant_class

# What each container may take of a node's disk, whatever else it may take.
DISK = {"ephemeral-storage": "1024Mi"}


def test_a_tenants_section_lies_over_its_classs() -> None:
    asked = tenant(isolation={"podSecurity": "restricted"}, controlPlane={"storage": {"size": "4Gi"}})
    bounds = tenant_class(
        isolation={"podSecurity": "baseline", "allowedRuntimeClasses": ["gvisor"]},
        priorityClassName="low",
        controlPlane={"storage": {"size": "2Gi", "maxSize": "8Gi", "className": "fast"}},
    )
    spec = plane_for(asked, bounds)
    assert (spec.isolation.pod_security, spec.storage.template_size, spec.offers.default_priority_class) == (
        "restricted",
        "4Gi",
        "low",
    )
    # What the tenant leaves out of a section that it writes is still the class's.
    assert (spec.isolation.allowed_runtime_classes, spec.storage.template_class) == (("gvisor",), "fast")
    assert spec.quota.limits == (("nvidia.com/gpu", Amount.of(24)),)


def test_the_class_says_which_profiles_there_are_and_either_may_ask_for_user_namespaces() -> None:
    def built(asked: dict[str, Any], bounds: dict[str, Any]) -> PlaneSpec:
        return plane_for(tenant(isolation=asked), tenant_class(isolation=bounds))

    profiles = {"allowedSeccompProfiles": ["audit.json"], "allowedAppArmorProfiles": ["tools"]}
    assert built(profiles, {}).isolation.seccomp_profiles == built(profiles, {}).isolation.apparmor_profiles == ()
    spec = built({}, profiles)
    assert (spec.isolation.seccomp_profiles, spec.isolation.apparmor_profiles, spec.isolation.user_namespaces) == (
        ("audit.json",),
        ("tools",),
        False,
    )
    for asked, bounds in ((True, None), (True, False), (None, True), (True, True)):
        assert built({"userNamespaces": asked}, {"userNamespaces": bounds}).isolation.user_namespaces
    assert not built({"userNamespaces": False}, {"userNamespaces": None}).isolation.user_namespaces
    # Preferred, a Tenant may decline them; required, by either side, nothing is left to prefer.
    prefers = {"preferUserNamespaces": True}
    assert built({}, prefers).isolation.prefer_user_namespaces
    assert not built({"userNamespaces": False}, prefers).isolation.prefer_user_namespaces
    assert not built({"userNamespaces": True}, prefers).isolation.prefer_user_namespaces
    assert not built({}, prefers | {"userNamespaces": True}).isolation.prefer_user_namespaces
    assert not built({}, {}).isolation.prefer_user_namespaces


def test_item_35_snapshots_are_counted_where_the_class_offers_them() -> None:
    def built(**bounds: Any) -> PlaneSpec:
        return plane_for(tenant(), tenant_class(**bounds))

    kind = "count/volumesnapshots.snapshot.storage.k8s.io"
    assert kind not in dict(built().quota.object_limits)
    assert built(allowedSnapshotClasses=["daily"]).offers.snapshot_classes == ("daily",)
    assert dict(built(allowedSnapshotClasses=["daily"]).quota.object_limits)[kind] == Amount.of(100)
    assert dict(built(allowedSnapshotClasses=["daily"], quota={"objects": {kind: 5}}).quota.object_limits)[kind] == Amount.of(5)


def test_resources_of_components_are_taken_over_field_by_field() -> None:
    resources = {"apiServer": {"limits": {"memory": "2.5Gi", "cpu": "2"}}, "dns": {"requests": {"cpu": "7m"}}}
    bounds = tenant_class(
        controlPlane={
            "resources": {"etcd": {"limits": {"cpu": "1"}}, "apiServer": {"limits": {"cpu": "4"}}},
            "maxResources": resources,
        }
    )
    spec = plane_for(tenant(controlPlane={"resources": resources}), bounds)
    assert spec.budgets.apiserver.resources()["limits"] == DISK | {"memory": "2560Mi", "cpu": "2"}
    assert (spec.budgets.apiserver.cpu, spec.budgets.etcd.resources()["limits"]) == (
        "50m",
        DISK | {"memory": "1408Mi", "cpu": "1"},
    )
    assert (spec.budgets.dns.cpu, spec.budgets.dns.memory_limit_mib) == ("7m", 128)


@pytest.mark.parametrize(
    ("control", "limits"),
    [
        ({}, {"etcd": "1", "apiserver": "2", "controller_manager": "1", "syncer": "1", "dns": "1"}),
        ({"cpuLimits": "None"}, dict.fromkeys(("etcd", "apiserver", "controller_manager", "syncer", "dns"))),
        ({"resources": {"apiServer": {"requests": {"cpu": "260m"}}}}, {"apiserver": "11", "etcd": "1"}),
        ({"resources": {"etcd": {"requests": {"cpu": "1m"}}}}, {"apiserver": "2", "etcd": "1"}),
        # What a class sets itself counts as it stands, also where nothing follows from requests.
        ({"resources": {"etcd": {"limits": {"cpu": "250m"}}}}, {"apiserver": "2", "etcd": "250m"}),
        ({"cpuLimits": "None", "resources": {"etcd": {"limits": {"cpu": "250m"}}}}, {"apiserver": None, "etcd": "250m"}),
    ],
)
def test_cpu_limits_of_a_plane_follow_what_its_class_requests(control: dict[str, Any], limits: dict[str, str | None]) -> None:
    budgets = plane_for(tenant(), tenant_class(controlPlane=control)).budgets
    assert {name: getattr(budgets, name).cpu_limit for name in limits} == limits


def test_a_cpu_limit_is_as_many_cores_as_go_runs_threads() -> None:
    """Fewer threads than cores are never throttled, so a start takes as long as without a limit."""
    larger = {"resources": {"apiServer": {"requests": {"cpu": "260m"}}}}
    budgets = plane_for(tenant(), tenant_class(controlPlane=larger)).budgets
    for budget in (budgets.etcd, budgets.apiserver, budgets.controller_manager, budgets.dns):
        assert {"name": "GOMAXPROCS", "value": budget.cpu_limit} in budget.go_env(100)


@pytest.mark.parametrize(
    ("of_class", "of_tenant", "wanted"),
    [
        (None, None, privileges.NEVER),
        ("SlinkyWorkers", None, privileges.SLINKY_WORKERS),
        (None, "SlinkyWorkers", privileges.SLINKY_WORKERS),
        ("SlinkyWorkers", "Never", privileges.NEVER),
        ("Never", "SlinkyWorkers", privileges.SLINKY_WORKERS),
    ],
)
def test_a_class_or_a_tenant_has_privileges_dropped_where_planes_can(
    of_class: str | None, of_tenant: str | None, wanted: str
) -> None:
    def asking(value: str | None) -> dict[str, Any]:
        return {"isolation": {"dropPrivileges": value}} if value else {}

    asked, offer = tenant(**asking(of_tenant)), tenant_class(**asking(of_class))
    assert plane_for(asked, offer).isolation.drop_privileges == wanted
    assert refuse(case(asked, offer, Settings(kubernetes_versions=("v1.37.0",)))) is None
    refusal = refuse(case(asked, offer, Settings(kubernetes_versions=("v1.35.9",))))
    told = refusal is not None and "SlinkyWorkers, and v1.35.9 has no MutatingAdmissionPolicies" in refusal.message
    assert told == (wanted != privileges.NEVER)


def test_item_91_pod_groups_come_with_a_bound_and_only_where_the_version_has_them() -> None:
    offer, count = tenant_class(scheduling={"podGroups": True}), "count/podgroups.scheduling.k8s.io"
    spec = plane_for(tenant(), offer)
    assert (spec.offers.pod_groups, dict(spec.quota.object_limits)[count]) == (True, Amount.of(200))
    for bounds in (tenant_class(), tenant_class(scheduling={"podGroups": False}), tenant_class(scheduling={})):
        plain = plane_for(tenant(), bounds)
        assert not plain.offers.pod_groups
        assert count not in dict(plain.quota.object_limits)
    refusal = refuse(case(tenant(), offer, Settings(kubernetes_versions=("v1.37.0",))))
    assert refusal is not None
    assert (refusal.reason, "v1.36.x does" in refusal.message) == (Reason.NOT_SUPPORTED, True)


def test_a_revocation_before_a_time_that_cannot_be_read_is_one_of_all_tokens() -> None:
    befores = ["2026-06-01T12:00:00Z", "2026-06-01t12:00:00.5z", "0000-01-01T00:00:00Z", "2026-06-01T12:00:00+99:99", None]
    revoked = [{"name": f"u{at}"} | ({"before": before} if before else {}) for at, before in enumerate(befores)]
    noon = 1_780_315_200
    assert [entry.before for entry in revoked_of({"access": {"revoked": revoked}})] == [noon, noon + 1, None, None, None]
