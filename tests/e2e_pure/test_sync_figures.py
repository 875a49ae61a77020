"""From samples to figures: speed, latency, what is added, phases, and what is read from a metrics page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.podphase import is_ready
from e2e.performance import judgement, pods
from e2e.performance import sync_figures as figures
from e2e.performance.sync import LIMITS
from e2e.performance.sync_figures import Mirrored, Sample


def sample(sent: float, ready: float) -> Sample:
    return Sample("pod", sent, sent, ready)


def test_speed_counts_from_the_first_request_to_the_last_ready() -> None:
    found = figures.speed([sample(10.0, 10.5), sample(10.1, 11.0), sample(10.2, 12.0), sample(10.3, 12.0)])
    assert found == {"pods_per_s": 2.0, "p50_ms": 900.0, "p99_ms": 1800.0}


def test_without_samples_there_is_no_speed() -> None:
    with pytest.raises(ValueError, match="no samples"):
        figures.speed([])


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.001, 50)), min_size=1, max_size=50))
def test_the_median_is_never_beyond_the_99th_percentile(values: list[tuple[float, float]]) -> None:
    found = figures.speed([sample(sent, sent + took) for sent, took in values])
    assert 0 <= found["p50_ms"] <= found["p99_ms"]
    assert found["pods_per_s"] >= 0


def test_what_a_tenant_adds_is_the_difference_at_the_same_percentile() -> None:
    native = [sample(0, 0.020), sample(0, 0.030)]
    tenant = [sample(0, 0.055), sample(0, 0.100)]
    assert figures.added(native, tenant) == {"p50_ms": 35.0, "p99_ms": 70.0}


def test_how_many_times_as_long_a_tenant_waits_is_the_ratio_at_the_same_percentile() -> None:
    native = [sample(0, 0.020), sample(0, 0.050)]
    tenant = [sample(0, 0.060), sample(0, 0.400)]
    assert figures.times(native, tenant) == {"p50": 3.0, "p99": 8.0}
    assert figures.times([sample(0, 0.0)], tenant)["p50"] > 0


def test_phases_join_what_the_syncer_counts_and_what_is_seen_from_outside() -> None:
    outside = [Mirrored(1.0, 1.1, 1.15), Mirrored(1.0, 1.3, 1.35)]
    found = figures.phases({"queue": 0.002, "translate": 0.0004}, outside)
    assert found == {"queue_ms": 2.0, "translate_ms": 0.4, "host_ready_ms": 200.0, "status_up_ms": 50.0}


def test_phases_without_a_host_pod_are_an_error() -> None:
    with pytest.raises(ValueError, match="no pod"):
        figures.phases({}, [])


PAGE = """# HELP x about
# TYPE x histogram
x_sum{phase="queue"} 3.0
x_count{phase="queue"} 4.0
depth 0.0
"""


def test_the_mean_between_two_pages_is_of_what_came_in_between() -> None:
    before = figures.counters(PAGE)
    after = before | {'x_sum{phase="queue"}': 5.0, 'x_count{phase="queue"}': 8.0}
    assert before["depth"] == 0.0
    assert figures.mean_between(before, after, "x", 'phase="queue"') == 0.5
    assert figures.mean_between(before, before, "x", 'phase="queue"') == 0.0


def test_the_reviewed_limits_can_be_read() -> None:
    limits = judgement.load(LIMITS)
    assert limits["tenants.1.ratio"].at_least
    assert not limits["tenants.1.syncer_cpu_ms_per_pod"].at_least


def test_a_pod_is_ready_by_its_condition_alone() -> None:
    assert is_ready({"status": pods.RUNNING})
