"""Retained planes: which outlive their Tenant and until when, and which Tenant takes one up."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import labels, planerecord
from bulkhead.api.conditions import Reason, timestamp
from bulkhead.api.planerecord import PURPOSE, PlaneRecord
from bulkhead.signing import Ring
from controller.decide import adopt, teardown
from controller.decide.adopt import Claim, claim_of, signed_again, takes
from controller.decide.deletion import deletion_of
from controller.decide.retain import ANNOUNCED, Kept, Retained, announced, kept_of, retained_by
from controller.decide.teardown import Left, Step
from controller.existing import Slot
from controller.pki.signingkeys import new_files, ring_of
from controller.plane.sections import Deletion
from controller.refusal import Refusal
from controller.tenant.facets.retention.report import report
from tests.kit.tenantsamples import NOW

ID = "99999999-8888-7777-6666-555555555555"
OTHER = "00000000-8888-7777-6666-555555555555"
RING = ring_of(new_files())
DAY = timedelta(days=1)
KEPT = Kept(ID, NOW + DAY)
HERE = Retained("red", ID, "old-uid", NOW + DAY)
CLAIM = Claim("red", ID, "", has_namespace=False, retained=HERE)


def going(*, identity: str = ID, policy: str = "", retain_for: str = "", **spec: Any) -> dict[str, Any]:
    rule = {"policy": policy, "retainFor": retain_for} if policy else {}
    status = {"planeIdentity": identity, "deletion": rule}
    return {"metadata": {"name": "red", "deletionTimestamp": timestamp(NOW)}, "spec": spec, "status": status}


def marked(kind: str = "Namespace", name: str = "bh-red", **notes: Any) -> dict[str, Any]:
    notes = {labels.TENANT_UID: "old-uid", labels.RETAINED_UNTIL: timestamp(NOW + DAY)} | notes
    marks = labels.made_for("red") | {labels.RETAINED: ID}
    return {"kind": kind, "metadata": {"name": name, "uid": name, "labels": marks, "annotations": notes}}


# -- what is kept


@pytest.mark.parametrize(
    ("asked", "rule", "expected"),
    [
        ({}, {}, Deletion()),
        ({"deletionPolicy": "Delete"}, {"policy": "Retain", "retainFor": "48h"}, Deletion(retain=True, retain_for="48h")),
        ({}, {"policy": "Retain", "retainFor": "48h"}, Deletion(retain=True, retain_for="48h")),
        ({"deletionPolicy": "Retain"}, {"retainFor": "48h"}, Deletion(retain=True, retain_for="48h")),
        ({"deletionPolicy": "Retain"}, {}, Deletion()),
        ({}, {"retainFor": "48h", "confirm": True}, Deletion(confirm=True, retain_for="48h")),
    ],
)
def test_a_tenant_keeps_at_least_what_its_class_keeps(asked: Any, rule: Any, expected: Deletion) -> None:
    assert deletion_of(asked, {"deletion": rule}) == expected


def test_the_status_says_it_only_where_there_is_something_to_say() -> None:
    assert report(Deletion()).fields == {"deletion": None}
    assert report(Deletion(retain=True, retain_for="48h")).fields["deletion"] == {
        "policy": "Retain", "confirm": False, "retainFor": "48h",
    }  # fmt: skip
    assert report(Deletion(confirm=True)).fields["deletion"] == {"policy": "Delete", "confirm": True}


@pytest.mark.parametrize(
    ("tenant", "expected"),
    [
        (going(), None),
        (going(policy="Delete"), None),
        (going(policy="Retain", retain_for="24h"), KEPT),
        # What the Tenant says counts to its end, whatever its class has become.
        (going(deletionPolicy="Retain"), Kept(ID, NOW + 7 * DAY)),
        (going(policy="Retain", retain_for="24h", deletionPolicy="Delete"), KEPT),
        # No plane was ever made.
        (going(identity="", policy="Retain", retain_for="24h"), None),
        # A plane that was being taken up is not lost with its new Tenant.
        (going(identity="", adopt=ID), Kept(ID, NOW + 7 * DAY)),
        (going(identity=OTHER, adopt=ID), None),
    ],
)
def test_which_planes_outlive_their_tenant_and_until_when(tenant: dict[str, Any], expected: Kept | None) -> None:
    assert kept_of(tenant) == expected


def test_marks_that_cannot_be_read_keep_a_plane_for_good() -> None:
    assert retained_by(marked(), "red") == HERE
    for written in ("", "soon", "2026-06-01T12:00:00", 7, None):
        found = retained_by(marked(**{labels.RETAINED_UNTIL: written}), "red")
        assert found is not None
        assert not found.ends(NOW + 1000 * DAY), written
        assert announced(found, NOW) == ""
    for strange in (None, {}, {"metadata": 7}, marked() | {"metadata": {"labels": {labels.RETAINED: ID}}}):
        assert retained_by(strange, "red") is None
    assert retained_by(marked(), "blue") is None


def test_the_end_is_announced_a_day_before() -> None:
    assert announced(HERE, NOW + DAY - ANNOUNCED - timedelta(seconds=1)) == ""
    assert "spec.adopt" in announced(HERE, NOW + DAY - ANNOUNCED)
    assert not HERE.ends(NOW + DAY - timedelta(seconds=1))
    assert HERE.ends(NOW + DAY)


# -- the teardown of a plane that is kept


def thing(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "uid": name} | more}


WHOLE = Left(
    plane_namespace=thing("Namespace", "bh-red"),
    work_namespace=thing("Namespace", "bh-red-work"),
    deployments=(thing("Deployment", "syncer", labels={labels.COMPONENT: "syncer"}),),
    stateful_sets=(thing("StatefulSet", "plane"),),
    plane_pods=(thing("Pod", "plane-0"),),
    work_pods=(thing("Pod", "job"),),
    claims=(thing("PersistentVolumeClaim", "data-plane-0"),),
    ways_in=(thing("Service", "plane-public"),),
    slices=(thing("ServiceCIDR", "bh-red"),),
    cluster_scoped=(thing("ClusterRoleBinding", "bh-red-syncer-nodes"), thing("ServiceCIDR", "bh-red")),
    kept=KEPT,
)


def test_of_a_kept_plane_pods_ways_in_and_rights_end_and_everything_else_is_marked() -> None:
    left, deleted, steps = WHOLE, [], []
    for _ in range(20):
        upcoming = teardown.next_step(left)
        steps.append(upcoming.step)
        names = {action.obj["metadata"]["name"] for action in upcoming.actions}
        if upcoming.step is Step.FINALIZER:
            break
        if upcoming.step is Step.KEEPING:
            assert [action.verb for action in upcoming.actions] == ["mark"] * 3
            last = upcoming.actions[-1].obj
            assert (last["kind"], last["metadata"]["name"]) == ("Namespace", "bh-red"), "its own namespace is marked last"
            left = replace(
                left, plane_namespace=marked(), work_namespace=marked(name="bh-red-work"), slices=(marked("ServiceCIDR"),)
            )
            continue
        deleted += [f"{action.obj['kind']} {action.obj['metadata']['name']}" for action in upcoming.actions]
        rest = {
            field: tuple(obj for obj in getattr(left, field) if obj["metadata"]["name"] not in names)
            for field in ("deployments", "stateful_sets", "plane_pods", "work_pods", "ways_in")
        }
        rights = tuple(
            obj for obj in left.cluster_scoped if obj["kind"] != "ClusterRoleBinding" or obj["metadata"]["name"] not in names
        )
        left = replace(left, **rest, cluster_scoped=rights)
    assert steps[-2:] == [Step.KEEPING, Step.FINALIZER]
    assert steps[0] is Step.SYNCER
    ended = {"Deployment syncer", "Pod job", "StatefulSet plane", "Pod plane-0", "Service plane-public"}
    assert set(deleted) == ended | {"ClusterRoleBinding bh-red-syncer-nodes"}


@given(st.sets(st.sampled_from(["deployments", "stateful_sets", "plane_pods", "work_pods", "claims", "ways_in", "slices"])))
def test_whatever_is_left_no_volume_no_namespace_and_no_slice_of_a_kept_plane_is_deleted(missing: set[str]) -> None:
    left = replace(WHOLE, **dict.fromkeys(missing, ()))
    for action in teardown.next_step(left).actions:
        kept = action.obj["kind"] in {"Namespace", "PersistentVolumeClaim", "ServiceCIDR"}
        assert (action.verb == "mark") is kept


# -- who takes one up


@pytest.mark.parametrize(
    ("claim", "reason", "words"),
    [
        (CLAIM, None, ()),
        (replace(CLAIM, adopt=""), Reason.NAMESPACE_TAKEN, (f"spec.adopt: {ID}", "another name", "retained --end red")),
        (replace(CLAIM, adopt=OTHER), Reason.ADOPTION_REFUSED, (OTHER, ID, "another one")),
        # Another tenant's live plane, or one that is kept under another name: nothing is retained under this one.
        (replace(CLAIM, retained=None), Reason.ADOPTION_REFUSED, ("no plane is retained in bh-red",)),
        (replace(CLAIM, retained=replace(HERE, until=NOW)), Reason.ADOPTION_REFUSED, ("its time was over",)),
        (replace(CLAIM, retained=replace(HERE, terminating=True)), Reason.ADOPTION_REFUSED, ("being deleted",)),
        (replace(CLAIM, retained=replace(HERE, until=None)), None, ()),
        # Taken up, and reported or not.
        (replace(CLAIM, retained=None, has_namespace=True), None, ()),
        (replace(CLAIM, retained=None, reported=ID), None, ()),
        (replace(CLAIM, retained=None, reported=OTHER), Reason.ADOPTION_REFUSED, ("has the plane", OTHER)),
        (replace(CLAIM, adopt="", retained=None), None, ()),
        (replace(CLAIM, adopt="", retained=None, reported=OTHER), None, ()),
    ],
)
def test_a_plane_is_taken_up_by_its_identity_and_its_name_together(
    claim: Claim, reason: Reason | None, words: tuple[str, ...]
) -> None:
    refusal = adopt.refuse(claim, NOW)
    assert (refusal.reason if refusal else None) == reason
    assert all(word in (refusal.message if refusal else "") for word in words), refusal


def test_what_a_tenant_claims_is_read_from_it_and_from_what_is_there() -> None:
    tenant = {"metadata": {"name": "red"}, "spec": {"adopt": ID}}
    own = {Slot("Namespace", "", "bh-red"): {}}
    assert claim_of(tenant, {}, HERE) == CLAIM
    assert takes(claim_of(tenant, own, HERE))
    assert not claim_of(tenant, own, HERE).has_namespace, "a namespace with marks is not yet its own"
    assert claim_of(tenant, own, None).has_namespace
    assert not takes(claim_of({"metadata": {"name": "red"}}, own, HERE))


def record(ring: Ring = RING, purpose: str = PURPOSE, **changes: str) -> str:
    made = PlaneRecord(**({"id": ID, "tenant": "red", "tenant_uid": "old-uid", "created": "2026-01-01T00:00:00Z"} | changes))
    return ring.sign(purpose, made.text())


def test_the_record_is_signed_for_the_new_tenant_and_stays_what_it_was() -> None:
    found = signed_again(CLAIM, "new-uid", record(), RING)
    assert found == PlaneRecord(ID, "red", "new-uid", "2026-01-01T00:00:00Z")
    # A controller died after it had written it.
    assert signed_again(CLAIM, "new-uid", record(tenant_uid="new-uid"), RING) is None
    # Or the Tenant was deleted then, and a third one comes.
    assert isinstance(signed_again(CLAIM, "third", record(tenant_uid="new-uid"), RING), PlaneRecord)


@pytest.mark.parametrize(
    ("envelope", "words"),
    [
        (None, "is missing"),
        ("", "Restore it"),
        ("nonsense", "Restore it"),
        (record().replace("old-uid", "new-uid"), "Restore it"),
        (record(ring_of(new_files())), "keys of this installation"),
        (record(purpose="bulkhead.dev/snapshot-manifest/v1"), "Restore it"),
        (record(id=OTHER), "exchanged"),
        (record(tenant="blue"), "exchanged"),
    ],
)
def test_a_record_that_is_forged_foreign_or_anothers_takes_up_nothing(envelope: str | None, words: str) -> None:
    found = signed_again(CLAIM, "new-uid", envelope, RING)
    assert isinstance(found, Refusal)
    assert found.reason is Reason.ADOPTION_REFUSED
    assert words in found.message
    assert planerecord.SECRET in found.message
