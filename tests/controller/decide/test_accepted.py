"""An edit that is refused changes nothing: whatever else it says, what is built is what was accepted before."""

import json
import types
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from bulkhead.api import labels
from bulkhead.api.conditions import MESSAGE_LIMIT, Reason, find_condition
from bulkhead.api.tenant import TenantSpec
from controller.decide import accepted
from controller.decide.accepted import accepted_before, kept, record
from controller.decide.admit import admit
from controller.decide.case import Admitted
from controller.decide.dedicated import Claim, Finding
from controller.decide.plan import plan
from controller.decide.storage import growths
from controller.existing import Existing, by_slot, slot_of
from controller.host.dedication import Offers, claimed
from controller.refusal import Refusal
from controller.sections import over
from controller.settings import Settings
from controller.slurm.spec import SlurmSpec
from tests.controller.tenant.test_status import ready_findings
from tests.kit.statuses import compute
from tests.kit.tenantsamples import NOW, SLICE, case, material, tenant, tenant_class

Spec = dict[str, Any]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa alice"
VERSIONS = ("v1.36.3", "v1.36.4")
SETTINGS = Settings(
    storage_class="usual", kubernetes_versions=VERSIONS, exposure_domains=("k8s.example.org",), exposure_proxy=1
)
BIG = {"requests": {"cpu": "900m", "memory": "900Mi"}, "limits": {"memory": "4Gi"}}
OFFER = tenant_class(
    kubernetesVersions=list(VERSIONS),
    controlPlane={
        "storage": {"maxSize": "8Gi", "maxQuota": "1Gi"},
        "maxResources": dict.fromkeys(("etcd", "apiServer", "controllerManager", "syncer", "dns"), BIG),
    },
    quota={"cohorts": ["research", "trial"], "resources": {"nvidia.com/gpu": {"maxNominal": 64}}},
    nodes={"selector": {"pool": "a"}, "maxDedicated": 8},
    isolation={"allowedRuntimeClasses": ["kata"], "network": {"allowedEgressCIDRs": ["10.0.0.0/8"]}},
    access={"issuers": [{"name": "corp", "onRequest": True, "url": "https://id.example.org", "clientID": "x"}]},
    backup={"schedule": "6h", "shortestSchedule": "1h", "targets": ["archive"]},
    exposure={"type": "None", "allowedTypes": ["LoadBalancer"], "hostnameDomains": ["k8s.example.org"]},
    sharedSecrets=[{"name": "registry", "onRequest": True}],
    sharedConfigMaps=[{"name": "bundle", "onRequest": True}],
)
BEFORE: Spec = {
    "quota": {"resources": {"nvidia.com/gpu": {"nominal": 24}}},
    "controlPlane": {"storage": {"size": "4Gi"}},
    "scheduling": {"mode": "Slurm", "slurm": {"nodeSets": [{"name": "gpu", "replicas": 1, "gpus": 2, "memory": "1Gi"}]}},
    "nodes": {"selector": {"rack": "7"}, "dedicated": True},
    "access": {"admins": [{"kind": "User", "name": "ada"}]},
}


def component(name: str, field: str) -> Spec:
    return {"controlPlane": {"resources": {name: {field: BIG[field]}}}}


def slurm(**said: Any) -> Spec:
    return {"scheduling": {"slurm": said}}


