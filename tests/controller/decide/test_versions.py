"""Which version a plane runs, and that it never goes back behind a minor version nor skips one, for any request."""

from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.conditions import Reason, find_condition
from controller.decide import versions
from controller.decide.admit import admit, refuse
from controller.decide.case import Admitted, Case
from controller.decide.plan import plan
from controller.existing import Existing, Slot, by_slot
from controller.host.dedication import Offers, claimed
from controller.plane.render import render
from controller.settings import Settings
from tests.controller.tenant.test_status import ready_findings
from tests.kit.statuses import compute
from tests.kit.tenantsamples import NOW, SLICE, case, material, plane_for, plane_spec, tenant, tenant_class

OFFERED = ("v1.34.9", "v1.35.1", "v1.35.4", "v1.36.3", "v1.37.0")
BUILT = {"class": {"name": "standard"}}


def runs(version: str, *members: str) -> Existing:
    """The host's objects of a plane that was built with a version, and of which members run others."""
    spec = plane_for(tenant(), tenant_class(kubernetesVersion=version), Settings(kubernetes_versions=(version,)))
    there = dict(by_slot(render(spec, material(spec)).everything()))
    for number, member in enumerate(members):
        image = f"registry.example.org:5000/kubernetes:{member}@sha256:{'a' * 64}"
        pod = {"spec": {"containers": [{"name": "etcd", "image": "etcd:v3.6.16"}, {"name": "kube-apiserver", "image": image}]}}
        there[Slot("Pod", "bh-team-a", f"plane-{number}")] = pod
    return there


def asking(version: str, by: str, existing: Existing, **more: Any) -> Case:
    """A tenant of a plane that runs, which is to have a version because it, its class or the installation says so."""
    rest = tuple(other for other in OFFERED if other != version)
    first = Settings(kubernetes_versions=(version, *rest))
    offered = tenant_class(**({"kubernetesVersion": version} if by == "class" else {}))
    asked = tenant(status=BUILT, **({"kubernetesVersion": version} if by == "Tenant" else {}), **more)
    return case(asked, offered, first, runs=True, existing=existing)


STEPS = {
    "the same": ("v1.35.1", "v1.35.1", ""),
    "a patch up": ("v1.35.1", "v1.35.4", ""),
    "a patch back": ("v1.35.4", "v1.35.1", ""),
    "a minor up": ("v1.35.1", "v1.36.3", ""),
    "a minor back": ("v1.36.3", "v1.35.1", "the plane runs v1.36.3 and cannot go back to v1.35.1"),
    "two minors back": ("v1.36.3", "v1.34.9", "set v1.36.x or newer"),
    "two minors up": ("v1.34.9", "v1.36.3", "the plane runs v1.34.9 and cannot go to v1.36.3 at once"),
    "what is between": ("v1.34.9", "v1.36.3", "first set v1.35.1 or v1.35.4"),
    "three minors up": ("v1.34.9", "v1.37.0", "one minor version at a time"),
}
WHO = {
    "Tenant": "spec.kubernetesVersion: ",
    "class": "class: spec.kubernetesVersion: ",
    "installation": "the first of kubernetesVersions (class and chart value)",
}


@pytest.mark.parametrize("by", WHO)
@pytest.mark.parametrize("name", STEPS)
def test_a_plane_goes_up_one_minor_version_at_a_time_and_never_back(name: str, by: str) -> None:
    now, wanted, fault = STEPS[name]
    refusal = refuse(asking(wanted, by, runs(now, now)))
    if not fault:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal.reason is Reason.VERSION_SKEW
        assert refusal.message.startswith(WHO[by])
        assert fault in refusal.message


