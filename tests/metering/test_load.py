"""How much of the held time devices were at work: counted once, never beyond what was measured, nothing without a source."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from bulkhead.metering.held import Held
from bulkhead.metering.load import Load, LoadMeter
from bulkhead.metering.meter import HOUR, Meter, Tally, UsageKey
from bulkhead.metering.usagebook import Page, read, write

EPOCH = 491_000 * HOUR
ACCOUNT = UsageKey("red", "ml", "Job/train", "nvidia.com/gpu", "h100")
MINUTE = 60_000


def total(tallies: list[Tally]) -> tuple[int, int]:
    return sum(tally.measured for tally in tallies), sum(tally.busy for tally in tallies)


def test_a_load_counts_until_the_next_one_by_the_hour() -> None:
    meter = LoadMeter()
    meter.see({"a": Load(4, 1.0)}, EPOCH - MINUTE)
    meter.see({"a": Load(4, 4.0)}, EPOCH + MINUTE)
    assert [(tally.hour, tally.measured, tally.busy) for tally in meter.count(lambda _: ACCOUNT)] == [
        (EPOCH // HOUR - 1, 4 * MINUTE, MINUTE),
        (EPOCH // HOUR, 4 * MINUTE, MINUTE),
    ]
    assert not list(meter.count(lambda _: ACCOUNT))


def test_what_was_not_measured_counts_as_neither() -> None:
    meter = LoadMeter()
    meter.see({"a": Load(1, 1.0)}, EPOCH)
    # The source was away for longer than a load counts.
    meter.see({"a": Load(1, 1.0)}, EPOCH + 10 * MINUTE)
    assert not list(meter.count(lambda _: ACCOUNT))
    meter.see({}, EPOCH + 11 * MINUTE)
    meter.see({}, EPOCH + 12 * MINUTE)
    assert total(list(meter.count(lambda _: ACCOUNT))) == (MINUTE, MINUTE)


def test_of_a_pod_without_an_account_nothing_counts() -> None:
    meter = LoadMeter()
    meter.see({"a": Load(1, 1.0)}, EPOCH)
    meter.see({}, EPOCH + MINUTE)
    assert not list(meter.count(lambda _: None))


def held(uid: str, devices: dict[str, int]) -> Held:
    return Held(
        uid, "red", "ml", "train-0", "Job/train", devices, "h100", (), {}, since=EPOCH, running=EPOCH, over=False, ended=None
    )


def test_a_pods_account_is_that_of_its_one_resource() -> None:
    meter = Meter(EPOCH)
    meter.see(held("a", {"nvidia.com/gpu": 2}))
    meter.see(held("b", {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 1}))
    assert meter.account_of("a") == ACCOUNT
    assert meter.account_of("b") is None
    assert meter.account_of("unknown") is None


@given(st.integers(), st.floats(allow_nan=True, allow_infinity=True))
def test_a_load_is_within_its_bounds_whatever_the_source_says(devices: int, busy: float) -> None:
    load = Load.of(devices, busy)
    assert 0 <= load.devices <= 64
    assert 0 <= load.busy <= load.devices


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 8), st.floats(0, 8)), max_size=30))
def test_no_more_is_busy_than_was_measured_and_no_second_counts_twice(steps: list[tuple[int, int, float]]) -> None:
    meter, at, truth = LoadMeter(), EPOCH, 0
    found: list[Tally] = []
    before = 0
    for seconds, devices, busy in steps:
        if seconds <= 120:
            truth += before * seconds * 1000
        at += seconds * 1000
        meter.see({"a": Load.of(devices, busy)}, at)
        before = devices
        found += meter.count(lambda _: ACCOUNT)
    # The first call has no beginning, so the time before it counts nothing.
    measured, busy_sum = total(found)
    assert measured <= truth
    assert busy_sum <= measured


def test_the_load_is_stored_beside_the_rows_and_read_again() -> None:
    page = Page(3, EPOCH + HOUR, "w")
    page.add(Tally(EPOCH // HOUR, ACCOUNT, used=10, idle=0, borrowed=0, measured=8, busy=3))
    again = read(write(page))
    assert Counter(again.rows()) == Counter(page.rows())
    (row,) = again.rows()
    assert (row[2].used, row[2].measured, row[2].busy) == (10, 8, 3)
