"""What a Tenant's status says of what was found."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bulkhead.api.conditions import Reason, find_condition
from bulkhead.api.ledger import STANDING, write_standing
from bulkhead.api.planeidentity import Recorded
from controller.plane.quota import resource_quotas
from controller.refusal import Refusal
from controller.slurm.decide.status import SlurmPart
from controller.tenant import status as folded
from controller.verdict import Verdict, pod_trouble
from tests.kit.statuses import Findings, compute
from tests.kit.tenantsamples import NOW, plane_spec, tenant, tenant_class

GPU = "nvidia.com/gpu"


def deployment(**changes: int) -> dict[str, Any]:
    counts = {"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": 1}
    return {"metadata": {"name": "x", "generation": 1}, "status": counts | changes}


def plane_pod(ready: str) -> dict[str, Any]:
    meta = {"name": "plane-0", "labels": {"bulkhead.dev/component": "plane"}}
    return {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def ready_findings(**changes: Any) -> Findings:
    quotas = {
        quota["metadata"]["name"]: quota | {"status": {"hard": quota["spec"]["hard"]}}
        for quota in resource_quotas(plane_spec())
    }
    quotas["tenant-quota"]["status"] |= {"used": {"requests.nvidia.com/gpu": "16"}}
    defaults: dict[str, Any] = {
        "namespaces": ({"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}),
        "pki": True,
        "plane_ready": True,
        "deployments": {"syncer": deployment(), "dns": deployment()},
        "pods": (plane_pod("True"),),
        "quotas": quotas,
        "tenant_class": tenant_class(),
    }
    return Findings(**(defaults | changes))


def ready_condition(made: dict[str, Any]) -> tuple[str, str]:
    found = find_condition(made["conditions"], "Ready")
    assert found is not None
    return found["status"], found["reason"]


def test_a_tenant_of_which_everything_is_there_is_ready() -> None:
    made = compute(tenant(), plane_spec(), ready_findings(), NOW)
    assert ready_condition(made) == ("True", "Ready")
    assert made["gpus"] == {"used": 16, "limit": 24, "summary": "16/24"}
    assert made["endpoint"] == "https://10.112.4.1:443"
    assert made["observedGeneration"] == 3


NOT_READY: dict[str, tuple[dict[str, Any], str]] = {
    "no namespaces": ({"namespaces": ()}, "Provisioning"),
    "no keys": ({"pki": False}, "Provisioning"),
    "no pod": ({"plane_ready": False, "pods": ()}, "Provisioning"),
    "no syncer": ({"deployments": {}}, "WaitingForSyncer"),
    "no quota": ({"quotas": {}}, "Provisioning"),
    "one quota": ({"quotas": {"tenant-quota": {}}}, "Provisioning"),
    "a quota that is not counted yet": (
        {"quotas": {name: {"spec": {"hard": {"pods": "1"}}} for name in ("tenant-quota", "tenant-secrets", "tenant-objects")}},
        "Provisioning",
    ),
    "a namespace that is being deleted": (
        {"namespaces": ({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, {"metadata": {"name": "b"}})},
        "Restarting",
    ),
    "a syncer Deployment whose change its controller has not observed": (
        {"deployments": {"syncer": deployment(observedGeneration=0), "dns": deployment()}},
        "WaitingForSyncer",
    ),
    "a syncer Deployment without an updated pod": (
        {"deployments": {"syncer": deployment(updatedReplicas=0), "dns": deployment()}},
        "WaitingForSyncer",
    ),
    "a syncer Deployment without an available pod": (
        {"deployments": {"syncer": deployment(availableReplicas=0), "dns": deployment()}},
        "WaitingForSyncer",
    ),
    "a plane that answers, with a container that is not ready": ({"pods": (plane_pod("False"),)}, "WaitingForPlane"),
    "a plane that is ready and does not answer": ({"plane_ready": False}, "WaitingForPlane"),
    "it is held to its class": ({"held": Refusal(Reason.OUT_OF_BOUNDS, "more than the class allows")}, "OutOfBounds"),
    "the host refuses": ({"failure": Refusal(Reason.HOST_REFUSED, "no")}, "HostRefused"),
}


@pytest.mark.parametrize("name", NOT_READY)
def test_what_is_missing_is_the_reason(name: str) -> None:
    changes, reason = NOT_READY[name]
    assert ready_condition(compute(tenant(), plane_spec(), ready_findings(**changes), NOW)) == ("False", reason)


def test_a_cluster_of_slurm_counts_for_ready_unless_it_is_only_being_taken_down() -> None:
    starting = Verdict("False", Reason.WAITING_FOR_SLURM, "slurmctld starts")
    for essential in (True, False):
        found = ready_findings(slurm=SlurmPart(starting, essential=essential))
        made = compute(tenant(), plane_spec(), found, NOW)
        assert ready_condition(made) == (("False", "WaitingForSlurm") if essential else ("True", "Ready"))


def test_a_plane_that_was_ready_and_is_not_says_so() -> None:
    before = compute(tenant(), plane_spec(), ready_findings(), NOW)
    pod = {"metadata": {"name": "plane-0", "labels": {"bulkhead.dev/component": "plane"}}, "status": {}}
    down = ready_findings(plane_ready=False, plane_message="refused", pods=(pod,))
    after = compute(tenant(status=before), plane_spec(), down, NOW + timedelta(minutes=1))
    assert ready_condition(after) == ("False", "PlaneUnreachable")


def test_a_syncer_that_was_ready_and_is_not_restarts() -> None:
    before = compute(tenant(), plane_spec(), ready_findings(), NOW)
    away = ready_findings(deployments={"syncer": deployment(availableReplicas=0), "dns": deployment()})
    after = compute(tenant(status=before), plane_spec(), away, NOW + timedelta(minutes=1))
    found = find_condition(after["conditions"], "SyncerReady")
    assert found is not None
    assert found["reason"] == Reason.RESTARTING


def test_a_held_tenant_shows_the_class_and_versions_that_were_applied_in_full() -> None:
    before = compute(tenant(), plane_spec(), ready_findings(), NOW)
    held = ready_findings(held=Refusal(Reason.OUT_OF_BOUNDS, "no"), tenant_class=tenant_class(controlPlane={"replicas": 3}))
    applied = {"class": {"name": "of-before"}, "versions": {"syncer": "of-before"}}
    after = compute(tenant(status=before | applied), plane_spec(), held, NOW)
    assert {key: after[key] for key in applied} == applied


@pytest.mark.parametrize(("blocked", "reason"), [(True, Reason.TEARDOWN_BLOCKED), (False, Reason.TERMINATING)])
def test_a_teardown_that_is_stuck_says_so(blocked: bool, reason: Reason) -> None:
    assert ready_condition(folded.terminating(tenant(), "m", blocked=blocked, now=NOW)) == ("False", reason)


def test_a_status_that_says_nothing_new_is_not_written() -> None:
    before = compute(tenant(), plane_spec(), ready_findings(), NOW)
    after = compute(tenant(status=before), plane_spec(), ready_findings(), NOW + timedelta(hours=1))
    assert not folded.changed(tenant(status=before), after)
    assert folded.changed(tenant(), after)


def test_what_a_tenant_borrows_and_lends_is_as_the_ledger_noted_it() -> None:
    counts = {"nominal": 24, "ceiling": 40, "used": 30, "borrowed": 6, "lent": 0, "borrowable": 10}
    lines = {("h100", GPU): counts, ("", "cpu"): counts | {"used": 1500}, ("", "memory"): counts | {"used": 1 << 30}}
    note = {"metadata": {"annotations": {STANDING: write_standing(lines)}}}
    findings = ready_findings()
    findings = replace(findings, quotas={**findings.quotas, "tenant-quota": findings.quotas["tenant-quota"] | note})
    made = compute(tenant(), plane_spec(ledger={"given": "{}"}), findings, NOW)
    assert made["quota"][2] == {"name": f"{GPU}@h100", "nominal": 24, "ceiling": 40, "used": 30, "borrowed": 6, "lent": 0}
    assert [(line["name"], line["used"]) for line in made["quota"][:2]] == [("cpu", "1500m"), ("memory", "1Gi")]
    assert (made["gpus"]["borrowed"], made["gpus"]["lent"]) == (6, 0)
    # A pod that only waits for the ledger is in the host's quota already, but holds nothing.
    assert (made["gpus"]["used"], made["gpus"]["summary"]) == (30, "30/24")
    # Of a tenant that has left its cohort, no earlier note is reported.
    left = compute(tenant(), plane_spec(), findings, NOW)
    assert (left["quota"], "borrowed" in left["gpus"], left["gpus"]["used"]) == (None, False, 16)


def test_what_is_gone_within_a_field_is_deleted_there() -> None:
    before = compute(tenant(), plane_spec(), ready_findings(), NOW)
    before["gpus"] |= {"borrowed": 6, "lent": 0}
    before["class"]["spec"] |= {"access": {"oidc": {"issuer": "https://old"}}, "isolation": {"network": {"dns": "open"}}}
    there = tenant(status=before)
    now = compute(there, plane_spec(), ready_findings(tenant_class=tenant_class(isolation={})), NOW)
    found = folded.patch(there, now)
    assert found["gpus"] == now["gpus"] | {"borrowed": None, "lent": None}
    assert found["class"]["spec"] == now["class"]["spec"] | {"access": None, "isolation": {"network": None}}
    assert found["conditions"] == now["conditions"]
    assert folded.patch(there, {"class": {}, "slurm": None}) == {"class": {}, "slurm": None}


def test_a_refusal_changes_ready_and_nothing_else() -> None:
    before = compute(tenant(), plane_spec(), ready_findings(), NOW)
    refusal = Refusal(Reason.OUT_OF_BOUNDS, "too much")
    after = folded.refused(tenant(status=before), refusal, NOW, unapplied=False)
    others = [condition for condition in after["conditions"] if condition["type"] != "Ready"]
    assert others == [condition for condition in before["conditions"] if condition["type"] != "Ready"]
    assert ready_condition(after) == ("False", "OutOfBounds")
    assert set(after) == {"conditions", "observedGeneration", "refusedGeneration"}


def test_the_generation_of_a_spec_is_reported_as_refused_only_while_it_is() -> None:
    refusal = Refusal(Reason.OUT_OF_BOUNDS, "too much")
    assert folded.refused(tenant(), refusal, NOW, unapplied=True)["refusedGeneration"] == 3
    assert folded.refused(tenant(), refusal, NOW, unapplied=False)["refusedGeneration"] is None
    assert folded.fold(tenant(), [], folded.Ended(edit=refusal, unapplied=True), NOW)["refusedGeneration"] == 3
    # One that is held to a tighter class was accepted.
    held = folded.fold(tenant(status={"refusedGeneration": 2}), [], folded.Ended(held=refusal), NOW)
    assert (held["refusedGeneration"], held["observedGeneration"]) == (None, 3)
    assert folded.patch(tenant(status={"refusedGeneration": 2}), held)["refusedGeneration"] is None
    going = folded.terminating(tenant(status={"refusedGeneration": 3}), "ends", blocked=False, now=NOW)
    assert going["refusedGeneration"] is None


TROUBLE = {
    "ImagePullBackOff": (0, Reason.POD_NOT_STARTING),
    "CrashLoopBackOff": (5, Reason.CRASHING),
    "ContainerCreating": (0, None),
}


@pytest.mark.parametrize("waiting", TROUBLE)
def test_a_pod_that_cannot_start_is_told_from_one_that_takes_its_time(waiting: str) -> None:
    restarts, reason = TROUBLE[waiting]
    container = {"name": "etcd", "restartCount": restarts, "state": {"waiting": {"reason": waiting, "message": "m"}}}
    found = pod_trouble({"metadata": {"name": "plane-0"}, "status": {"containerStatuses": [container]}})
    assert (found[0] if found else None) == reason


RAISE = "; raise controlPlane.resources.{}.limits.memory of the Tenant or its class"


@pytest.mark.parametrize(
    ("name", "last", "says"),
    [
        ("etcd", "OOMKilled", "killed 7 times, because it needed more memory than its limit of 512Mi" + RAISE.format("etcd")),
        (
            "kube-controller-manager",
            "OOMKilled",
            "killed 7 times, because it needed more memory than the node has" + RAISE.format("controllerManager"),
        ),
        ("other", "OOMKilled", "killed 7 times, because it needed more memory than the node has"),
        ("etcd", "Error", "CrashLoopBackOff: m"),
    ],
)
def test_a_container_that_runs_out_of_memory_is_named_with_its_limit_and_where_to_raise_it(
    name: str, last: str, says: str
) -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "m"}}
    container = {"name": name, "restartCount": 7, "state": waiting, "lastState": {"terminated": {"reason": last}}}
    spec = {"containers": [{"name": "etcd", "resources": {"limits": {"memory": "512Mi"}}}, {"name": "kube-controller-manager"}]}
    pod = {"metadata": {"name": "plane-0"}, "spec": spec, "status": {"containerStatuses": [container]}}
    assert pod_trouble(pod) == (Reason.CRASHING, f"pod plane-0, container {name}: {says}")


@pytest.mark.parametrize(("waiting", "said"), [("ImagePullBackOff", True), ("CreateContainerConfigError", False)])
def test_where_an_image_is_not_pulled_the_hosts_pull_secrets_are_named(waiting: str, said: bool) -> None:
    pod = {
        "metadata": {"name": "plane-0", "labels": {"bulkhead.dev/component": "plane"}},
        "status": {"containerStatuses": [{"name": "etcd", "state": {"waiting": {"reason": waiting, "message": "no"}}}]},
    }
    found = ready_findings(plane_ready=False, pods=(pod,), pull_trouble="Secret registry is missing")
    made = find_condition(compute(tenant(), plane_spec(), found, NOW)["conditions"], "PlaneReady")
    assert made is not None
    assert ("; Secret registry is missing" in made["message"]) == said
    well = compute(tenant(), plane_spec(), ready_findings(pull_trouble="Secret registry is missing"), NOW)
    assert ready_condition(well) == ("True", "Ready")


def test_versions_are_tags_whatever_the_digest() -> None:
    digest = "sha256:" + "a" * 64
    spec = plane_spec()
    images = replace(spec.images, etcd=f"r:5000/etcd:v3.6.16@{digest}", bulkhead=f"r:5000/bulkhead:0.1.0@{digest}")
    versions = compute(tenant(), replace(spec, images=images), Findings(), NOW)["versions"]
    assert (versions["etcd"], versions["bulkhead"]) == ("v3.6.16", "0.1.0")


def reported(uid: str) -> dict[str, Any]:
    return tenant() | {"status": {"planeClusterUID": uid}}


LOST = [
    # The status's identity, the host's record, the plane's answer; whether it is reported, and what is written.
    ("", Recorded(), "new", False, "new"),
    ("old", Recorded("old", 7), "old", False, "old"),
    ("old", Recorded("old", 7), "", False, "old"),
    # The record was lost with the namespace's other objects: the status remembers.
    ("old", Recorded(), "new", True, None),
    # The status is new with its Tenant: the host's record remembers.
    ("", Recorded("old", 7), "new", True, "old"),
    ("old", Recorded("old", 7), "new", True, "old"),
    # An older copy of the same plane, which only its syncer can tell.
    ("old", Recorded("old", 9, "plane went back in time: revision was 9, is 4"), "old", True, "old"),
    # It is also reported while the plane does not answer.
    ("old", Recorded("old", 9, "plane changed identity: cluster UID was old, is new"), "", True, "old"),
    # An admin accepted it: the syncer has recorded the plane as it is.
    ("old", Recorded("new", 3), "new", False, "new"),
]


@pytest.mark.parametrize(("before", "record", "seen", "lost", "stays"), LOST)
def test_data_that_is_not_what_it_was_is_said_and_its_identity_is_kept(
    before: str, record: Recorded, seen: str, lost: bool, stays: str | None
) -> None:
    made = compute(reported(before), plane_spec(), ready_findings(plane_uid=seen, identity=record), NOW)
    assert ready_condition(made) == (("False", "DataLost") if lost else ("True", "Ready"))
    assert made.get("planeClusterUID") == stays
    plane = find_condition(made["conditions"], "PlaneReady")
    assert plane is not None
    if lost:
        assert "bulkhead tenant accept-data team-a" in plane["message"]
        assert all(uid in plane["message"] for uid in ({before or record.uid, seen} - {""} if seen == "new" else ()))


def test_lost_data_is_named_before_whatever_else_is_wrong() -> None:
    found = ready_findings(
        plane_uid="new", identity=Recorded("old"), deployments={}, failure=Refusal(Reason.HOST_REFUSED, "no")
    )
    assert ready_condition(compute(reported("old"), plane_spec(), found, NOW)) == ("False", "DataLost")
