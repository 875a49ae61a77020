"""What is reported of scheduled snapshots: whether the last whole one is recent enough, over time and before the first."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.conditions import ConditionType, Reason, set_condition
from controller.tenant.facets.schedule.report import Made, Standing, report
from tests.kit.tenantsamples import NOW, tenant

LAST = ConditionType.LAST_SNAPSHOT
HOUR = timedelta(hours=1)
GRACE = timedelta(minutes=15)


def made(now: datetime = NOW, last: datetime | None = None, *, of: dict[str, Any] | None = None, **more: Any) -> Made:
    return report(of or tenant(), Standing(3600, now=now, last=last, upcoming=now + HOUR, **more))


def told(found: Made) -> tuple[str, str]:
    verdict = found.report.conditions[LAST]
    assert verdict is not None
    return verdict.status, verdict.reason


def with_condition(found: Made, now: datetime, of: dict[str, Any]) -> dict[str, Any]:
    verdict = found.report.conditions[LAST]
    assert verdict is not None
    conditions = set_condition(
        (of.get("status") or {}).get("conditions") or [],
        LAST, verdict.status, Reason(verdict.reason), verdict.message, now=now, observed_generation=1,
    )  # fmt: skip
    return of | {"status": {"conditions": conditions}}


def test_without_a_schedule_nothing_is_said_and_before_anything_is_known_nothing_changes() -> None:
    assert report(tenant(), Standing(0, now=NOW)).report.conditions == {LAST: None}
    assert report(tenant(), None).report.conditions == {}


@pytest.mark.parametrize(
    ("ago", "truth", "reason"),
    [
        (HOUR, "True", Reason.READY),
        (2 * HOUR + GRACE - timedelta(seconds=1), "True", Reason.READY),
        (2 * HOUR + GRACE, "False", Reason.BACKUP_OVERDUE),
        (99 * HOUR, "False", Reason.BACKUP_OVERDUE),
    ],
)
def test_two_intervals_and_a_grace_after_the_last_one_the_next_is_overdue(ago: timedelta, truth: str, reason: Reason) -> None:
    found = made(last=NOW - ago, trouble="the bucket is full")
    assert told(found) == (truth, reason)
    assert found.due == (NOW - ago + 2 * HOUR + GRACE).timestamp()
    assert found.last == (NOW - ago).timestamp()
    message = (found.report.conditions[LAST] or told(found)).message  # type: ignore[union-attr]
    # Only while it is overdue the message has what is wrong: a good one stays as it is between two snapshots.
    assert ("the bucket is full" in message) is (truth == "False")


def test_before_the_first_it_is_overdue_once_and_stays_so_until_there_is_one() -> None:
    of, now, seen = tenant(), NOW, []
    for _ in range(60):
        found = made(now, of=of, trouble="attempt 3 failed")
        seen.append(told(found)[1])
        of = with_condition(found, now, of)
        now += timedelta(minutes=5)
    overdue = seen.index(Reason.BACKUP_OVERDUE)
    assert overdue * timedelta(minutes=5) == 2 * HOUR + GRACE
    assert set(seen[:overdue]) == {Reason.PROVISIONING}
    assert set(seen[overdue:]) == {Reason.BACKUP_OVERDUE}
    assert told(made(now, now - HOUR, of=of)) == ("True", Reason.READY)


@pytest.mark.parametrize(("last", "truth"), [(NOW - HOUR, "True"), (None, "Unknown"), (NOW - 99 * HOUR, "False")])
def test_why_none_is_taken_for_now_is_told_also_while_the_last_one_is_recent(last: datetime | None, truth: str) -> None:
    found = made(last=last, trouble="the bucket is full", held="none is taken")
    assert told(found)[0] == truth
    message = (found.report.conditions[LAST] or told(found)).message  # type: ignore[union-attr]
    assert message.endswith("; none is taken")


def test_once_all_are_deleted_the_next_one_is_awaited_anew() -> None:
    of = with_condition(made(last=NOW - HOUR), NOW - 99 * HOUR, tenant())
    assert told(made(of=of)) == ("Unknown", Reason.PROVISIONING)


def test_a_schedule_without_a_place_is_said_with_what_to_do() -> None:
    found = made(last=NOW - HOUR, has_place=False)
    assert told(found) == ("False", Reason.NO_BACKUP_PLACE)
    assert "backup.recipients" in found.report.conditions[LAST].message  # type: ignore[union-attr]


@given(st.integers(0, 7200))
def test_a_look_comes_with_the_next_slot_and_never_later_than_usual(seconds: int) -> None:
    again = report(tenant(), Standing(3600, now=NOW, upcoming=NOW + timedelta(seconds=seconds))).report.again
    assert again is None or 1 <= again == max(1, seconds) < 60
    assert (again is None) is (seconds >= 60)