@pytest.mark.parametrize("by", WHO)
@pytest.mark.parametrize(("now", "wanted"), [("v1.36.3", "v1.35.1"), ("v1.34.9", "v1.36.3")])
def test_the_plane_stays_at_what_it_runs_and_all_else_goes_on(now: str, wanted: str, by: str) -> None:
    existing = runs(now, now)
    admins = {"admins": [{"kind": "User", "name": "new"}]}
    answer = admit(asking(wanted, by, existing, access=admins))
    assert isinstance(answer, Admitted)
    assert answer.held is not None
    spec = replace(answer.plane, service_slice=SLICE)
    assert spec.version == now
    assert spec.images.kubernetes.endswith(f":{now}")
    assert spec.access.admins == ({"kind": "User", "name": "new"},)
    made = plan(spec, material(spec), existing, held=True).rendered
    assert not [obj for obj in made.workloads if obj["kind"] == "StatefulSet"]
    said = compute(tenant(status=BUILT), spec, ready_findings(held=answer.held), NOW)
    ready = find_condition(said["conditions"], "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "VersionSkew")
    assert said["versions"]["kubernetes"] == now


def test_while_members_run_two_versions_the_lower_one_bounds_the_way_up_and_the_newer_the_way_back() -> None:
    rollout = runs("v1.35.1", "v1.35.1", "v1.34.9", "v1.34.9")
    assert versions.running(tenant(), rollout) == ("v1.34.9", "v1.35.1")
    assert refuse(asking("v1.35.1", "class", rollout)) is None
    for wanted in ("v1.34.9", "v1.36.3"):
        refusal = refuse(asking(wanted, "class", rollout))
        assert refusal is not None
        assert refusal.reason is Reason.VERSION_SKEW
        assert ("of which some members still run the older one" in refusal.message) == (wanted == "v1.36.3")


def test_what_runs_is_read_from_the_plane_and_not_from_what_was_reported() -> None:
    reported = BUILT | {"versions": {"kubernetes": "v1.34.9"}}
    assert versions.running(tenant(status=reported), runs("v1.36.3")) == ("v1.36.3",)
    # Without a plane's objects the report stands in; a plane that never was is free to begin with any.
    assert versions.running(tenant(status=reported), {}) == ("v1.34.9",)
    assert versions.running(tenant(), {}) == ()
    assert versions.fault((), "v1.99.0", ()) == ""


def test_a_pod_that_is_no_member_and_an_image_without_a_version_say_nothing() -> None:
    there = runs("v1.36.3")
    own = {"spec": {"containers": [{"name": "kube-apiserver", "image": "kubernetes:v1.30.0"}]}}
    there = {**there, Slot("Pod", "bh-team-a-work", "plane-0"): own, Slot("Pod", "bh-team-a", "dns-1"): own}
    assert versions.running(tenant(), there) == ("v1.36.3",)
    nameless = {"spec": {"template": {"spec": {"containers": [{"name": "kube-apiserver", "image": "v1.2.3/kube:own"}]}}}}
    assert versions.running(tenant(), {Slot("StatefulSet", "bh-team-a", "plane"): nameless}) == ()


def test_where_nothing_between_is_offered_that_is_said() -> None:
    said = versions.fault(("v1.34.9",), "v1.36.3", ("v1.36.3",))
    assert "first set a version v1.35.x, which class and installation do not offer yet" in said


def test_a_tenant_that_is_held_at_its_version_keeps_its_nodes() -> None:
    told = BUILT | {"versions": {"kubernetes": "v1.34.9"}}
    asked = tenant(status=told, nodes={"dedicated": True, "selector": {"pool": "a"}}, kubernetesVersion="v1.36.3")
    offers = Offers(lambda _: tenant_class(nodes={"maxDedicated": 1}), lambda _: None, lambda _: None)
    claim = claimed(asked, offers, Settings(kubernetes_versions=OFFERED), NOW).claim
    assert claim is not None
    assert claim.active
    assert claim.selector == {"pool": "a"}


def test_a_new_tenant_begins_with_any_version() -> None:
    assert plane_spec().version == "v1.36.3"
    assert refuse(case(tenant(kubernetesVersion="v1.34.9"), tenant_class(), Settings(kubernetes_versions=OFFERED))) is None