SMALL = {"requests": {"cpu": "33m"}, "limits": {"memory": "777Mi"}}
# An edit of each field, that changes something of what is built.
EDITS: dict[str, Spec] = {
    "kubernetesVersion": {"kubernetesVersion": "v1.36.4"},
    **{
        f"controlPlane.resources.{name}.{field}": component(name, field)
        for name in ("etcd", "apiServer", "controllerManager", "syncer", "dns")
        for field in ("requests", "limits")
    },
    "controlPlane.storage.size": {"controlPlane": {"storage": {"size": "8Gi"}}},
    "scheduling.mode": {"scheduling": {"mode": "Kubernetes", "slurm": None}},
    "scheduling.slurm.clusterName": slurm(clusterName="other"),
    **{f"scheduling.slurm.controller.resources.{part}": slurm(controller={"resources": {part: SMALL[part]}}) for part in SMALL},
    "scheduling.slurm.controller.storage.size": slurm(controller={"storage": {"size": "7Gi"}}),
    "scheduling.slurm.controller.storage.className": slurm(controller={"storage": {"className": "fast"}}),
    "scheduling.slurm.nodeSets": slurm(nodeSets=[{"name": "gpu", "replicas": 2, "gpus": 2, "memory": "1Gi"}]),
    "scheduling.slurm.login.enabled": slurm(login={"enabled": False}),
    "scheduling.slurm.login.replicas": slurm(login={"replicas": 2}),
    **{f"scheduling.slurm.login.resources.{part}": slurm(login={"resources": {part: SMALL[part]}}) for part in SMALL},
    "scheduling.slurm.login.rootSshAuthorizedKeys": slurm(login={"rootSshAuthorizedKeys": [KEY]}),
    "scheduling.slurm.login.certificatesOnly": slurm(login={"certificatesOnly": True}),
    "scheduling.slurm.restApi.enabled": slurm(restApi={"enabled": False}, login={"enabled": False}),
    **{f"scheduling.slurm.restApi.resources.{part}": slurm(restApi={"resources": {part: SMALL[part]}}) for part in SMALL},
    "scheduling.slurm.accounting.enabled": slurm(accounting={"enabled": True}),
    "scheduling.slurm.accounting.storage.size": slurm(accounting={"enabled": True, "storage": {"size": "9Gi"}}),
    "scheduling.slurm.accounting.storage.className": slurm(accounting={"enabled": True, "storage": {"className": "fast"}}),
    "scheduling.slurm.accounting.enforce": slurm(accounting={"enabled": True, "enforce": False}),
    "scheduling.slurm.accounting.qos": slurm(accounting={"enabled": True, "qos": [{"name": "high", "priority": 7}]}),
    "scheduling.slurm.topology": slurm(topology="Flat"),
    "scheduling.slurm.lease.idleSeconds": slurm(lease={"idleSeconds": 77}),
    "scheduling.slurm.lease.graceSeconds": slurm(lease={"graceSeconds": 77}),
    "scheduling.slurm.users": slurm(users=[{"name": "alice", "uid": 10000}]),
    "scheduling.slurm.homeStorage.size": slurm(homeStorage={"size": "77Gi"}),
    "scheduling.slurm.homeStorage.className": slurm(homeStorage={"className": "fast"}),
    "scheduling.slurm.extraConf": slurm(extraConf="MaxArraySize=7000"),
    "quota.cohort": {"quota": {"cohort": "research"}},
    "quota.weight": {"quota": {"cohort": "research", "weight": 7}},
    "quota.resources": {"quota": {"resources": {"nvidia.com/gpu": {"nominal": 6}}}},
    "quota.objects": {"quota": {"objects": {"pods": 77}}},
    "nodes.selector": {"nodes": {"selector": {"rack": "8"}}},
    "nodes.dedicated": {"nodes": {"dedicated": False}},
    "controlPlane.storage.quota": {"controlPlane": {"storage": {"quota": "768Mi"}}},
    "isolation.podSecurity": {"isolation": {"podSecurity": "restricted"}, "scheduling": {"mode": "Kubernetes", "slurm": None}},
    "isolation.userNamespaces": {"isolation": {"userNamespaces": True}},
    "isolation.runtimeClassName": {"isolation": {"runtimeClassName": "kata"}},
    "isolation.dropPrivileges": {"isolation": {"dropPrivileges": "SlinkyWorkers"}},
    "isolation.network.egressCIDRs": {"isolation": {"network": {"egressCIDRs": ["10.7.0.0/16"]}}},
    "access.admins": {"access": {"admins": [{"kind": "User", "name": "bob"}]}},
    "access.oidc": {"access": {"oidc": [{"issuer": "corp"}]}},
    "sharedSecrets": {"sharedSecrets": [{"name": "registry"}]},
    "sharedConfigMaps": {"sharedConfigMaps": [{"name": "bundle"}]},
    "backup.schedule": {"backup": {"schedule": "2h"}},
    "backup.target": {"backup": {"target": "archive"}},
    **{f"backup.retention.{part}": {"backup": {"retention": {part: 2}}} for part in ("hourly", "daily", "weekly")},
    "exposure.type": {"exposure": {"type": "LoadBalancer"}},
    "exposure.hostnames": {"exposure": {"type": "LoadBalancer", "hostnames": ["team-a.k8s.example.org"]}},
}
# Fields of which nothing is built, that cannot be edited, or that count whatever else an edit says.
ELSEWHERE = {
    "class": "cannot change once it has been applied",
    "controlPlane.replicas": "cannot change",
    "controlPlane.storage.className": "cannot change",
    "scheduling.slurm.version": "there is one, and any other is refused",
    "hibernation.enabled": "is refused",
    "pausedUntil": "counts at once",
    "deletionPolicy": "counts at once",
    "adopt": "counts while there is no plane yet",
    "access.revoked": "counts at once",
    "access.revokedUsers": "counts at once: it is read where people ask for certificates",
    "access.certificatesRevoked": "counts at once",
}
REFUSALS: dict[str, Spec] = {
    "a cohort": {"quota": {"cohort": "demoo"}},
    "GPUs": {"quota": {"resources": {"nvidia.com/gpu": {"nominal": 65}}}},
    "another resource": {"quota": {"resources": {"amd.com/gpu": {"nominal": 1}}}},
    "flavors": {
        "quota": {
            "cohort": "research",
            "resources": {"nvidia.com/gpu": {"nominal": 4, "flavors": [{"name": "none", "nominal": 4}]}},
        }
    },
    "objects": {"quota": {"objects": {"pods": 5000}}},
    "a version": {"kubernetesVersion": "v1.34.0"},
    "a volume": {"controlPlane": {"storage": {"size": "9Gi"}}},
    "memory": {"controlPlane": {"resources": {"etcd": {"limits": {"memory": "64Gi"}}}}},
    "a selector": {"nodes": {"selector": {"pool": "b"}}},
    "a runtime": {"isolation": {"runtimeClassName": "runc"}},
    "addresses": {"isolation": {"network": {"egressCIDRs": ["0.0.0.0/0"]}}},
    "a provider": {"access": {"oidc": [{"issuer": "evil"}]}},
    "a Secret": {"sharedSecrets": [{"name": "root"}]},
    "an exposure": {"exposure": {"type": "NodePort"}},
    "snapshots": {"backup": {"schedule": "15m"}},
    "a target": {"backup": {"target": "of-another-class"}},
    "a name": {"exposure": {"hostnames": ["team-b.k8s.example.org"]}},
    "hibernation": {"hibernation": {"enabled": True}},
    "Slurm's configuration": {"scheduling": {"mode": "Slurm", "slurm": {"extraConf": "SlurmUser=root"}}},
    "Slurm's version": {"scheduling": {"mode": "Slurm", "slurm": {"version": "1.0"}}},
    "a volume that shrinks": {"controlPlane": {"storage": {"size": "2Gi"}}},
}
STATUS = {"class": {"name": "standard"}, "versions": {"kubernetes": "v1.36.3"}}
FREE = Finding(nodes=("one",))


