"""Percentiles, the history file, and the report of a chaos run."""

import json
from typing import cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from e2e.api import Api
from e2e.chaos import invariants, report
from e2e.chaos.history import Evidence, History, LeaderSeen, Probe, Record, Span, from_line, from_lines, to_line
from e2e.chaos.invariants import AIM, Violation, baseline_p99
from e2e.chaos.load import Load, Turn
from e2e.chaos.percentiles import percentile
from e2e.chaos.runner import LIMITS
from e2e.tenants import Tenant

VALUES = st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=200)


@given(VALUES, st.floats(min_value=0.5, max_value=100))
def test_a_percentile_is_a_measured_value_with_enough_below_it(values: list[float], percent: float) -> None:
    result = percentile(values, percent)
    assert result in values
    assert sum(value <= result for value in values) >= len(values) * percent / 100 - 1e-6


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([1.0], 50, 1.0),
        ([1, 2, 3, 4], 50, 2),
        ([1, 2, 3, 4], 100, 4),
        (list(range(1, 101)), 99, 99),
        (list(range(1, 11)), 95, 10),
    ],
)
def test_percentiles_by_nearest_rank(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == expected


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], 0), ([1.0], 101)])
def test_a_percentile_of_nothing_is_an_error(values: list[float], percent: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile(values, percent)


RECORDS: list[Record] = [
    Probe(1.0, "b", "read", 0.010),
    Probe(11.0, "b", "read", 0.020),
    Probe(12.0, "b", "write", 0.500, "timeout"),
    LeaderSeen(2.0, "x"),
    Evidence("kill", 11.0, True, "process 7 is gone"),
    Span("kill", "a", 10.0, 20.0),
]


def test_records_survive_the_file() -> None:
    assert [from_line(to_line(record)) for record in RECORDS] == RECORDS


def test_a_line_cut_short_is_left_out() -> None:
    lines = [to_line(record) + "\n" for record in RECORDS]
    assert from_lines([*lines, lines[0][:20]]) == RECORDS


def finding(**change: object) -> report.Finding:
    fields: dict[str, object] = {"experiment": "kill", "title": "API server killed", "recovered_s": 3.0, "pods_went_on": True}
    return report.Finding(**(fields | change))  # type: ignore[arg-type]


def test_the_report_says_what_happened() -> None:
    history = History.of(RECORDS, ["a", "b"])
    baseline = baseline_p99(history, 0.0, 10.0)
    table = report.rows(history, baseline, [finding()], [])
    text = report.as_text(table, [])
    assert table[0].passed
    assert table[0].neighbours == {"b": {"requests": 2.0, "errors": 1.0, "p50_ms": 20.0, "p99_ms": 500.0, "aim_ms": 62.5}}
    assert "slower than the aim: b" in text
    assert "API server killed" in text
    assert "process 7 is gone" in text
    assert json.loads(json.dumps(report.as_json(table, [], baseline, 0.5)))["passed"]


def test_the_limit_is_read_from_its_file() -> None:
    limit = report.latency_limit({"neighbour_p99": {"limit": {"factor": 2, "allowance_ms": 100}}})
    assert limit.over(0.010) == pytest.approx(0.120)


def test_900_ms_over_a_baseline_of_20_fails_everywhere_and_what_was_seen_passes_on_a_busy_machine() -> None:
    document = yaml.safe_load(LIMITS.read_text())
    limit, seen = report.latency_limit(document), document["neighbour_p99"]["recorded"]
    most = limit.over(seen["baseline_ms"] / 1000)
    assert seen["worst_ms"] / 1000 < most <= 3 * seen["worst_ms"] / 1000
    assert most < 0.920
    assert AIM.over(0.020) == pytest.approx(0.075)


@pytest.mark.parametrize(
    ("idle", "text"), [(7.0, "1.25 x its baseline + 50 ms fails the run: 7.0 cores"), (0.4, "an oversubscribed machine")]
)
def test_the_report_says_by_which_bound_it_judges(idle: float, text: str) -> None:
    limit = invariants.LatencyBound(3, 0.150)
    assert text in report.bound_text(idle, invariants.bound_of(idle, limit))
    assert report.as_json([], [], {}, idle)["judged_by_the_designs_bound"] is (idle == 7.0)


def test_a_run_without_an_experiment_does_not_pass() -> None:
    assert report.as_json([], [], {}, 0.5)["passed"] is False


def test_a_load_without_pods_is_not_observed() -> None:
    load = Load(Tenant("b", cast("Api", None)))
    assert load.errors(10, 30) == ["b: no pod came or went: not observed"]
    load.turns += [Turn(2, 9), Turn(31, 32)]
    assert load.errors(10, 30) == ["b: no pod came or went: not observed"]
    load.turns.append(Turn(5, 12, "b/turn: before the window"))
    assert load.errors(10, 30) == []
    load.turns.append(Turn(29, 50, "b/turn: did not run"))
    assert load.errors(10, 30) == ["b/turn: did not run"]


@pytest.mark.parametrize(
    ("change", "violations"),
    [
        ({"recovered_s": None}, []),
        ({"pods_went_on": False}, []),
        ({"note": "cause: detail"}, []),
        ({}, [Violation("I4", "kill", "tenant b: slow")]),
    ],
    ids=["not recovered", "pods stopped", "broke off", "violation"],
)
def test_a_bad_experiment_fails_the_report(change: dict[str, object], violations: list[Violation]) -> None:
    history = History.of(RECORDS, ["a", "b"])
    table = report.rows(history, {"b": 0.010}, [finding(**change)], violations)
    assert not report.as_json(table, violations, {}, 0.5)["passed"]
    assert "FAILED" in report.as_text(table, violations)


def test_a_violation_outside_every_experiment_fails_the_report_too() -> None:
    history = History.of(RECORDS, ["a", "b"])
    violations = [Violation("I8", "baseline", "host pod x was deleted")]
    table = report.rows(history, {"b": 0.010}, [finding()], violations)
    assert not report.as_json(table, violations, {}, 0.5)["passed"]
    assert "host pod x was deleted" in report.as_text(table, violations)
