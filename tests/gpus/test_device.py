"""What the check on a real GPU concludes from what it has seen."""

import pytest

from bulkhead.gpus import attribution, fields
from tests.gpus.device import after, xid
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
