"""What doctor says of facts: a healthy installation is healthy, and each thing that is broken is named with a cure."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.doctor.samples import (
    IMAGE,
    NAMESPACE,
    NOW,
    RELEASE,
    a_tenant,
    binding,
    crd,
    deployment,
    exported,
    findings,
    healthy,
    meta,
    policy,
    role,
    with_live,
)
from tests.kit import yamlfiles
from tests.kit.helmchart import CHART
from workstation.doctor.facts import Seen
from workstation.doctor.judge import CHECKS, installed
from workstation.doctor.judge.dns import VARIABLE
from workstation.preflight.facts import Unseen
from workstation.preflight.findings import State

OK, WARNING, FAILED, SKIPPED = State.OK, State.WARNING, State.FAILED, State.SKIPPED
LOST = {"type": "PlaneReady", "status": "False", "reason": "DataLost"}
NOT_READY = {"type": "Ready", "status": "False", "reason": "WaitingForPlane"}
READY = {"type": "Ready", "status": "True", "reason": "Ready"}
DEGRADED = {"type": "Degraded", "status": "True", "reason": "MemberLost", "message": "plane-1 lost its volume"}
OVERDUE = {"type": "SnapshotsTaken", "status": "False", "reason": "BackupOverdue", "message": "the last one is of Monday"}
FORBIDDEN = Unseen("Forbidden: tenants is forbidden")


def quota(tenant: str, gpus: int) -> dict[str, Any]:
    labels = {"bulkhead.dev/tenant": tenant}
    head = {"metadata": meta("tenant-quota", f"bh-{tenant}-work", labels=labels)}
    return head | {"spec": {"hard": {"requests.nvidia.com/gpu": str(gpus)}}}


def node(name: str, gpus: int) -> dict[str, Any]:
    return {"metadata": meta(name), "status": {"allocatable": {"nvidia.com/gpu": str(gpus), "cpu": "8"}}}


def worker(name: str, cores: str) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": meta(name, labels={"size": cores}), "status": {"capacity": {"cpu": cores}, "conditions": ready}}


def metrics(**changed: Any) -> Seen:
    return replace(healthy(), metrics={"one": exported(**changed)})


def changed_policy() -> Seen:
    there = policy("bulkhead-pods")
    there["spec"]["validations"][0]["expression"] = "true"
    return with_live(healthy(), policy("bulkhead-pods"), there)


def changed_role() -> Seen:
    there = role("bulkhead-controller")
    there["rules"][0]["verbs"].append("delete")
    return with_live(healthy(), role("bulkhead-controller"), there)


def warns_only() -> Seen:
    only = binding("bulkhead-pods")
    only["spec"]["validationActions"] = ["Warn"]
    return healthy(**{"admission bindings": (only,)})


def old_store() -> Seen:
    definitions = list(healthy().cluster.lists["customresourcedefinitions"])  # type: ignore[arg-type]
    definitions[4]["status"]["storedVersions"] = ["v1alpha0", "v1alpha1"]
    return healthy(customresourcedefinitions=tuple(definitions))


def going_definition() -> Seen:
    definitions = list(healthy().cluster.lists["customresourcedefinitions"])  # type: ignore[arg-type]
    definitions[4]["metadata"]["deletionTimestamp"] = "2026-06-01T11:00:00Z"
    return healthy(customresourcedefinitions=tuple(definitions))


def restarts(count: int) -> Seen:
    last = {"terminated": {"reason": "OOMKilled"}}
    pod = {"metadata": meta("one"), "status": {"containerStatuses": [{"restartCount": count, "lastState": last}]}}
    return healthy(**{"controller pods": (pod,)})


def told_of_dns(value: str) -> Seen:
    controller = deployment("bulkhead-controller", NAMESPACE)
    controller["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": VARIABLE, "value": value}]
    return healthy(controllers=(controller,))


# What is broken: how, the check that names it, its state, and words of the finding.
BROKEN: list[tuple[Callable[[], Seen], str, State, str]] = [
    (
        lambda: with_live(healthy(), policy("bulkhead-pods"), None),
        "release.objects",
        FAILED,
        "ValidatingAdmissionPolicy bulkhead-pods",
    ),
    (lambda: with_live(healthy(), policy("bulkhead-pods"), None), "release.policies", FAILED, "bulkhead-pods is gone"),
    (changed_policy, "release.policies", FAILED, "spec.validations[0].expression is not what the chart wrote"),
    (warns_only, "release.policies", FAILED, "bulkhead-pods is bound by nothing that denies"),
    (lambda: healthy(**{"admission bindings": ()}), "release.policies", FAILED, "bound by nothing"),
    (lambda: healthy(**{"admission policies": (policy("of-others"),)}), "release.policies", FAILED, "which is gone"),
    (changed_role, "release.rights", FAILED, "ClusterRole bulkhead-controller: rules[0].verbs"),
    (lambda: replace(healthy(), client_version="0.2.0"), "release.version", WARNING, "this command of 0.2.0"),
    (lambda: replace(healthy(), release=replace(RELEASE, version="0.0.9")), "release.version", FAILED, "the chart is of 0.0.9"),
    (
        lambda: replace(healthy(), release=replace(RELEASE, status="pending-upgrade")),
        "release.version",
        FAILED,
        "pending-upgrade",
    ),
    (
        lambda: healthy(customresourcedefinitions=(crd("tenants"),)),
        "definitions.versions",
        FAILED,
        "cohorts.bulkhead.dev is gone",
    ),
    (going_definition, "definitions.versions", FAILED, "tenants.bulkhead.dev is being deleted"),
    (old_store, "definitions.versions", FAILED, "stored as v1alpha0"),
    (lambda: healthy(pods=()), "cluster.dns", WARNING, "no pod of the cluster's DNS was found"),
    (lambda: told_of_dns("[]"), "cluster.dns", WARNING, "pod kube-system/coredns-x: matched by no peer"),
    (lambda: told_of_dns("[" * 100_000), "cluster.dns", WARNING, "matched by no peer"),
    (lambda: healthy(identity=()), "identity.key", FAILED, "bulkhead-identity is gone"),
    (
        lambda: healthy(controllers=(deployment("bulkhead-controller", NAMESPACE, ready=0),)),
        "running.pods",
        FAILED,
        "none of 1",
    ),
    (lambda: healthy(controllers=()), "running.pods", FAILED, "no Deployment"),
    (lambda: restarts(5), "running.pods", WARNING, "5 restarts, the last time OOMKilled"),
    (lambda: healthy(lease=()), "running.leads", FAILED, "no controller holds the lease"),
    (lambda: healthy(lease=({"spec": {"holderIdentity": ""}},)), "running.leads", FAILED, "no controller holds the lease"),
    (
        lambda: healthy(lease=({"spec": {"holderIdentity": "x", "renewTime": (NOW - timedelta(seconds=61)).isoformat()}},)),
        "running.leads",
        FAILED,
        "has not renewed it since",
    ),
    (
        lambda: healthy(nodes=(worker("a", "2"), worker("b", "64"))),
        "cluster.cores",
        WARNING,
        "1 of 2 nodes have no more: a (2)",
    ),
    (lambda: metrics(ok=10, failed=11), "running.reconciles", FAILED, "11 of 21 reconciles failed"),
    (lambda: metrics(ok=0, failed=0), "running.reconciles", WARNING, "has not reconciled anything"),
    (lambda: metrics(clock_wrong=1), "running.clock", FAILED, "no certificate is renewed"),
    (lambda: healthy(tenants=(a_tenant("red", conditions=[NOT_READY]),)), "tenants.ready", WARNING, "red: WaitingForPlane"),
    (lambda: healthy(tenants=(a_tenant("red", conditions=[NOT_READY, LOST]),)), "tenants.ready", FAILED, "lost their data"),
    (
        lambda: healthy(tenants=(a_tenant("red", conditions=[READY, DEGRADED]),)),
        "tenants.ready",
        WARNING,
        "red: MemberLost: plane-1 lost its volume",
    ),
    (
        lambda: healthy(tenants=(a_tenant("red", observedGeneration=1),)),
        "tenants.followed",
        WARNING,
        "generation 2, acted on 1",
    ),
    (lambda: metrics(days=19.9), "tenants.certificates", WARNING, "red: pki-dns/client ends 2026-06-21"),
    (lambda: metrics(days=6.9), "tenants.certificates", FAILED, "2026-06-08"),
    (lambda: healthy(syncers=(deployment("syncer", "bh-red"),)), "tenants.syncers", FAILED, "blue: has no syncer"),
    (
        lambda: healthy(syncers=(deployment("syncer", "bh-red"), deployment("syncer", "bh-blue", ready=0))),
        "tenants.syncers",
        FAILED,
        "blue: its syncer is not ready",
    ),
    (
        lambda: healthy(
            syncers=(deployment("syncer", "bh-red"), deployment("syncer", "bh-blue", "registry.example/bulkhead:0"))
        ),
        "tenants.syncers",
        WARNING,
        f"run another image than the controller ({IMAGE})",
    ),
    (lambda: healthy(tenants=(a_tenant("red", conditions=[OVERDUE]),)), "tenants.snapshots", WARNING, "of Monday"),
    (
        lambda: healthy(**{"work quotas": (quota("red", 6), quota("blue", 3)), "nodes": (node("a", 8),)}),
        "tenants.quota",
        WARNING,
        "nvidia.com/gpu: 9 promised, nodes have 8",
    ),
]


def test_every_definition_of_the_chart_is_looked_for() -> None:
    assert {f"{name}.bulkhead.dev" for name in installed._DEFINITIONS} == {
        yamlfiles.load(path)["metadata"]["name"] for path in (CHART / "crds").glob("*.yaml")
    }


def test_a_healthy_installation_is_healthy() -> None:
    found = findings(healthy())
    assert {name: finding.state for name, finding in found.items()} == dict.fromkeys(
        [check.name for check in CHECKS if check.name != "release.alerts"], OK
    ) | {"release.alerts": SKIPPED}


def test_the_peers_that_the_controller_has_count() -> None:
    told = told_of_dns('[{"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}]')
    assert findings(told)["cluster.dns"].state is OK


@pytest.mark.parametrize(("broken", "check", "state", "words"), BROKEN, ids=[f"{row[1]}-{row[3][:24]}" for row in BROKEN])
def test_what_is_broken_is_named_with_cause_and_cure(broken: Callable[[], Seen], check: str, state: State, words: str) -> None:
    finding = findings(broken())[check]
    assert finding.state is state, finding
    assert words in " ".join((finding.cause, *finding.details))
    assert finding.cure


def test_each_check_but_those_of_the_cluster_has_something_that_breaks_it() -> None:
    alone = {"cluster.webhooks", "cluster.clocks", "release.alerts"}  # preflight's own tests; test_real.py
    assert {row[1] for row in BROKEN} | alone == {check.name for check in CHECKS}


@pytest.mark.parametrize("name", sorted(healthy().cluster.lists))
def test_what_may_not_be_read_is_skipped_and_names_its_reason(name: str) -> None:
    found = findings(healthy(**{name: FORBIDDEN}))
    skipped = [finding for finding in found.values() if finding.state is SKIPPED and "forbidden" in finding.cause]
    assert not [finding for finding in found.values() if finding.state in {FAILED, WARNING}]
    assert skipped or name in {"controller pods", "node leases"}
    assert all(finding.cure for finding in skipped)


def test_without_helms_release_policies_are_judged_all_the_same() -> None:
    seen = replace(healthy(), release=Unseen("secrets is forbidden"), live={})
    assert findings(seen)["release.policies"].state is OK
    assert "not compared with the chart" in findings(seen)["release.policies"].cause
    assert findings(seen)["release.objects"].state is SKIPPED
    unbound = replace(seen, cluster=healthy(**{"admission bindings": ()}).cluster)
    assert findings(unbound)["release.policies"].state is FAILED


@pytest.mark.parametrize("pods", [{}, {"one": Unseen("NetworkPolicy")}, {"one": exported(leading=0)}, {"one": "\x00 {"}])
def test_without_the_leaders_metrics_what_needs_them_is_skipped(pods: dict[str, Any]) -> None:
    found = findings(replace(healthy(), metrics=pods))
    for name in ("running.reconciles", "running.clock", "tenants.certificates"):
        assert found[name].state is SKIPPED, found[name]


def test_a_tenant_that_an_admin_has_paused_is_no_trouble() -> None:
    paused = NOT_READY | {"reason": "Paused"}
    assert findings(healthy(tenants=(a_tenant("red", conditions=[paused]),)))["tenants.ready"].state is OK
    assert findings(healthy(tenants=(a_tenant("red", conditions=[paused, LOST]),)))["tenants.ready"].state is FAILED


def test_a_tenant_that_is_being_deleted_is_not_judged() -> None:
    going = a_tenant("red", conditions=[NOT_READY], observedGeneration=1)
    going["metadata"]["deletionTimestamp"] = "2026-06-01T11:00:00Z"
    found = findings(healthy(tenants=(going,), syncers=()))
    for name in ("tenants.ready", "tenants.followed", "tenants.syncers"):
        assert found[name].state is OK


def test_cores_count_only_on_nodes_that_run_planes() -> None:
    seen = healthy(nodes=(worker("a", "2"), worker("b", "64")))
    chosen = replace(seen, release=replace(RELEASE, planes_selector={"size": "64"}))
    assert findings(chosen)["cluster.cores"].state is OK


def test_a_borrowers_ceiling_is_no_promise() -> None:
    there = quota("red", 16)
    there["metadata"]["annotations"] = {
        "bulkhead.dev/given": '{"cohort":"all","weight":1,"lines":{"nvidia.com/gpu":{"nominal":4,"borrowing":12}}}'
    }
    found = findings(healthy(**{"work quotas": (there,), "nodes": (node("a", 8),)}))["tenants.quota"]
    assert (found.state, found.cause) == (OK, "nvidia.com/gpu: 4 of 8")