def asks(*sections: Spec, generation: int = 7) -> Spec:
    spec: Spec = BEFORE
    for section in sections:
        spec = over(spec, section) | {key: None for key, value in section.items() if value is None}
        if (section.get("scheduling") or {}).get("slurm", 0) is None:
            spec = {**spec, "scheduling": {"mode": "Kubernetes"}}
    made = tenant(status=STATUS, **spec)
    return made | {"metadata": made["metadata"] | {"generation": generation}}


def admitted(asked: Spec, found: Spec | None, existing: Existing, offer: Spec = OFFER, finding: Finding = FREE) -> Admitted:
    """As a reconcile does it."""
    before = accepted_before(asked, found)
    accepted_spec = (before or {}).get("spec") or {}
    made = admit(case(asked, offer, SETTINGS, runs=True, existing=existing, nodes=finding, accepted=accepted_spec))
    assert isinstance(made, Admitted), made
    if made.held is None or before is None:
        return made
    made = kept(admit(case(before, offer, SETTINGS, runs=True, existing=existing, nodes=FREE)), made.held, found)
    assert isinstance(made, Admitted), made
    return made


def built(made: Admitted, existing: Existing) -> dict[str, Any]:
    """Everything that comes of it, on the host and in the plane."""
    spec = replace(made.plane, service_slice=SLICE)
    planned = plan(spec, material(spec), existing, held=made.held is not None)
    objects = {str(slot_of(obj)): obj for obj in planned.rendered.everything()}
    rest = {"deletions": planned.deletions, "extra": planned.extra_deletions, "inside": planned.bootstrap}
    rest |= {"volumes": growths(spec, existing), "backup": spec.backup}
    return objects | rest | {"slurm": made.slurm, "shares": made.shares, "nodes": made.claims_nodes}


