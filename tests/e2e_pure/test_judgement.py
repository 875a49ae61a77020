"""Measured values are compared with the reviewed limits; what was not measured fails, and every limit can fail."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from e2e.performance import durable, frontdoor, judgement, ledger, report, slurm, sync
from e2e.performance.judgement import Limit, Recorded

READY = Limit("ready.p50", 5.0, 10.0, recorded=Recorded(4.0, 2))
MEMORY = Limit("memory", 260.0, 330.0, recorded=Recorded(200.0, 1))
RATIO = Limit("ratio", 0.45, 0.25, at_least=True, control="plain")
UNKNOWN = Limit("unknown", 1.0, 2.0)
LIMITS = {each.name: each for each in (READY, MEMORY)}
FILES = {
    "provision": judgement.LIMITS,
    "ledger": ledger.LIMITS,
    "sync": sync.LIMITS,
    "frontdoor": frontdoor.LIMITS,
    "slurm": slurm.LIMITS,
    "durable": durable.LIMITS,
}
# No figure was recorded for these. Each is reported, and judges nothing until a run is recorded in its file of limits.
NOT_RECORDED = {
    "provision": {"controller_rss_mib"},
    "slurm": {"ready_s", "idle_rss_mib", "reclaim_s"},
}


@pytest.mark.parametrize("file", sorted(judgement.LIMITS.parent.glob("limits*.yaml")), ids=lambda file: file.stem)
def test_every_file_of_limits_is_one_that_its_benchmark_takes(file: Path) -> None:
    assert judgement.load(file)


@pytest.mark.parametrize(
    ("limit", "value", "word", "fails"),
    [
        (READY, 5.0, "ok", False),
        (READY, 5.1, "over the aim", False),
        (READY, 10.0, "over the aim", False),
        (READY, 10.1, "OVER THE LIMIT", True),
        (READY, float("nan"), "OVER THE LIMIT", True),
        (RATIO, 0.5, "ok", False),
        (RATIO, 0.4, "under the aim", False),
        (RATIO, 0.1, "UNDER THE LIMIT", True),
        (UNKNOWN, 99.0, "no recorded figure: not judged", False),
        (UNKNOWN, None, "NOT MEASURED", True),
    ],
)
def test_a_value_is_judged_by_aim_and_limit(limit: Limit, value: float | None, word: str, fails: bool) -> None:
    verdict = judgement.Verdict(limit, value)
    assert (verdict.word, verdict.fails) == (word, fails)
    assert word in judgement.as_text([verdict])


def test_a_run_passes_with_every_limit_kept() -> None:
    verdicts = judgement.judge({"ready": {"p50": 1}, "memory": 1}, LIMITS)
    assert judgement.passes(verdicts)
    assert judgement.complaints(verdicts) == []


def test_what_was_not_measured_fails_and_is_named() -> None:
    verdicts = judgement.judge({"ready": {"p50": 11}}, LIMITS)
    assert not judgement.passes(verdicts)
    assert judgement.complaints(verdicts) == ["not measured: memory", "beyond the limit: ready.p50 11 (10)"]


def test_only_what_a_run_was_told_to_leave_out_may_be_missing() -> None:
    verdicts = judgement.judge({"ready": {"p50": 1}}, LIMITS, left_out=("memory",))
    assert judgement.passes(verdicts)
    assert [item.word for item in verdicts] == ["ok", "left out"]
    assert judgement.complaints(judgement.judge({"memory": 1}, LIMITS, left_out=("read",))) == ["not measured: ready.p50"]
    assert judgement.passes(judgement.judge({"memory": 1}, LIMITS, left_out=("ready",)))
    assert not judgement.passes(judgement.judge({"ready": {"p50": 1}, "memory": 331}, LIMITS, left_out=("memory",)))


@pytest.mark.parametrize(
    ("measured", "limits", "left_out"),
    [({}, {}, ()), ({}, LIMITS, ("ready", "memory")), ({"unknown": 1}, {"unknown": UNKNOWN}, ())],
    ids=["no limits", "all left out", "nothing recorded"],
)
def test_a_run_that_is_judged_by_nothing_does_not_pass(
    measured: dict[str, Any], limits: dict[str, Limit], left_out: tuple[str, ...]
) -> None:
    verdicts = judgement.judge(measured, limits, left_out)
    assert not judgement.passes(verdicts)
    assert judgement.complaints(verdicts) == ["no limit was judged"]


@pytest.mark.parametrize("name", FILES)
def test_no_benchmark_passes_on_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    limits = judgement.load(FILES[name])
    assert report.conclude(name, {}, limits) == 1
    said = capsys.readouterr().out
    assert f"FAILED: not measured: {', '.join(limits)} (" in said
    result = json.loads((tmp_path / "results" / f"{name}.json").read_text())
    assert result["within_limits"] is False
    assert set(result["limits"]) == set(limits)


def test_a_benchmark_that_keeps_its_limits_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert report.conclude("some", {"ready": {"p50": 1}}, LIMITS, left_out=("memory",)) == 0
    result = json.loads((tmp_path / "some.json").read_text())
    assert (result["within_limits"], result["left_out"], result["not_judged"]) == (True, ["memory"], [])


def test_what_a_run_is_told_to_leave_out_follows_from_its_options() -> None:
    plan = sync.Plan(tenants=(1, 10), pods=1, rounds=1, volume=0, open_loop_seconds=1, idle_seconds=1)
    assert sync.left_out(plan, judgement.load(sync.LIMITS)) == ("tenants.5", "volume")
    whole = argparse.Namespace(watches=1, no_host=False, no_install=False)
    assert frontdoor.left_out(whole) == ()
    part = argparse.Namespace(watches=0, no_host=True, no_install=False)
    assert frontdoor.left_out(part) == ("watches", "login", "address")


@pytest.mark.parametrize("name", FILES)
def test_each_limit_can_fail_or_says_that_nothing_is_recorded(name: str) -> None:
    limits = judgement.load(FILES[name])
    assert {each.name for each in limits.values() if not each.is_judged} == NOT_RECORDED.get(name, set())
    assert all(each.recorded.runs >= 1 for each in limits.values() if each.recorded)
    assert any(each.is_judged for each in limits.values())


def test_the_reviewed_file_holds_every_key_of_the_benchmark() -> None:
    assert set(judgement.load()) == {
        "single_ready_s.p50",
        "single_ready_s.p95",
        "ten_at_once_all_ready_s",
        "removal_requests",
        "plane_pss_mib",
        "plane_idle_cpu_percent",
        "syncer_rss_mib",
        "controller_rss_mib",
    }


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("{aim: 5, recorded: none}", "needs an aim"),
        ("{aim: 5, limit: 4, recorded: none}", "needs an aim"),
        ("{aim: 1, limit: 2, slack: 3, recorded: none}", "needs an aim"),
        ("{aim: 1, limit: 2}", "needs `recorded"),
        ("{aim: 1, limit: 2, recorded: {worst: 1}}", "needs `recorded"),
        ("{aim: 1, limit: 3.1, recorded: {worst: 1, runs: 2}}", "more than 3 times"),
        ("{aim: 9, limit: 2.9, at_least: true, recorded: {worst: 9, runs: 2}}", "more than 3 times"),
        ("{aim: 1, limit: 60, control: plain, recorded: {worst: 1, runs: 2}}", "more than 3 times"),
    ],
)
def test_a_broken_limits_file_is_refused(tmp_path: Path, entry: str, complaint: str) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text(f"measured_by: this\nlimits:\n  x: {entry}\n")
    with pytest.raises(ValueError, match=complaint):
        judgement.load(path)


def test_a_limit_may_lie_at_three_times_the_worst_recorded(tmp_path: Path) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text("measured_by: this\nlimits:\n  x: {aim: 1, limit: 3, recorded: {worst: 1, runs: 2}}\n")
    assert judgement.load(path)["x"] == Limit("x", 1, 3, recorded=Recorded(1, 2))
    path.write_text("x: {aim: 1, limit: 3}\n")
    with pytest.raises(ValueError, match="needs measured_by"):
        judgement.load(path)
