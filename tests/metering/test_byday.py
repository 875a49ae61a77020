"""Sums by tenant and day: nothing of another tenant, nothing that is too old, and every hour of the rest once."""

from bulkhead.metering.byday import own_usages, sums_by_day
from bulkhead.metering.meter import HOUR, UsageKey
from bulkhead.metering.usagebook import Page, Sums

GPU = "nvidia.com/gpu"
DAY = 24 * HOUR
# Noon of 2026-11-26.
NOW = 20_783 * DAY + 12 * HOUR


def page(number: int, *rows: tuple[int, str, Sums]) -> Page:
    """Rows are hours before now, the tenant, and sums in milliseconds."""
    made = Page(number, NOW)
    for at, (ago, tenant, sums) in enumerate(rows):
        hour = NOW // HOUR - ago
        made.hours.setdefault(hour, {})[UsageKey(tenant, f"space-{at}", "Job/secret-name", GPU, "h100")] = sums
    return made


def test_each_tenant_gets_its_own_hours_by_day() -> None:
    first = page(1, (30, "red", Sums(used=7_200_500, idle=900_000)), (30, "blue", Sums(used=1_000)))
    second = page(2, (1, "red", Sums(used=3_000, borrowed=2_000, measured=2_000, busy=500)), (1, "red", Sums(used=4_000)))
    found = own_usages([sums_by_day(first), sums_by_day(second)], NOW, {})
    rows = [(row.day, row.used, row.idle, row.borrowed, row.measured, row.busy) for row in found["red"].rows]
    assert sorted(rows) == [("2026-11-25", 7200, 900, 0, 0, 0), ("2026-11-26", 7, 0, 2, 2, 0)]
    assert found["red"].until == NOW / 1000
    assert [row.used for row in found["blue"].rows] == [1]
    assert "secret-name" not in str(found)


def test_days_before_the_last_two_weeks_and_what_was_only_reserved_are_left_out() -> None:
    found = own_usages(
        [
            sums_by_day(
                page(
                    1,
                    (14 * 24, "red", Sums(used=5_000)),
                    (13 * 24, "blue", Sums(used=5_000)),
                    (1, "green", Sums(reserved=9_000)),
                )
            )
        ],
        NOW,
        {},
    )
    assert set(found) == {"blue"}


def test_nothing_is_told_of_another_tenant_that_had_the_name_on_the_same_day() -> None:
    former, own = (page(number, (1, "red", Sums(used=1_000 * number)), (1, "blue", Sums(used=1_000))) for number in (1, 2))
    former.holders, own.holders = {"red": "u-1"}, {"red": "u-2"}
    present = {"red": "u-2", "blue": "u-3"}
    found = own_usages([sums_by_day(former), sums_by_day(own)], NOW, present)
    assert [row.used for row in found["red"].rows] == [2]
    # What an older release counted says nothing of that.
    assert [row.used for row in found["blue"].rows] == [2]
