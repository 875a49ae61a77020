"""Measured values are compared with the reviewed limits, and what was not measured fails."""

from pathlib import Path

import pytest

from e2e.performance import judgement

LIMITS = {"ready.p50": {"aim": 5.0, "limit": 10.0}, "memory": {"aim": 260.0, "limit": 330.0}}


@pytest.mark.parametrize(
    ("p50", "word", "within"),
    [(5.0, "ok", True), (5.1, "over the aim", True), (10.0, "over the aim", True), (10.1, "OVER THE LIMIT", False)],
)
def test_a_value_is_judged_by_aim_and_limit(p50: float, word: str, within: bool) -> None:
    verdict = judgement.judge({"ready": {"p50": p50}, "memory": 1}, LIMITS)[0]
    assert (verdict.word, verdict.within_limit) == (word, within)
    assert word in judgement.as_text([verdict])


def test_what_was_not_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="memory: not measured"):
        judgement.judge({"ready": {"p50": 1}}, LIMITS)


def test_the_reviewed_file_holds_every_key_of_the_benchmark() -> None:
    assert set(judgement.load()) == {
        "single_ready_s.p50",
        "single_ready_s.p95",
        "ten_at_once_all_ready_s",
        "plane_pss_mib",
        "plane_idle_cpu_percent",
        "syncer_rss_mib",
        "controller_rss_mib",
    }


@pytest.mark.parametrize("text", ["x: {aim: 5}", "x: {aim: 5, limit: 4}", "x: {aim: 1, limit: 2, slack: 3}"])
def test_a_broken_limits_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match="needs an aim"):
        judgement.load(path)
