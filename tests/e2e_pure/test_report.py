"""Percentiles, the history file, and the report of a chaos run."""

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from e2e.chaos import invariants, report
from e2e.chaos.history import (
    Evidence,
    Finding,
    History,
    LeaderSeen,
    LeftOut,
    PartSeen,
    Probe,
    Record,
    Scanned,
    Span,
    from_line,
    from_lines,
    to_line,
)
from e2e.chaos.invariants import AIM
from e2e.chaos.judgement import Judgement, judge
from e2e.chaos.measures import gaps, restarts
from e2e.chaos.page.document import html
from e2e.chaos.percentiles import chance_of, percentile
from e2e.chaos.runner import LIMITS
from tests.e2e_pure.chaosruns import good_run

VALUES = st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=200)


@pytest.mark.parametrize(
    ("slow", "of", "chance"), [(0, 100, 1.0), (3, 100, 0.0794), (4, 100, 0.0184), (16, 1000, 0.0479), (300, 20_000, 0.0)]
)
def test_the_chance_of_slow_requests_is_the_tail_of_the_binomial(slow: int, of: int, chance: float) -> None:
    """Those of a hundred and a thousand by tables of the binomial distribution."""
    assert chance_of(slow, of, 0.01) == pytest.approx(chance, abs=1e-4)


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
    Probe(12.0, "b", "write", 0.500, "timeout"),
    LeaderSeen(2.0, "x"),
    Evidence("kill", 11.0, True, "process 7 is gone"),
    Span("kill", "a", 10.0, 20.0),
]


def test_records_survive_the_file() -> None:
    assert [from_line(to_line(record)) for record in RECORDS] == RECORDS
    whole = good_run()
    assert [from_line(to_line(record)) for record in whole] == whole


def test_a_line_cut_short_is_left_out() -> None:
    lines = [to_line(record) + "\n" for record in RECORDS]
    assert from_lines([*lines, lines[0][:20]]) == RECORDS


def judged(**finding: object) -> Judgement:
    """The good run; `finding` changes what the runner found of its second experiment."""
    records = good_run()
    return judge(
        replace(item, **finding) if isinstance(item, Finding) and item.experiment == "frozen" else item for item in records
    )  # type: ignore[type-var]


def test_the_report_says_what_happened() -> None:
    good = judged()
    text = report.as_text(good)
    assert good.passed
    assert "etcd of a killed" in text
    assert "killed: proof: process 4711 killed and gone" in text
    assert "others: 0 of 750 requests and 0 of 20 pods, watches and jobs failed" in text
    told = json.loads(json.dumps(report.as_json(good)))
    assert told["passed"]
    assert told["others"] == {"requests": 750, "errors": 0, "work": 20, "failed_work": 0}
    assert told["invariants"]["I10"] == {"title": "no secret leaves its tenant", "violations": []}
    frozen = told["experiments"][1]
    assert frozen["hypothesis"] == "the target recovers and the others notice nothing"
    assert (frozen["broken"]["errors"], frozen["broken"]["reads_away_s"]) == (100, 20.0)
    assert set(frozen["neighbours"]) == {"b", "c", "host"}
    assert frozen["neighbours"]["b"]["baseline_p99_ms"] > 0


def test_what_the_target_could_not_do_is_measured_until_it_answers_again() -> None:
    at = [Probe(float(second), "a", "read", 0.1, "down" if second in {2, 3, 7} else "") for second in range(10)]
    assert gaps(at, 10.0) == [(2.0, 4.0), (7.0, 8.0)]
    assert gaps(at[:4], 10.0) == [(2.0, 10.0)]


def test_restarts_and_replacements_are_counted_for_their_owner() -> None:
    parts = [PartSeen(1, "b", "x", "u", 0), PartSeen(12, "b", "x", "u", 1), PartSeen(13, "b", "x", "u", 1)]
    history = History.of([*RECORDS, *parts, PartSeen(15, "b", "x", "v", 0), PartSeen(25, "b", "x", "v", 3)], ["a", "b"])
    assert restarts(history, history.spans[0], "b") == 2
    assert restarts(history, history.spans[0], "a") == 0


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


def test_a_run_without_an_experiment_does_not_pass() -> None:
    nothing = judge(item for item in good_run() if not isinstance(item, Finding | Span))
    assert not nothing.passed
    assert report.as_json(nothing)["passed"] is False


@pytest.mark.parametrize(
    "change",
    [{"recovered_s": None}, {"pods_went_on": False}, {"note": "cause: detail"}],
    ids=["not recovered", "pods stopped", "broke off"],
)
def test_a_bad_experiment_fails_the_report(change: dict[str, object]) -> None:
    bad = judged(**change)
    assert not report.as_json(bad)["passed"]
    assert "FAILED" in report.as_text(bad)
    suite = ET.fromstring(report.as_junit(bad))  # noqa: S314 -- written here
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["frozen"]


def test_a_violation_outside_every_experiment_fails_the_report_too() -> None:
    records = [
        replace(item, findings=("Pod x: hostPID is true",)) if isinstance(item, Scanned) else item for item in good_run()
    ]
    bad = judge(records)
    assert not bad.passed
    assert "hostPID is true" in report.as_text(bad)
    suite = ET.fromstring(report.as_junit(bad))  # noqa: S314 -- written here
    assert (suite.get("tests"), suite.get("failures")) == ("13", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "hostPID is true" in str(failure.text)


def test_what_could_not_be_made_is_left_out_with_its_reason() -> None:
    run = [item for item in good_run() if getattr(item, "experiment", "") != "frozen"]
    left_out = judge([*run, LeftOut(240, "frozen", "the kernel has no device mapper")])
    assert left_out.passed
    assert "frozen: left out: the kernel has no device mapper" in report.as_text(left_out)
    assert "skipped" in report.as_junit(left_out)
    assert "the kernel has no device mapper" in html(left_out)
