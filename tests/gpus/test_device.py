"""What the check on a real GPU concludes from what it has seen."""

from typing import Any

import pytest

from bulkhead.gpus import attribution, fields
from tests.gpus.device import after, neighbour, worker, xid
from tests.gpus.device.after import Moment

IDLE = {fields.UTILISATION: 0.0, fields.COPY_UTILISATION: 0.0, fields.MEMORY_USED: 4.0, fields.MEMORY_FREE: 80_000.0}
LOADED = {fields.UTILISATION: 100.0, fields.COPY_UTILISATION: 90.0, fields.MEMORY_USED: 79_000.0, fields.MEMORY_FREE: 1_004.0}


def moments(lag: float, until: float = 40.0) -> list[Moment]:
    """Loaded until `lag` seconds after the process has gone."""
    return [Moment(at / 10, LOADED if at / 10 < lag else IDLE) for at in range(-50, int(until * 10))]


def test_it_judges_by_the_default_time_to_settle() -> None:
    assert after.SETTLE_SECONDS == attribution.SETTLE_SECONDS


def test_a_field_is_back_once_it_stays_back() -> None:
    seen = moments(2.0)
    assert after.back_after(seen, fields.UTILISATION, 0.0) == 2.0
    again = [*seen, Moment(40.0, LOADED), Moment(40.1, IDLE)]
    assert after.back_after(again, fields.UTILISATION, 0.0) == 40.1
    assert after.back_after([*seen, Moment(40.0, LOADED)], fields.UTILISATION, 0.0) is None
    assert after.back_after(moments(0.0), fields.UTILISATION, 0.0) == 0.0


@pytest.mark.parametrize(
    ("lag", "expected"),
    [
        (1.5, True),
        (29.0, True),
        (31.0, False),  # with what the exporter may be late, that is longer than the time to settle
        (60.0, False),
    ],
)
def test_what_decides_must_be_back_before_the_first_sample_counts(lag: float, expected: bool) -> None:
    quick, slow = after.told_of(moments(0.2), IDLE), after.told_of(moments(lag), IDLE)
    assert after.verdict([quick, slow]) is expected


def test_a_load_that_does_not_show_tells_nothing() -> None:
    assert after.verdict([after.told_of(moments(-10.0), IDLE)]) is None


def test_the_watch_ends_once_all_has_been_back_for_a_while() -> None:
    assert not after.quiet(moments(2.0, until=4.0), IDLE)
    assert not after.quiet(moments(2.0, until=6.9), IDLE)
    assert after.quiet(moments(2.0, until=7.2), IDLE)


FAULTED = {"faulted": True}


@pytest.mark.parametrize(
    ("before", "fault", "seen", "works", "expected"),
    [
        (0.0, FAULTED, [31.0], True, True),
        (0.0, FAULTED, [31.0, 43.0], True, True),
        (0.0, FAULTED, [79.0], True, False),  # the GPU is gone from its bus
        (0.0, FAULTED, [], True, False),
        (0.0, FAULTED, [31.0], False, False),
        (31.0, FAULTED, [43.0], True, False),
        (None, FAULTED, [], True, None),
        (0.0, {"faulted": False}, [], True, None),
    ],
)
def test_an_error_counts_if_it_is_the_processs_own_and_the_next_process_works(
    before: float | None, fault: dict[str, bool], seen: list[float | None], works: bool, expected: bool | None
) -> None:
    assert xid.verdict(before, fault, seen, works) is expected


def test_quantiles_are_of_what_was_measured() -> None:
    hundred = [thousand * 1000 for thousand in range(100, 0, -1)]
    assert worker.quantiles(hundred) == {"count": 100, "p50_us": 51.0, "p99_us": 100.0, "max_us": 100.0}
    assert worker.quantiles([7_000]) == {"count": 1, "p50_us": 7.0, "p99_us": 7.0, "max_us": 7.0}
    assert worker.quantiles([]) == {"count": 0}


def block(**given: float) -> dict[str, Any]:
    """What `take` and `catch` say of a block of a hundred words in which nothing was found."""
    return {"words": 100, "pattern_words": 0, "nonzero_words": 0, "control_words": 100} | given


def test_a_block_counts_if_it_was_got_once_the_other_began_to_give_it_back() -> None:
    dropped = {"began": 5.0, "ended": 5.1}
    early, late, never = block(caught=4.9, pattern_words=100), block(caught=5.02, pattern_words=3), {"tries": 9, "caught": None}
    found = neighbour.added_up([(dropped, seen, block(pattern_words=1)) for seen in (early, late, never)])
    assert (found["rounds"], found["caught"], found["pattern_words"]) == (3, 1, 3)
    assert found["way_back"]["pattern_words"] == 1
    assert found["caught_after_ms"] == 20.0
    assert neighbour.added_up([])["caught_after_ms"] is None


def test_what_another_could_not_take_back_is_not_counted() -> None:
    found = neighbour.added_up([({"began": 5.0}, block(caught=5.1), {"error": "cuMemAlloc_v2: error 2"})])
    assert found["caught"] == 1
    assert found["way_back"]["words"] == 0


def residue(
    *, pattern: int = 0, way_back: int = 0, caught: int = 1, own: int = 9, after: int = 0, control: int = 100
) -> dict[str, Any]:
    one = block(caught=caught, pattern_words=pattern, control_words=control) | {"way_back": {"pattern_words": way_back}}
    looks = {"own": {"pattern_words": own}, "after": {"pattern_words": after}, "meanwhile": {"pattern_words": 0}}
    return {"blocks": {"1": one, "2": block(caught=1) | {"way_back": {"pattern_words": 0}}}, "shared": looks}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (residue(), True),
        (residue(pattern=1), False),
        (residue(way_back=1), False),
        (residue(after=1), False),
        (residue(after=1, caught=0), False),  # what was found counts, whatever the controls say
        (residue(caught=0), None),
        (residue(control=99), None),
        (residue(own=0), None),
        ({"error": "GoneError: the process ended with 1"}, None),
        (residue() | {"shared": {}}, None),
    ],
)
def test_residue_of_a_living_neighbour_fails_and_controls_that_find_nothing_tell_nothing(
    found: dict[str, Any], expected: bool | None
) -> None:
    assert neighbour.verdict(found) is expected


def test_the_times_of_a_disturbance_count_from_when_it_began() -> None:
    latency = {"count": 2, "p50_us": 14.0, "slowest": [[100.25, 145.0], [99.5, 0.2]]}
    found = neighbour.disturbed(latency, 100.0)
    assert found["slowest"] == [{"ended_after_seconds": 0.25, "ms": 145.0}, {"ended_after_seconds": -0.5, "ms": 0.2}]
    assert found["works_on"]
    failed = neighbour.disturbed(latency | {"error": "cuCtxSynchronize: error 700", "at": 100.16}, 100.0)
    assert not failed["works_on"]
    assert failed["failed_after_seconds"] == 0.16


@pytest.mark.parametrize(
    ("p50", "share", "expected"), [(15.0, 1.0, True), (30.0, 1.0, False), (15.0, 0.5, False), (None, 1.0, False)]
)
def test_a_process_alone_must_be_as_fast_afterwards_as_before(p50: float | None, share: float, expected: bool) -> None:
    alone = {"latency": {"p50_us": 14.0}, "throughput": {"share": 1.0}}
    assert neighbour.is_steady(alone, {"latency": {"p50_us": p50}, "throughput": {"share": share}}) is expected
