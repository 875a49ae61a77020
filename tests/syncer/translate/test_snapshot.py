"""Snapshots of claims: what comes up from the host, what stays below, and what a hostile side can make of it."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings

from bulkhead.api.objects import Obj
from syncer.translate import Reason, Untranslatable, sanitise
from syncer.translate.kinds import classes, event, snapshot, volumeclaim
from syncer.translate.registry import WITH_EVENTS
from tests.kit import translationsamples as samples
from tests.syncer.translate.test_laws import JSON

VIEW = samples.view({"offers_snapshots": True, "snapshot_classes": ["daily"]})
VIRTUAL: Obj = {
    "apiVersion": snapshot.API_VERSION,
    "kind": snapshot.KIND,
    "metadata": {"name": "nightly", "namespace": "team", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"source": {"persistentVolumeClaimName": "data"}},
}
CLAIM: Obj = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "copy", "namespace": "team", "uid": "u2"},
    "spec": {"dataSource": {"apiGroup": snapshot.GROUP, "kind": snapshot.KIND, "name": "nightly"}},
}
CONTENT = "snapcontent-1b7c0d4e-6a3f-4f64-9d1e-3f0a7b8c9d0e"
TAKEN = {"readyToUse": True, "creationTime": "2026-01-01T00:00:00Z", "restoreSize": "1Gi"}
NOW = "2026-02-01T00:00:00Z"


def above(status: Any, virtual: Obj | None = None) -> Obj:
    return snapshot.status_to_virtual({"status": status}, virtual or VIRTUAL, VIEW)


def test_item_35_what_became_of_a_snapshot_comes_up_without_the_hosts_content() -> None:
    given_ = TAKEN | {"boundVolumeSnapshotContentName": CONTENT, "volumeGroupSnapshotName": "of-the-host"}
    assert above(given_) == TAKEN
    assert above(None) == {}


def test_item_35_an_error_is_told_in_the_tenants_words() -> None:
    own, claim = (
        VIEW.host_name(kind, "team", name) for kind, name in ((snapshot.KIND, "nightly"), ("PersistentVolumeClaim", "data"))
    )
    text = f"snapshot bh-red-work/{own} of {claim}: content {CONTENT} failed, as did other-{'0' * 32}"
    told = above({"readyToUse": False, "error": {"time": NOW, "message": text}})
    assert told["error"] == {
        "time": NOW, "message": "snapshot team/nightly of data: content (hidden) failed, as did (hidden)",
    }  # fmt: skip


def test_item_35_83_what_the_host_says_of_a_claim_names_its_snapshot() -> None:
    name = VIEW.host_name(snapshot.KIND, "team", "nightly")
    text = f"requested volume size 1 is less than the size 2 for the source snapshot {name}"
    assert sanitise.text(text, CLAIM, VIEW).endswith("the source snapshot nightly")
    assert event.involved({"involvedObject": {"kind": snapshot.KIND, "name": name}}, WITH_EVENTS) == (snapshot.KIND, name)


@pytest.mark.parametrize(
    "status",
    [
        "ready",
        ["ready"],
        {"readyToUse": "yes", "creationTime": "now", "restoreSize": "-1", "error": "broken"},
        {"readyToUse": 1, "creationTime": 5, "restoreSize": [1], "error": {"message": {"a": 1}, "time": []}},
        {"creationTime": "2026-13-41T00:00:00Z", "restoreSize": "1e99", "error": {"time": "2026-01-01"}},
        {"creationTime": "2026-01-01T00:00:00Z\n", "restoreSize": True, "more": {"deep": {}}},
    ],
)
def test_item_35_garbage_in_a_status_is_left_out(status: Any) -> None:
    assert above(status) == {}
    assert above(TAKEN, VIRTUAL | {"status": status}) == TAKEN
    assert not snapshot.was_taken(VIRTUAL | {"status": status})
    told = snapshot.blocked(VIRTUAL | {"status": status}, Reason.NOT_ALLOWED, "no", NOW)
    assert told == {"readyToUse": False, "error": {"message": "NotAllowed: no", "time": NOW}}


def test_item_35_a_long_message_is_cut() -> None:
    assert len(above({"error": {"message": "x" * 100_000}})["error"]["message"]) < 5000


def test_item_35_a_refusal_is_told_once_and_keeps_that_the_snapshot_was_taken() -> None:
    first = snapshot.blocked(VIRTUAL, Reason.NOT_ALLOWED, "no", NOW)
    again = snapshot.blocked(VIRTUAL | {"status": first}, Reason.NOT_ALLOWED, "no", "2026-03-01T00:00:00Z")
    assert again == first
    assert not snapshot.was_taken(VIRTUAL | {"status": first})
    for status in (TAKEN, {"readyToUse": True}, {"restoreSize": "1Gi"}):
        lost = snapshot.blocked(VIRTUAL | {"status": status}, Reason.HOST_REFUSED, "gone", NOW)
        assert lost["readyToUse"] is False
        assert snapshot.was_taken(VIRTUAL | {"status": lost})


def test_item_35_the_only_class_is_that_of_snapshots_that_name_none() -> None:
    assert snapshot.to_host(VIRTUAL, VIEW)["spec"]["volumeSnapshotClassName"] == "daily"
    with pytest.raises(Untranslatable, match="offered: none"):
        snapshot.to_host(VIRTUAL, samples.view({"offers_snapshots": True}))


def test_item_35_a_claim_filled_from_a_snapshot_names_its_mirror() -> None:
    host = volumeclaim.to_host(CLAIM, VIEW)
    name = VIEW.host_name(snapshot.KIND, "team", "nightly")
    assert host["spec"]["dataSource"] == {"apiGroup": snapshot.GROUP, "kind": snapshot.KIND, "name": name}
    assert volumeclaim.snapshot_on_host(host) == name
    clone = CLAIM | {"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "data"}}}
    assert volumeclaim.snapshot_on_host(volumeclaim.to_host(clone, VIEW)) == ""


def test_item_35_a_snapshot_class_is_shown_without_the_hosts_parameters() -> None:
    offer = classes.OFFERS[classes.SNAPSHOT_CLASS]
    notes = {"annotations": {classes.DEFAULT_SNAPSHOT_CLASS: "true", "of": "the host"}}
    host = {
        "metadata": {"name": "daily", **notes}, "driver": "disk.example.org",
        "deletionPolicy": "Retain", "parameters": {"csi.storage.k8s.io/snapshotter-secret-name": "of-the-host"},
    }  # fmt: skip
    shown = offer.shown(host)
    assert (shown["driver"], shown["deletionPolicy"]) == ("disk.example.org", "Delete")
    assert "of-the-host" not in str(shown)
    assert shown["metadata"]["annotations"] == {classes.DEFAULT_SNAPSHOT_CLASS: "true"}
    assert classes.steps(offer, [host], [shown]) == []
    bent = copy.deepcopy(shown) | {"driver": "mine", "parameters": {"a": "b"}}
    bent["metadata"]["annotations"] = {}
    (step,) = classes.steps(offer, [host], [bent])
    assert step.verb == "patch"
    assert step.body == {
        "driver": "disk.example.org", "parameters": None,
        "metadata": {"annotations": {classes.DEFAULT_SNAPSHOT_CLASS: "true"}},
    }  # fmt: skip


def test_item_35_a_default_is_one_class_and_an_offered_one() -> None:
    def host(name: str, value: str = "true") -> Obj:
        return {"metadata": {"name": name, "annotations": {classes.DEFAULT_SNAPSHOT_CLASS: value}}}

    assert classes.default_snapshot_class([host("a"), host("b", "false")]) == "a"
    assert classes.default_snapshot_class([host("a"), host("b")]) == ""
    assert classes.default_snapshot_class([]) == ""


@settings(max_examples=200)
@given(JSON, JSON, JSON)
def test_item_35_any_shape_of_a_bent_definition_is_translated_or_refused(spec: Any, status: Any, other: Any) -> None:
    """A tenant can let its plane serve anything under this name."""
    virtual = VIRTUAL | {"spec": spec, "status": status}
    try:
        host = snapshot.to_host(virtual, VIEW)
    except Untranslatable:
        host = {}
    assert set(host.get("spec", {})) <= {"source", "volumeSnapshotClassName"}
    assert set(above(other, virtual)) <= set(snapshot.STATUS_TRANSLATED)
    snapshot.was_taken(virtual)
    snapshot.blocked(virtual, Reason.NOT_ALLOWED, "no", NOW)
    sanitise.text("text", virtual, VIEW)
    sanitise.text("text", CLAIM | {"spec": spec}, VIEW)