def claim(asked: Spec, found: Spec | None) -> Claim | None:
    """The nodes that are asked for."""
    offers = Offers(lambda _: OFFER, lambda _: None, lambda name: accepted_before(name, found))
    return claimed(asked, offers, SETTINGS, NOW).claim


RECORD = record(asks())
FIRST = replace(admitted(asks(), None, {}).plane, service_slice=SLICE)
VOLUME: Spec = {
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data-plane-0", "namespace": "bh-team-a", "labels": labels.made_for("team-a", "plane"), "uid": "v"},
    "spec": {"resources": {"requests": {"storage": "4Gi"}}},
    "status": {"phase": "Bound", "capacity": {"storage": "4Gi"}},
}
THERE = by_slot([*plan(FIRST, material(FIRST), {}).rendered.everything(), VOLUME])
RUNS = built(admitted(asks(), RECORD, THERE), THERE)
NODES = claim(asks(), RECORD)


def _model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner: tuple[Any, ...] = ()
    if get_origin(annotation) is Annotated:
        inner = get_args(annotation)[:1]
    elif get_origin(annotation) in (Union, types.UnionType):
        inner = get_args(annotation)
    return next((found for found in map(_model, inner) if found is not None), None)


def _fields(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        below = _model(field.annotation)
        where = f"{path}{field.alias or name}"
        yield from _fields(below, f"{where}.") if below else (where,)


def test_every_field_of_a_tenant_is_edited_here() -> None:
    assert sorted(_fields(TenantSpec)) == sorted([*EDITS, *ELSEWHERE])


@pytest.mark.parametrize("field", EDITS)
def test_an_edit_that_is_accepted_changes_something(field: str) -> None:
    made = admitted(asks(EDITS[field]), RECORD, THERE)
    assert (made.held, made.edit) == (None, None)
    assert (built(made, THERE), claim(asks(EDITS[field]), RECORD)) != (RUNS, NODES)


def unchanged(asked: Spec) -> None:
    made = admitted(asked, RECORD, THERE)
    assert made.edit is not None
    assert built(made, THERE) == RUNS
    assert claim(asked, RECORD) == NODES


@pytest.mark.parametrize("field", EDITS)
def test_a_field_beside_one_that_is_refused_changes_nothing(field: str) -> None:
    unchanged(asks(EDITS[field], REFUSALS["a cohort"]))


@pytest.mark.parametrize("refused", REFUSALS)
def test_whatever_is_refused_takes_the_whole_edit_along(refused: str) -> None:
    unchanged(asks(REFUSALS[refused]))
    unchanged(asks(EDITS["quota.weight"], EDITS["quota.resources"], EDITS["nodes.selector"], REFUSALS[refused]))


edits = st.lists(st.sampled_from(sorted(EDITS)), min_size=2, max_size=6, unique=True)


@given(edits, st.sampled_from(sorted(REFUSALS)))
def test_of_several_fields_none_is_half_applied(fields: list[str], refused: str) -> None:
    unchanged(asks(*(EDITS[field] for field in fields), REFUSALS[refused]))


@given(edits)
def test_what_was_accepted_is_built_however_many_edits_are_refused_after_it(fields: list[str]) -> None:
    wanted = asks(*(EDITS[field] for field in fields))
    made = admit(case(wanted, OFFER, SETTINGS, runs=True, existing=THERE, nodes=FREE))
    if isinstance(made, Admitted) and made.held is None:
        later = admitted(asks({"quota": {"cohort": "demoo"}}), record(wanted), THERE)
        assert built(later, THERE) == built(made, THERE)


def test_nodes_of_others_are_asked_for_and_the_edit_is_refused_as_a_whole() -> None:
    taken = Finding(refusing=Refusal(Reason.NODES_TAKEN, "spec.nodes.dedicated: overlaps"))
    asked = asks(EDITS["nodes.selector"], EDITS["quota.resources"])
    made = admitted(asked, RECORD, THERE, finding=taken)
    assert made.edit is not None
    assert made.edit.reason is Reason.NODES_TAKEN
    assert built(made, THERE) == RUNS
    offers = Offers(lambda _: OFFER, lambda _: None, lambda name: accepted_before(name, RECORD))
    found = claimed(asked, offers, SETTINGS, NOW)
    assert (found.edited, found.before) == (True, NODES)


def test_what_is_withdrawn_counts_whatever_else_the_edit_says() -> None:
    access = {"revoked": [{"kind": "User", "name": "corp:eve"}], "certificatesRevoked": "today"}
    made = admitted(asks(REFUSALS["a cohort"], {"access": access}), RECORD, THERE)
    assert made.edit is not None
    assert [entry.name for entry in made.plane.access.revoked] == ["corp:eve"]
    assert made.plane.access.certificates_revoked == "today"
    # A refused edit restores no revoked access.
    noted = record(asks({"access": access}))
    made = admitted(asks(REFUSALS["a cohort"]), noted, THERE)
    assert [entry.name for entry in made.plane.access.revoked] == ["corp:eve"]
    assert made.plane.access.certificates_revoked == "today"


def test_a_user_of_the_host_that_is_revoked_beside_a_refused_field_opens_no_login_node() -> None:
    slurm, revoked = {"scheduling": {"mode": "Slurm"}}, {"access": {"revokedUsers": ["ada"]}}
    # A refused edit restores no revoked access.
    for before, after in (({}, revoked), (revoked, {})):
        made = admitted(asks(slurm, after, REFUSALS["a cohort"]), record(asks(slurm, before)), THERE)
        assert made.edit is not None
        assert isinstance(made.slurm, SlurmSpec)
        assert made.slurm.login is not None
        assert "bulkhead:host:ada" in made.slurm.login.revoked


def test_a_class_that_became_tighter_holds_what_was_accepted_and_not_what_is_asked_now() -> None:
    tight = OFFER | {"spec": OFFER["spec"] | {"isolation": {"userNamespaces": True}}}
    noted = record(asks({"isolation": {"userNamespaces": False}}))
    asked = asks({"isolation": {"userNamespaces": False}}, EDITS["quota.resources"], REFUSALS["a runtime"])
    made = admitted(asked, noted, THERE, tight)
    assert made.edit is None
    assert made.held is not None
    assert "spec.isolation.runtimeClassName: runc" in made.held.message
    assert "spec.isolation.userNamespaces: false" in made.held.message.partition(accepted.NOTE)[2]
    assert made.plane.isolation.user_namespaces
    assert dict(made.plane.quota.limits)["nvidia.com/gpu"].count == 24
    # Not edited at all it is held as ever.
    made = admitted(asks({"isolation": {"userNamespaces": False}}), noted, THERE, tight)
    assert made.held is not None
    assert accepted.NOTE not in made.held.message


@pytest.mark.parametrize(
    "found",
    [
        None,
        {},
        RECORD | {"data": {}},
        RECORD | {"data": RECORD["data"] | {"uid": "of another tenant of that name"}},
        RECORD | {"data": RECORD["data"] | {"spec.json": "{"}},
        RECORD | {"data": RECORD["data"] | {"spec.json": "[]"}},
        RECORD | {"data": RECORD["data"] | {"spec.json": "[" * 100_000}},
        RECORD | {"data": "none"},
    ],
)
def test_where_nothing_is_known_of_what_was_accepted_the_class_alone_holds(found: Spec | None) -> None:
    assert accepted_before(asks(REFUSALS["a cohort"]), found) is None
    assert admitted(asks(REFUSALS["a cohort"]), found, THERE).held is not None


def test_the_note_says_what_was_accepted_and_nothing_that_changes_by_itself() -> None:
    assert json.loads(RECORD["data"]["spec.json"]) == asks()["spec"]
    assert record(asks()) == RECORD
    assert accepted_before(asks(), RECORD) is None
    assert accepted_before(asks({"pausedUntil": "2999-01-01T00:00:00Z"}), RECORD) is None


def test_only_what_was_never_accepted_is_reported_as_such() -> None:
    refused = asks(REFUSALS["a cohort"])
    assert accepted.is_unapplied(refused, RECORD, built=True)
    assert not accepted.is_unapplied(asks(), RECORD, built=True)
    # A pause or a revocation is not part of what is accepted.
    aside = asks({"pausedUntil": "2999-01-01T00:00:00Z", "access": {"revoked": [{"kind": "User", "name": "eve"}]}})
    assert not accepted.is_unapplied(aside, RECORD, built=True)
    # Nothing is known of what was accepted.
    assert accepted.is_unapplied(refused, None, built=False)
    assert not accepted.is_unapplied(refused, None, built=True)
    other = RECORD | {"data": RECORD["data"] | {"uid": "of another tenant of that name"}}
    assert accepted.is_unapplied(refused, other, built=False)
    # Accepted, and nothing built yet.
    assert not accepted.is_unapplied(asks(), RECORD, built=False)


def test_what_is_built_of_an_earlier_spec_says_that_the_present_one_was_never_accepted() -> None:
    tight = OFFER | {"spec": OFFER["spec"] | {"isolation": {"userNamespaces": True}}}
    noted = record(asks({"isolation": {"userNamespaces": False}}))
    assert admitted(asks(REFUSALS["a cohort"]), RECORD, THERE).unapplied
    assert admitted(asks({"isolation": {"userNamespaces": False}}, REFUSALS["a cohort"]), noted, THERE, tight).unapplied
    assert not admitted(asks({"isolation": {"userNamespaces": False}}), noted, THERE, tight).unapplied
    assert not admitted(asks(REFUSALS["a cohort"]), None, THERE).unapplied
    assert not admitted(asks(EDITS["quota.weight"]), RECORD, THERE).unapplied


def test_a_tenant_that_a_note_has_no_room_for_is_not_held_to_an_older_one() -> None:
    large = record(asks({"access": {"admins": [{"kind": "User", "name": "x" * 1000} for _ in range(1100)]}}))
    assert len(json.dumps(large)) < 1024
    assert accepted_before(asks(REFUSALS["a cohort"]), large) is None
    nearly = record(asks({"access": {"admins": [{"kind": "User", "name": "x" * 1000} for _ in range(900)]}}))
    assert accepted_before(asks(REFUSALS["a cohort"]), nearly) is not None


def test_the_status_says_what_is_refused_and_that_nothing_of_the_edit_is_applied() -> None:
    asked = asks(REFUSALS["a cohort"])
    made = admitted(asked, RECORD, THERE)
    assert made.edit is not None
    spec = replace(made.plane, service_slice=SLICE)
    said = compute(asked, spec, ready_findings(edit=made.edit), NOW)
    ready = find_condition(said["conditions"], "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "OutOfBounds")
    assert ready["message"].startswith("spec.quota.cohort: demoo")
    assert ready["message"].endswith(f"{accepted.NOTE}, of generation 7")
    failed = ready_findings(edit=made.edit, failure=Refusal(Reason.HOST_REFUSED, "the host says no"))
    ready = find_condition(compute(asked, spec, failed, NOW)["conditions"], "Ready")
    assert ready is not None
    assert ready["message"].startswith("the host says no; spec.quota.cohort: demoo")
    long = kept(made, Refusal(Reason.OUT_OF_BOUNDS, "x" * MESSAGE_LIMIT), RECORD)
    assert isinstance(long, Admitted)
    assert long.edit is not None
    assert long.edit.message.startswith(accepted.NOTE)
