"""A tenant's own quota, from what the host says and the syncer counts: hostile quotas, and nothing of others."""

import json
from typing import Any

import pytest

from bulkhead.api import ledger, names, ownquota, ownusage
from bulkhead.api.ownquota import Limit, OwnLine
from bulkhead.api.ownusage import DayUse, OwnUsage
from syncer.quota import picture

GPU = "nvidia.com/gpu"
COUNTS = {"nominal": 4, "ceiling": 8, "used": 6, "borrowed": 2, "lent": 0, "borrowable": 1}
CANARY = "canary-of-another-tenant"


def quota(name: str = names.POD_QUOTA, annotations: Any = None, hard: Any = None, used: Any = None) -> Any:
    return {"metadata": {"name": name, "annotations": annotations}, "status": {"hard": hard, "used": used}}


def own(*quotas: Any, devices: tuple[OwnLine, ...] = (), reasons: tuple[str, ...] = ()) -> ownquota.OwnQuota:
    uids = {"host-1": "virtual-1"}
    return picture.own_quota(quotas, devices, reasons, uids.get, in_cohort=True)


def test_the_ledger_goes_before_the_syncers_own_count() -> None:
    noted = {ledger.STANDING: ledger.write_standing({("h100", GPU): COUNTS, ("", "cpu"): COUNTS})}
    found = own(quota(annotations=noted), devices=(OwnLine(GPU, "", 9, 9, 9), OwnLine("x.com/nic", "", 2, 2, 1)))
    assert [(line.resource, line.flavor) for line in found.lines] == [(GPU, "h100"), ("x.com/nic", ""), ("cpu", "")]
    assert found.lines[0] == OwnLine(GPU, "h100", **COUNTS)


def test_only_own_pods_that_wait_have_a_place() -> None:
    queue = {"host-1": ledger.Place(2, 5.0), CANARY: ledger.Place(1)}
    found = own(quota(annotations={ledger.QUEUE: ledger.write_queue(queue), "note": CANARY}))
    assert found.queue == {"virtual-1": ledger.Place(2, 5.0)}
    assert CANARY not in json.dumps(picture.config_map(found, 0.0))


def test_a_quota_of_another_name_says_nothing_of_the_ledger() -> None:
    noted = {ledger.STANDING: ledger.write_standing({("", GPU): COUNTS})}
    assert own(quota(names.OBJECT_QUOTA, annotations=noted)).lines == ()


def test_limits_are_those_that_no_line_says() -> None:
    hard, used = {"pods": "50", f"requests.{GPU}": "8", "requests.memory": "1Gi"}, {"pods": "3"}
    found = own(
        quota(hard=hard, used=used), quota(names.OBJECT_QUOTA, hard={"configmaps": "9"}), devices=(OwnLine(GPU, "", 8, 8, 0),)
    )
    assert found.limits == (Limit("configmaps", "9", "0"), Limit("pods", "50", "3"), Limit("requests.memory", "1Gi", "0"))


@pytest.mark.parametrize(
    ("virtual", "reason"),
    [
        ({"spec": {}}, ""),
        ({"spec": {"nodeName": "n"}}, None),
        ({"status": {"phase": "Succeeded"}}, None),
        ({"metadata": {"deletionTimestamp": "now"}}, None),
        ({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "QuotaExceeded"}]}}, "QuotaExceeded"),
        ({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "x\n" * 99}]}}, ""),
        ({"status": "none", "spec": 5, "metadata": []}, ""),
    ],
)
def test_which_pods_wait_and_why(virtual: Any, reason: str | None) -> None:
    assert picture.waits(virtual) == reason


def test_the_same_picture_is_known_and_any_other_hand_is_seen() -> None:
    found = own(quota(hard={"pods": "5"}))
    there = picture.config_map(found, 1_800_000_000.123)
    assert picture.is_same(there, found)
    assert not picture.is_same(there, own(quota(hard={"pods": "6"})))
    for changed in (
        {"immutable": True},
        {"binaryData": {"x": "AA=="}},
        {"data": there["data"] | {"more": "x"}},
        {"data": {ownquota.FILE: there["data"][ownquota.FILE] + " "}},
        {"data": {ownquota.FILE: "{}"}},
        {"metadata": there["metadata"] | {"labels": {}}},
    ):
        assert not picture.is_same(there | changed, found)


@pytest.mark.parametrize("status", [None, 5, {"hard": 5}, {"hard": {"pods": ["x"] * 999}, "used": {"pods": {"a": 1}}}])
def test_a_malformed_quota_is_shown_as_far_as_it_goes(status: Any) -> None:
    found = own({"metadata": {"name": names.POD_QUOTA, "annotations": "none"}, "status": status}, reasons=("A", "A", ""))
    assert found.waiting == {"": 1, "A": 2}
    assert len(ownquota.write(found, 0.0)) < ownquota.ANSWER_LIMIT_BYTES


USAGE = OwnUsage(1_800_000_000.0, (DayUse("2026-11-26", GPU, "", used=60),))


def test_device_hours_are_passed_on_as_the_controller_noted_them_and_are_part_of_the_object() -> None:
    noted = quota(annotations={ownusage.ANNOTATION: ownusage.write(USAGE)})
    assert picture.own_usage([quota(names.OBJECT_QUOTA), noted]) == USAGE
    made = picture.config_map(own(noted), 5.0, USAGE)
    assert ownusage.of_config_map(made) == USAGE
    assert picture.is_same(made, own(noted), USAGE)
    assert not picture.is_same(made, own(noted), None)
    assert not picture.is_same(picture.config_map(own(noted), 5.0), own(noted), USAGE)


@pytest.mark.parametrize("note", [None, 7, "", "{", "[" * 9000, '{"until": "x", "rows": 5}'])
def test_a_note_that_cannot_be_read_is_passed_on_to_no_tenant(note: Any) -> None:
    damaged = quota(annotations={ownusage.ANNOTATION: note})
    assert picture.own_usage([damaged]) is None
    assert set(picture.config_map(own(damaged), 5.0, picture.own_usage([damaged]))["data"]) == {ownquota.FILE}
