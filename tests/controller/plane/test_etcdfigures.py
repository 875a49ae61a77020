"""Fsyncs and leaders in the metrics of an etcd member."""

import math

from hypothesis import given
from hypothesis import strategies as st

from controller.plane.etcdfigures import WINDOW_SECONDS, Figures, kept, read, slow_of, slowest_of_most

BOUNDS = (0.001, 0.128, 0.256, 0.512, math.inf)


def metrics(counts: dict[float, int], changes: int = 1) -> bytes:
    lines = ["# HELP etcd_disk_wal_fsync_duration_seconds The latency", "etcd_other 7"]
    for bound, count in counts.items():
        text = "+Inf" if bound == math.inf else f"{bound:g}"
        lines.append(f'etcd_disk_wal_fsync_duration_seconds_bucket{{le="{text}"}} {count}')
    lines += ["etcd_disk_wal_fsync_duration_seconds_sum 0.6", f"etcd_server_leader_changes_seen_total {changes}"]
    return "\n".join(lines).encode()


def figures(at: float, *counts: int) -> Figures:
    return read(metrics(dict(zip(BOUNDS, counts, strict=True))), at)


def test_the_metrics_are_read_line_by_line() -> None:
    found = read(metrics({0.001: 5, math.inf: 9}, changes=3), 4.0)
    assert (found.fsyncs, found.total, found.leader_changes, found.at) == (((0.001, 5), (math.inf, 9)), 9, 3, 4.0)


@given(st.binary(max_size=300))
def test_no_text_breaks_the_reader(text: bytes) -> None:
    for prefix in (b"", b"etcd_disk_wal_fsync_duration_seconds_bucket", b"etcd_server_leader_changes_seen_total "):
        read(prefix + text, 0.0)


def test_a_bound_that_is_no_number_is_left_out() -> None:
    for bound in ("1.2.3", ".", "1.", "-1", "1e5", "9" * 400):
        assert read(f'etcd_disk_wal_fsync_duration_seconds_bucket{{le="{bound}"}} 5\n'.encode(), 0.0).fsyncs == (), bound


def test_the_figure_is_that_of_the_fsyncs_in_between() -> None:
    before = figures(0.0, 1000, 1000, 1000, 1000, 1000)
    assert slowest_of_most([before]) is None
    assert slowest_of_most([before, figures(60.0, 1050, 1050, 1050, 1050, 1050)]) is None, "too few"
    fast = slowest_of_most([before, figures(60.0, 1200, 1200, 1200, 1200, 1200)])
    assert fast is not None
    assert fast <= 0.001
    slow = slowest_of_most([before, figures(60.0, 1100, 1100, 1200, 1200, 1200)])
    assert slow is not None
    assert 0.128 < slow <= 0.256
    assert slowest_of_most([before, figures(60.0, 1000, 1000, 1000, 1000, 1200)]) == 0.512, "as slow as is certain"


def test_a_disk_is_slow_from_200_ms_on_and_until_it_is_clearly_faster() -> None:
    assert slow_of("plane-0", 0.199, was=False) is None
    found = slow_of("plane-0", 0.2, was=False)
    assert found is not None
    assert found.seconds == 0.2
    assert slow_of("plane-0", 0.16, was=True) is not None
    assert slow_of("plane-0", 0.149, was=True) is None


def test_looks_are_kept_for_minutes_and_none_from_before_a_restart() -> None:
    first, second = figures(0.0, 10, 10, 10, 10, 10), figures(60.0, 20, 20, 20, 20, 20)
    assert kept([first], second) == (first, second)
    assert kept([first, second], figures(WINDOW_SECONDS + 1, 30, 30, 30, 30, 30))[0] is second
    restarted = figures(70.0, 1, 1, 1, 1, 1)
    assert kept([first, second], restarted) == (restarted,)
