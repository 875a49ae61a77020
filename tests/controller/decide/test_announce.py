"""Which changes of conditions become Events."""

from typing import Any

import pytest

from bulkhead.api.conditions import ConditionType, Reason
from controller.decide.announce import EVENT_MESSAGE_CHARACTERS, announcements


def condition(type_: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message or f"{type_} is {status}"}


UP = [condition("Ready", "True", "Ready"), condition("PlaneReady", "True", "Ready"), condition("SyncerReady", "True", "Ready")]
STARTING = [condition(each["type"], "False", "Provisioning") for each in UP]
CRASHED = [
    condition("Ready", "False", "Crashing", "etcd was ended for its memory"),
    condition("PlaneReady", "False", "Crashing", "etcd was ended for its memory"),
    UP[2],
]


def told(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(each.type, each.condition, each.reason) for each in announcements(before, now)]


def test_of_a_new_tenant_it_says_that_it_is_ready_and_nothing_of_the_way() -> None:
    assert told([], STARTING) == []
    assert told(STARTING, STARTING) == []
    assert told(STARTING, UP) == [("Normal", "Ready", "Ready")]
    assert told([], UP) == [("Normal", "Ready", "Ready")]


def test_a_trouble_is_told_once_by_its_part() -> None:
    assert told(UP, CRASHED) == [("Warning", "PlaneReady", "Crashing")]
    assert told(CRASHED, CRASHED) == []
    assert told(STARTING, CRASHED) == [("Warning", "PlaneReady", "Crashing")]
    assert told(CRASHED, UP) == [("Normal", "Ready", "Ready"), ("Normal", "PlaneReady", "Ready")]


def test_ready_speaks_for_itself_where_no_part_says_the_same() -> None:
    lost = [condition("Ready", "False", "DataLost", "the data is gone"), *UP[1:]]
    assert told(UP, lost) == [("Warning", "Ready", "DataLost")]
    assert told(lost, CRASHED) == [("Warning", "PlaneReady", "Crashing")]


def test_a_member_that_is_down_is_a_warning_although_the_plane_serves() -> None:
    short = [UP[0], condition("PlaneReady", "True", "MembersDown", "plane-1: etcd crashes"), UP[2]]
    assert told(UP, short) == [("Warning", "PlaneReady", "MembersDown")]
    assert told(short, UP) == [("Normal", "PlaneReady", "Ready")]


def test_a_change_of_only_the_message_is_not_announced() -> None:
    other = [{**CRASHED[0], "message": "again"}, {**CRASHED[1], "message": "again"}, UP[2]]
    assert told(CRASHED, other) == []


def test_a_long_message_is_cut() -> None:
    long = [condition("PlaneReady", "False", "Crashing", "x" * 5000)]
    (found,) = announcements([], long)
    assert len(found.message) == EVENT_MESSAGE_CHARACTERS
    assert found.message.startswith("PlaneReady is False: xxx")


@pytest.mark.parametrize("odd", [{}, {"type": 7, "status": None, "reason": []}, {"type": "Ready"}])
def test_conditions_that_make_no_sense_are_nothing(odd: dict[str, Any]) -> None:
    assert told([odd], UP) == [("Normal", "Ready", "Ready")]
    assert told(UP, [odd]) == []


def test_every_reason_is_one_that_an_event_may_have() -> None:
    assert all(str(each).isalnum() and len(str(each)) <= 128 for each in Reason)
    assert all(str(each).isalnum() for each in ConditionType)
