"""Spans as they are decided: ids, sampling, bounds, and the order of stations."""

import math

from hypothesis import given
from hypothesis import strategies as st

from bulkhead.tracing import podway
from bulkhead.tracing.spans import (
    MAX_ATTRIBUTES,
    MAX_TEXT_CHARACTERS,
    bounded,
    in_order,
    is_sampled,
    seconds_of,
    span_of,
    trace_of,
)

NAMES = podway.PodNames("red", "team", "train-0", "uid-1", node="gpu-1")


def test_ids_follow_from_what_a_trace_is_about() -> None:
    assert trace_of("pod", "red", "1") == trace_of("pod", "red", "1")
    assert len({trace_of("pod", "red", "1"), trace_of("pod", "re", "d1"), trace_of("pod", "blue", "1")}) == 3
    trace = trace_of("pod", "red", "1")
    assert (len(trace), len(span_of(trace, "pod"))) == (16, 8)
    assert span_of(trace, "pod") != span_of(trace, "pod.seen")


def test_one_trace_in_so_many_is_sent() -> None:
    traces = [trace_of("pod", "red", str(number)) for number in range(20_000)]
    assert all(is_sampled(trace, 1) for trace in traces)
    assert 120 < sum(is_sampled(trace, 100) for trace in traces) < 280
    # What is sampled at a small share is sampled at every larger one: programs may be told of a change one after the other.
    assert all(is_sampled(trace, 10) for trace in traces if is_sampled(trace, 100))


def test_attributes_are_bounded_and_hold_no_control_characters() -> None:
    given_ = bounded({f"key-{number}": "\x1b[31m" + "x" * 10_000 for number in range(100)})
    assert len(given_) == MAX_ATTRIBUTES
    assert {len(str(value)) for value in given_.values()} == {MAX_TEXT_CHARACTERS}
    assert "\x1b" not in str(given_["key-0"])


MOMENT = st.none() | st.floats(allow_nan=False, allow_infinity=True)


@given(st.lists(MOMENT, max_size=8), st.floats(0, 2e9), st.floats(0, 2e9))
def test_no_part_ends_before_it_begins_or_begins_before_the_one_ahead_has_ended(
    moments: list[float | None], start: float, length: float
) -> None:
    now = start + length
    parts = list(in_order({str(number): at for number, at in enumerate(moments)}, start, now))
    assert len(parts) == sum(at is not None for at in moments)
    edge = start
    for _, begin, end in parts:
        assert begin == edge
        assert begin <= end <= now
        edge = end


def test_a_time_that_is_not_one_is_none() -> None:
    assert seconds_of("2026-01-01T00:00:00Z") == 1767225600.0
    for wrong in ("", "yesterday", "2026-01-01T00:00:00", 5, None, {}, "9999-99-99T00:00:00Z", "0000-01-01T00:00:00Z"):
        assert seconds_of(wrong) is None, wrong


TIMES = podway.PodTimes(
    created=100.0,
    mirrored=101.0,
    admitted=103.5,
    scheduled=104.0,
    prepared=106.0,
    started=108.0,
    seen=100.4,
    created_on_host=101.2,
    bound=104.3,
)
ORDER = ["pod.seen", "pod.mirrored", "pod.scheduled", "pod.bound", "pod.prepared", "pod.started", "pod.reported"]


def test_a_pods_way_has_its_stations_in_order_and_the_ledgers_part_fits_in_between() -> None:
    whole, *parts = podway.arrived(NAMES, TIMES, "Running", 109.0)
    assert (whole.name, whole.start, whole.end, whole.parent, whole.failure) == ("pod", 100.0, 109.0, b"", "")
    assert [part.name for part in parts] == ORDER
    assert {part.parent for part in parts} == {whole.span}
    waits = podway.admitted(NAMES, 101.0, 103.5)
    assert (waits.trace, waits.parent) == (whole.trace, whole.span)
    by_name = {part.name: part for part in parts}
    # The scheduler's part begins where the ledger's ended, and not where the syncer's did.
    assert by_name["pod.mirrored"].end < waits.end == by_name["pod.scheduled"].start


def test_after_a_restart_the_servers_seconds_count() -> None:
    times = podway.PodTimes(created=100.0, mirrored=101.0, scheduled=104.0, started=108.0)
    whole, *parts = podway.arrived(NAMES, times, "Running", 109.0)
    assert [(part.name, part.start, part.end) for part in parts] == [
        ("pod.mirrored", 100.0, 101.0),
        ("pod.scheduled", 101.0, 104.0),
        ("pod.started", 104.0, 108.0),
        ("pod.reported", 108.0, 109.0),
    ]
    assert whole.start == 100.0


def test_a_plane_that_lies_about_its_pods_creation_is_not_believed() -> None:
    for wrong in (-1e18, 0.0, 5000.0, math.inf, None):
        times = podway.PodTimes(created=wrong, mirrored=1e9, started=1e9 + 1)
        assert podway.arrived(NAMES, times, "Running", 1e9 + 2)[0].start == 1e9, wrong


def test_a_pod_that_failed_is_a_trace_that_failed() -> None:
    assert podway.arrived(NAMES, TIMES, "Failed", 109.0)[0].failure == "Failed"
    assert podway.arrived(NAMES, TIMES, "Succeeded", 109.0)[0].failure == ""
