"""Idle holders of devices: by measurement alone, for a whole hour, and still now."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bulkhead.metering.idling import idling
from bulkhead.metering.meter import HOUR, UsageKey
from bulkhead.metering.usagebook import Sums

THIS = 491_000
NOW = THIS * HOUR + HOUR // 2


def account(owner: str) -> UsageKey:
    return UsageKey("red", "ml", owner, "nvidia.com/gpu", "")


def hour(owner: str, ago: int, busy: float, *, devices: int = 1, measured: float = 1.0) -> tuple[int, UsageKey, Sums]:
    held = devices * (HOUR // 2 if ago == 0 else HOUR)
    seen = round(held * measured)
    return THIS - ago, account(owner), Sums(used=held, measured=seen, busy=round(seen * busy))


def names(*rows: tuple[int, UsageKey, Sums], now: int = NOW) -> tuple[list[str], list[str]]:
    found = idling(rows, now)
    return [one.account.owner for one in found.idle], [one.owner for one in found.unmeasured]


def test_who_was_below_five_percent_for_the_last_whole_hour_and_still_holds_is_named() -> None:
    rows = [
        *(hour("idle", ago, 0.02, devices=4) for ago in range(4)),
        hour("idle", 4, 0.5, devices=4),
        *(hour("busy", ago, 0.9) for ago in range(3)),
        hour("border", 1, 0.05),
        hour("border", 0, 0.05),
        hour("gone", 1, 0.0),
        hour("woke", 1, 0.0),
        hour("woke", 0, 0.9),
        hour("began", 0, 0.0),
    ]
    (one,) = idling(rows, NOW).idle
    assert (one.account.owner, one.devices, one.hours) == ("idle", 4, 3)
    assert 0.019 < one.utilisation < 0.021


def test_what_was_not_measured_is_judged_neither_way() -> None:
    rows = [hour("dark", 1, 0.0, measured=0.0), hour("dark", 0, 0.0, measured=0.0)]
    assert names(*rows) == ([], ["dark"])
    assert names(hour("half", 1, 0.0, measured=0.5), hour("half", 0, 0.0)) == ([], ["half"])
    assert names(hour("most", 1, 0.0, measured=0.9), hour("most", 0, 0.0)) == (["most"], [])


def test_a_young_hour_says_nothing_yet() -> None:
    assert names(hour("idle", 1, 0.0), now=THIS * HOUR + 60_000) == (["idle"], [])
    assert names(hour("idle", 1, 0.0), now=NOW) == ([], [])


def test_those_with_the_most_devices_come_first() -> None:
    rows: list[Any] = []
    for owner, devices in (("one", 1), ("eight", 8), ("two", 2)):
        rows += [hour(owner, 1, 0.0, devices=devices), hour(owner, 0, 0.0, devices=devices)]
    assert names(*rows)[0] == ["eight", "two", "one"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.floats(0, 1), st.floats(0, 1)), max_size=20))
def test_nobody_is_named_without_a_measured_hour_below_the_bound(parts: list[tuple[str, int, float, float]]) -> None:
    rows = [hour(owner, ago, busy, measured=measured) for owner, ago, busy, measured in parts]
    for one in idling(rows, NOW).idle:
        mine = [sums for at, key, sums in rows if at == THIS - 1 and key == one.account]
        assert sum(sums.busy for sums in mine) < 0.05 * sum(sums.measured for sums in mine)
        assert one.hours >= 1
        assert one.utilisation < 0.05
