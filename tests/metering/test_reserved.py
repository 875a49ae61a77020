"""How long free devices were reserved: each second once, whatever is late, restarts, or goes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.quotalines import ReservedRoom
from bulkhead.metering.meter import HOUR, UsageKey
from bulkhead.metering.reserved import OTHERS, ReservedMeter

GPU = "nvidia.com/gpu"
BEGIN = 500_000 * HOUR


def room(gpus: int, tenant: str = "ada", owner: str = "Job/train", flavor: str = "") -> ReservedRoom:
    return ReservedRoom(tenant, "ml", owner, {(flavor, GPU): gpus})


def key(tenant: str = "ada", owner: str = "Job/train", flavor: str = "") -> UsageKey:
    return UsageKey(tenant, "ml", owner, GPU, flavor)


def counted(meter: ReservedMeter) -> dict[UsageKey, int]:
    found: Counter[UsageKey] = Counter()
    for tally in meter.count():
        assert (tally.used, tally.idle, tally.borrowed) == (0, 0, 0)
        found[tally.account] += tally.reserved
    return dict(found)


def test_what_one_decision_reserves_counts_until_the_next_one() -> None:
    meter = ReservedMeter()
    meter.see([room(3)], BEGIN)
    assert counted(meter) == {}
    meter.see([room(3), room(2, "bob", flavor="h100")], BEGIN + 1000)
    assert counted(meter) == {key(): 3000}
    meter.see([room(1)], BEGIN + 3000)
    assert counted(meter) == {key(): 6000, key("bob", flavor="h100"): 4000}
    # Released.
    meter.see([], BEGIN + 4000)
    meter.see([], BEGIN + 9000)
    assert counted(meter) == {key(): 1000}
    assert counted(meter) == {}


def test_two_hours_each_have_their_part() -> None:
    meter = ReservedMeter()
    meter.see([room(2)], BEGIN - 10_000)
    meter.see([], BEGIN + 20_000)
    assert [(tally.hour, tally.reserved) for tally in meter.count()] == [(499_999, 20_000), (500_000, 40_000)]


def test_rooms_of_one_owner_are_one_sum() -> None:
    meter = ReservedMeter()
    meter.see([room(2), room(3)], BEGIN)
    meter.see([], BEGIN + 1000)
    assert counted(meter) == {key(): 5000}


def test_a_decision_that_comes_too_late_confirms_nothing() -> None:
    meter = ReservedMeter()
    meter.see([room(2)], BEGIN)
    meter.see([room(2)], BEGIN + 120_001)
    assert counted(meter) == {}
    meter.see([room(2)], BEGIN + 240_001)
    assert counted(meter) == {key(): 240_000}


def test_a_restart_begins_with_the_first_decision() -> None:
    first, second = ReservedMeter(), ReservedMeter()
    first.see([room(2)], BEGIN)
    first.see([room(2)], BEGIN + 1000)
    stored = counted(first)
    # It dies here; the next one learns of the same room five seconds later.
    second.see([room(2)], BEGIN + 6000)
    second.see([room(2)], BEGIN + 7000)
    assert (stored, counted(second)) == ({key(): 2000}, {key(): 2000})


def test_a_tenant_that_deletes_itself_keeps_what_was_counted_and_no_more() -> None:
    meter = ReservedMeter()
    meter.see([room(2), room(1, "bob")], BEGIN)
    meter.see([room(1, "bob")], BEGIN + 1000)
    meter.see([room(1, "bob")], BEGIN + 2000)
    assert counted(meter) == {key(): 2000, key("bob"): 2000}


def test_sums_that_are_not_fetched_are_bounded_and_keep_their_tenant() -> None:
    meter = ReservedMeter()
    meter.see([room(1, "bob", "Job/quiet")], BEGIN)
    for number in range(5000):
        meter.see([room(1, owner=f"Job/{number}"), room(1, "bob", "Job/quiet")], BEGIN + number + 1)
    meter.see([], BEGIN + 5001)
    found = counted(meter)
    assert len(found) == 4097
    assert sum(amount for usage_key, amount in found.items() if usage_key.tenant == "ada") == 5000
    assert found[UsageKey("ada", OTHERS, OTHERS, GPU, "")] == 5000 - 4095
    assert found[key("bob", "Job/quiet")] == 5001


@pytest.mark.parametrize("back", [1, HOUR])
def test_a_clock_that_goes_back_counts_nothing_twice(back: int) -> None:
    meter = ReservedMeter()
    meter.see([room(2)], BEGIN)
    meter.see([room(2)], BEGIN + 1000)
    meter.see([room(2)], BEGIN + 1000 - back)
    meter.see([], BEGIN + 1500)
    assert counted(meter) == {key(): 3000}


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 100_000), st.booleans()), max_size=20))
def test_however_often_it_is_counted_the_sum_is_the_same(steps: list[tuple[int, int, bool]]) -> None:
    meter, found, wanted, at, before = ReservedMeter(), 0, 0, BEGIN, 0
    for gpus, later, fetch in steps:
        at, wanted = at + later, wanted + before * later
        meter.see([room(gpus)] if gpus else [], at)
        before = gpus
        found += sum(counted(meter).values()) if fetch else 0
    # Nothing is known before the first decision.
    assert found + sum(counted(meter).values()) == wanted
