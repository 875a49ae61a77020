"""Conditions: transitions, order, and that what is there already changes nothing."""

import ast
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import conditions
from bulkhead.api.conditions import ConditionType, Reason, set_condition

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def make(
    before: list[dict[str, Any]], type_: ConditionType, status: conditions.Status, now: datetime = NOW, **more: Any
) -> Any:
    given_ = {"reason": Reason.READY, "message": "m", "observed_generation": 1} | more
    return set_condition(before, type_, status, given_.pop("reason"), given_.pop("message"), now=now, **given_)


def test_the_transition_time_moves_with_the_status_only() -> None:
    first = make([], ConditionType.READY, "False")
    same = make(first, ConditionType.READY, "False", LATER, reason=Reason.CRASHING, message="other", observed_generation=2)
    assert same[0]["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert (same[0]["reason"], same[0]["observedGeneration"]) == ("Crashing", 2)
    assert make(same, ConditionType.READY, "True", LATER)[0]["lastTransitionTime"] == "2026-01-01T12:05:00Z"


def test_the_order_is_fixed_and_foreign_conditions_stay() -> None:
    foreign = {"type": "Theirs", "status": "True"}
    listed = make(make([foreign], ConditionType.QUOTA_APPLIED, "True"), ConditionType.READY, "True")
    assert [item["type"] for item in listed] == ["Ready", "QuotaApplied", "Theirs"]
    assert conditions.is_true(listed, ConditionType.READY)
    assert not conditions.is_true(listed, ConditionType.PKI_READY)


@given(st.lists(st.tuples(st.sampled_from(ConditionType), st.sampled_from(["True", "False", "Unknown"])), max_size=12))
def test_setting_again_changes_nothing_and_types_stay_unique(steps: list[tuple[ConditionType, Any]]) -> None:
    listed: list[dict[str, Any]] = []
    for type_, status in steps:
        listed = make(listed, type_, status)
        assert make(listed, type_, status, LATER) == listed
    assert len({item["type"] for item in listed}) == len(listed)


def test_the_input_is_left_alone() -> None:
    before = make([], ConditionType.READY, "False")
    kept = [dict(item) for item in before]
    make(before, ConditionType.READY, "True", LATER)
    assert before == kept


def test_times_are_utc_and_a_time_without_zone_is_refused() -> None:
    assert conditions.timestamp(NOW.astimezone(timezone(timedelta(hours=2)))) == "2026-01-01T12:00:00Z"
    with pytest.raises(ValueError, match="time zone"):
        conditions.timestamp(NOW.replace(tzinfo=None))


def test_long_messages_are_cut() -> None:
    assert len(make([], ConditionType.READY, "False", message="x" * 9999)[0]["message"]) == conditions.MESSAGE_LIMIT


@pytest.mark.parametrize("member", [*Reason, *ConditionType])
def test_every_reason_and_type_is_explained(member: Reason | ConditionType) -> None:
    assert member.explanation.endswith(".")
    assert member.value.isalnum()
    assert f"{member}" == member.value


def test_the_light_modules_load_the_standard_library_only() -> None:
    code = "import sys; import bulkhead.api.names, bulkhead.api.labels, bulkhead.api.conditions; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = ast.literal_eval(done.stdout)
    assert not {"pydantic", "yaml", "aiohttp", "msgspec"} & {name.split(".")[0] for name in loaded}
