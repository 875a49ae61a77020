"""The pure deciders: admission, slices, plans, teardown, quotas, settings. State in, state out."""

from dataclasses import replace
from datetime import timedelta
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import privileges
from bulkhead.api.conditions import Reason
from bulkhead.api.quantity import Amount
from controller.decide import slices, teardown
from controller.decide.admit import paused, refuse
from controller.decide.plan import Plan, plan
from controller.decide.planespec import as_it_began
from controller.decide.teardown import Left, Step
from controller.existing import Existing, by_slot
from controller.plane import apiserver, etcd
from controller.plane.spec import PlaneSpec
from controller.settings import Settings, SettingsError, load
from tests.kit.tenantsamples import NOW, case, changed, material, plane_for, plane_spec, tenant, tenant_class

# What each container may take of a node's disk, whatever else it may take.
DISK = {"ephemeral-storage": "1024Mi"}

# -- admission

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any] | None, Reason, str]] = {
    "no such class": (tenant(), None, Reason.UNKNOWN_CLASS, "spec.class"),
    "a name of the system": (tenant("system"), tenant_class(), Reason.INVALID_NAME, "reserved"),
    "a name that collides": (tenant("a-work"), tenant_class(), Reason.INVALID_NAME, "-work"),
    "a version that cannot be had": (
        tenant(kubernetesVersion="v1.99.0"),
        tenant_class(),
        Reason.VERSION_UNAVAILABLE,
        "available: v1.36.3",
    ),
    "a version that the class does not offer": (
        tenant(kubernetesVersion="v1.36.3"),
        tenant_class(kubernetesVersions=["v1.35.0"]),
        Reason.VERSION_UNAVAILABLE,
        "class: spec.kubernetesVersions: v1.35.0; the installation offers v1.36.3",
    ),
    "more than the class allows": (
        tenant(quota={"resources": {"nvidia.com/gpu": {"nominal": 65}}}),
        tenant_class(),
        Reason.OUT_OF_BOUNDS,
        "65 is more than the 64",
    ),
    "a resource that the class does not know": (
        tenant(quota={"resources": {"amd.com/gpu": {"nominal": 1}}}),
        tenant_class(),
        Reason.IMPOSSIBLE_QUOTA,
        "amd.com/gpu",
    ),
    "half a GPU": (
        tenant(quota={"resources": {"nvidia.com/gpu": {"nominal": "0.5"}}}),
        tenant_class(),
        Reason.IMPOSSIBLE_QUOTA,
        "whole number",
    ),
    "Slurm where no root may be": (
        tenant(scheduling={"mode": "Slurm"}, isolation={"podSecurity": "restricted"}),
        tenant_class(),
        Reason.NOT_SUPPORTED,
        "spec.isolation.podSecurity",
    ),
    "a cohort": (tenant(quota={"cohort": "research"}), tenant_class(), Reason.OUT_OF_BOUNDS, "spec.quota.cohort"),
    "every node of the host": (
        tenant(nodes={"dedicated": True}),
        tenant_class(nodes={"maxDedicated": 64}),
        Reason.INVALID_CONFIGURATION,
        "needs a selector",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_built_is_refused_with_a_fixed_reason_and_the_field(name: str) -> None:
    asked, bounds, reason, part = REFUSED[name]
    refusal = refuse(case(asked, bounds))
    assert refusal is not None
    assert refusal.reason is reason
    assert part in refusal.message


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


def test_a_paused_tenant_is_left_alone_until_its_time() -> None:
    asked = tenant(pausedUntil="2026-06-01T12:30:00Z")
    assert paused(case(asked, None)) is not None
    assert paused(replace(case(asked, None), now=NOW + timedelta(hours=1))) is None


# -- slices

RANGE, PREFIX = "10.112.0.0/18", 22


@given(st.lists(st.integers(0, 2**14 - 1), max_size=8), st.integers(1, 20))
def test_slices_are_disjoint_and_hold_no_address_of_others(offsets: list[int], tenants: int) -> None:
    used = [str(IPv4Address(int(IPv4Address("10.112.0.0")) + offset)) for offset in offsets]
    given_out: list[str] = []
    for _ in range(tenants):
        chosen = slices.allocate(RANGE, PREFIX, taken=given_out, used=used)
        if chosen is None:
            break
        network = IPv4Network(chosen)
        assert network.subnet_of(IPv4Network(RANGE))
        assert not any(network.overlaps(IPv4Network(other)) for other in given_out)
        assert not any(IPv4Address(address) in network for address in used)
        given_out.append(chosen)
    if len(given_out) < tenants:
        free = [subnet for subnet in IPv4Network(RANGE).subnets(new_prefix=PREFIX) if str(subnet) not in given_out]
        assert all(any(IPv4Address(address) in network for address in used) for network in free)


def test_a_slice_that_a_tenant_had_is_given_back_to_it_if_it_is_free() -> None:
    assert slices.allocate(RANGE, PREFIX, taken=[], used=[], wished="10.112.8.0/22") == "10.112.8.0/22"
    assert slices.allocate(RANGE, PREFIX, taken=["10.112.8.0/22"], used=[], wished="10.112.8.0/22") == "10.112.0.0/22"
    assert slices.allocate(RANGE, PREFIX, taken=[], used=[], wished="192.168.0.0/22") == "10.112.0.0/22"


def test_foreign_ranges_and_garbage_do_not_confuse_the_allocation() -> None:
    taken = ["10.96.0.0/12", "fd00::/108", "nonsense", "10.112.0.0/20"]
    assert slices.allocate(RANGE, PREFIX, taken=taken, used=["fd00::1", ""]) == "10.112.16.0/22"


def test_what_is_inside_a_slice_and_what_is_not() -> None:
    assert slices.inside("10.112.4.0/22", "10.112.5.186")
    for service_slice, address in (
        ("10.112.4.0/22", "10.112.8.1"),
        ("10.112.4.0/22", "fd00::1"),
        ("", "10.112.4.1"),
        ("x", "y"),
    ):
        assert not slices.inside(service_slice, address)


def test_a_clash_names_the_address_that_the_plane_needs() -> None:
    assert slices.clash("10.112.4.0/22", (1, 10, 11), ["10.112.4.200", "10.112.4.10"]) == "10.112.4.10"
    assert slices.clash("10.112.4.0/22", (1, 10, 11), ["10.112.4.200"]) is None


# -- plans


def test_left_overs_of_an_older_version_are_deleted_and_other_peoples_objects_are_not() -> None:
    spec = plane_spec()
    marks = {"app.kubernetes.io/managed-by": "bulkhead", "bulkhead.dev/tenant": "team-a"}

    def policy(name: str, labels: dict[str, str], kind: str = "NetworkPolicy") -> dict[str, Any]:
        meta = {"name": name, "namespace": "bh-team-a", "labels": labels, "uid": name}
        return {"apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": meta}

    existing = [
        policy("allow-everything", marks),
        policy("default-deny", marks),
        policy("somebody-elses", {}),
        policy("mirrored", marks | {"bulkhead.dev/managed-by": "syncer"}),
        policy("plane-identity", marks, "ConfigMap"),
    ]
    made = plan(spec, material(spec), by_slot(existing))
    assert [deletion.slot.name for deletion in made.deletions] == ["allow-everything"]


def test_dns_waits_for_the_plane_once_and_is_kept_afterwards() -> None:
    spec = plane_spec()
    made = plan(spec, material(spec), {})
    dns = made.rendered.followers[0]
    assert made.followers(plane_answers=False, existing={}) == ()
    assert made.followers(plane_answers=True, existing={}) == (dns,)
    assert made.followers(plane_answers=False, existing=by_slot([dns])) == (dns,)


def test_a_plane_stays_on_its_storage_class_when_the_default_changes() -> None:
    def storage_class(made: Plan) -> Any:
        (found,) = [obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet"]
        return found["spec"]["volumeClaimTemplates"][0]["spec"].get("storageClassName")

    spec = plane_spec()
    for before in ("slow", None):
        old = changed(spec, storage={"template_class": before})
        existing = by_slot(plan(old, material(old), {}).rendered.workloads)
        assert (
            storage_class(
                plan(as_it_began(changed(spec, storage={"template_class": "fast"}), existing), material(spec), existing)
            )
            == before
        )
    assert storage_class(plan(changed(spec, storage={"template_class": "fast"}), material(spec), {})) == "fast"


def test_a_plane_keeps_its_members_when_the_number_of_its_class_changes() -> None:
    def members(made: Plan) -> tuple[int, int]:
        (found,) = [obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet"]
        return found["spec"]["replicas"], etcd.members_of(found)

    for before, after in ((1, 3), (3, 1)):
        old, new = plane_spec(control_plane={"replicas": before}), plane_spec(control_plane={"replicas": after})
        existing = by_slot(plan(old, material(old), {}).rendered.workloads)
        assert members(plan(new, material(new), {})) == (after, after)
        assert members(plan(as_it_began(new, existing), material(new), existing)) == (before, before)
        # Scaled by hand, it is scaled back.
        (stateful_set,) = [obj for obj in existing.values() if obj["kind"] == "StatefulSet"]
        stateful_set["spec"]["replicas"] = 0
        assert members(plan(as_it_began(new, existing), material(new), existing)) == (before, before)


def test_a_plane_of_one_gets_two_more_members_only_if_its_tenant_asks_and_three_stay_three() -> None:
    one, three = plane_spec(), plane_spec(control_plane={"replicas": 3, "grows": True})
    began = by_slot(plan(one, material(one), {}).rendered.workloads)
    assert as_it_began(three, began).control_plane.replicas == 3
    assert as_it_began(plane_spec(control_plane={"replicas": 3}), began).control_plane.replicas == 1
    grown = by_slot(plan(three, material(three), {}).rendered.workloads)
    assert as_it_began(plane_spec(control_plane={"replicas": 1, "grows": True}), grown).control_plane.replicas == 3


def test_a_held_plane_of_one_is_not_scaled_with_the_flags_of_one() -> None:
    one, three = plane_spec(), plane_spec(control_plane={"replicas": 3, "grows": True})
    began = by_slot(plan(one, material(one), {}).rendered.workloads)
    made = plan(as_it_began(three, began), material(three), began, held=True)
    (found,) = [obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet"] or [
        obj for obj in began.values() if obj["kind"] == "StatefulSet"
    ]
    assert (found["spec"]["replicas"], etcd.members_of(found)) == (1, 1)


def test_a_plane_learns_to_end_soon_when_it_begins_or_with_another_image_and_is_not_restarted_for_it() -> None:
    def ends_soon(spec: PlaneSpec, existing: Existing) -> bool:
        made = plan(as_it_began(spec, existing), material(spec), existing)
        (found,) = [obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet"]
        servers = [
            container for container in found["spec"]["template"]["spec"]["containers"] if container["name"] == "kube-apiserver"
        ]
        return apiserver.ENDS_SOON in servers[0]["command"]

    former = plane_spec()
    later = replace(former, images=replace(former.images, kubernetes="docker.io/bulkhead/kubernetes:v1.36.4"))
    for knows, spec, expected in (
        (False, former, False),
        (False, later, True),
        (True, former, True),
        (True, later, True),
    ):
        begun = changed(former, control_plane={"ends_soon": knows})
        existing = by_slot(plan(begun, material(begun), {}).rendered.workloads)
        assert ends_soon(spec, existing) is expected
    assert ends_soon(former, {})


# -- teardown


def thing(kind: str, name: str, component: str | None = None, *, going: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "uid": name, "labels": {"bulkhead.dev/component": component} if component else {}}
    if going:
        meta["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": {}}


WHOLE: dict[str, Any] = {
    "plane_namespace": thing("Namespace", "bh-team-a"),
    "work_namespace": thing("Namespace", "bh-team-a-work"),
    "deployments": (thing("Deployment", "syncer", "syncer"), thing("Deployment", "dns", "dns")),
    "stateful_sets": (thing("StatefulSet", "plane", "plane"),),
    "plane_pods": (thing("Pod", "syncer-1", "syncer"), thing("Pod", "plane-0", "plane"), thing("Pod", "dns-1", "dns")),
    "work_pods": (thing("Pod", "job-1"), thing("Pod", "job-2", going=True)),
    "cluster_scoped": (thing("ClusterRoleBinding", "bh-team-a-syncer-nodes"), thing("ServiceCIDR", "bh-team-a")),
}
ORDER = list(Step)


def without(left: dict[str, Any], gone: set[str]) -> dict[str, Any]:
    """The world after some objects are gone; a controller that is deleted takes its pods with it, sooner or later."""
    return {
        key: tuple(obj for obj in value if obj["metadata"]["name"] not in gone)
        if isinstance(value, tuple)
        else (None if value is None or value["metadata"]["name"] in gone else value)
        for key, value in left.items()
    }


def test_a_whole_tenant_comes_down_in_order() -> None:
    left, steps = dict(WHOLE), []
    while (upcoming := teardown.next_step(Left(**left))).step is not Step.FINALIZER:
        steps.append(upcoming.step)
        left = without(left, {text.rpartition("/")[2].rpartition(" ")[2] for text in upcoming.waiting_for})
    assert steps == [Step.SYNCER, Step.WORKLOADS, Step.PLANE, Step.NAMESPACES, Step.CLUSTER_SCOPED]


NAMES = sorted(
    {obj["metadata"]["name"] for value in WHOLE.values() for obj in (value if isinstance(value, tuple) else (value,))}
)


@given(st.sets(st.sampled_from(NAMES)), st.data())
def test_from_any_half_made_or_half_gone_state_it_ends_and_never_goes_back(gone: set[str], data: st.DataObject) -> None:
    left, reached = without(WHOLE, gone), -1
    for _ in range(len(NAMES) + 1):
        upcoming = teardown.next_step(Left(**left))
        assert ORDER.index(upcoming.step) >= reached
        reached = ORDER.index(upcoming.step)
        if upcoming.step is Step.FINALIZER:
            assert not any(value for value in left.values())
            return
        names = [text.rpartition(" ")[2] for text in upcoming.waiting_for]
        left = without(left, data.draw(st.sets(st.sampled_from(names), min_size=1)))
    pytest.fail("the teardown did not come to its end")


def test_what_is_going_already_is_waited_for_and_not_deleted_again() -> None:
    upcoming = teardown.next_step(Left(work_pods=WHOLE["work_pods"]))
    assert [action.obj["metadata"]["name"] for action in upcoming.actions] == ["job-1"]
    assert len(upcoming.waiting_for) == 2


def placed(kind: str, name: str, namespace: str, component: str) -> dict[str, Any]:
    made = thing(kind, name, component)
    return made | {"metadata": made["metadata"] | {"namespace": namespace}}


@pytest.mark.parametrize(
    ("left", "waiting_for"),
    [
        (
            {
                "deployments": (placed("Deployment", "syncer", "bh-team-a", "syncer"),),
                "plane_pods": (placed("Pod", "syncer-1", "bh-team-a", "syncer"),),
            },
            ("Deployment bh-team-a/syncer", "Pod bh-team-a/syncer-1"),
        ),
        ({"work_pods": (placed("Pod", "job-1", "bh-team-a-work", ""),)}, ("Pod bh-team-a-work/job-1",)),
        ({"plane_namespace": WHOLE["plane_namespace"]}, ("Namespace bh-team-a",)),
        ({"cluster_scoped": WHOLE["cluster_scoped"]}, ("ClusterRoleBinding bh-team-a-syncer-nodes", "ServiceCIDR bh-team-a")),
    ],
)
def test_what_is_waited_for_is_named_with_its_namespace(left: dict[str, Any], waiting_for: tuple[str, ...]) -> None:
    """An admin looks for it there: a tenant has two, and pods of the same name in both."""
    assert teardown.next_step(Left(**left)).waiting_for == waiting_for


def test_claims_go_together_with_their_namespace_and_not_before() -> None:
    claim = thing("PersistentVolumeClaim", "data-plane-0")
    still = Left(**(WHOLE | {"claims": (claim,)}))
    assert not any(action.obj is claim for action in teardown.next_step(still).actions)
    last = Left(plane_namespace=WHOLE["plane_namespace"], claims=(claim, thing("PersistentVolumeClaim", "old", going=True)))
    upcoming = teardown.next_step(last)
    assert upcoming.step is Step.NAMESPACES
    assert [action.obj["metadata"]["name"] for action in upcoming.actions] == ["bh-team-a", "data-plane-0"]


# -- settings


def test_settings_come_from_the_environment() -> None:
    made = load({"BULKHEAD_WORKERS": "3", "BULKHEAD_DNS_UPSTREAMS": "", "BULKHEAD_KUBERNETES_VERSIONS": "v1.36.3, v1.35.1"})
    assert made.workers == 3
    assert made.dns_upstreams == ()
    assert made.kubernetes_versions == ("v1.36.3", "v1.35.1")


@pytest.mark.parametrize(
    "wrong",
    [
        {"BULKHEAD_WORKERS": "many"},
        {"BULKHEAD_WORKERS": "0"},
        {"BULKHEAD_SERVICE_RANGE": "10.0.0.0/33"},
        {"BULKHEAD_SERVICE_RANGE": "10.112.0.1/12"},
        {"BULKHEAD_SLICE_PREFIX": "30"},
        {"BULKHEAD_PLANE_CLIENT_CIDRS": "everywhere"},
    ],
)
def test_a_setting_that_makes_no_sense_stops_the_controller_and_is_named(wrong: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        load(wrong)
