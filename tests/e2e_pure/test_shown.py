"""Which chaos experiments count as shown: the last run decides, and nothing counts without a proof."""

from typing import Any

import pytest
import yaml

from e2e.chaos import shown
from e2e.chaos.experiments import EXPERIMENTS

QUIET = {"requests": 10, "errors": 0, "failed_work": 0, "baseline_p99_ms": 21.4, "p99_ms": 30.2}


def run(**changes: Any) -> dict[str, Any]:
    found = {
        "experiment": "etcd-frozen", "passed": True, "evidence": ["it stood still"], "recovered_s": 0.98,
        "neighbours": {"b": QUIET, "host": QUIET | {"errors": 1, "failed_work": 1, "p99_ms": 99.6}},
    }  # fmt: skip
    return {"started": "2026-11-26T14:04:14+00:00", "tenants": ["a", "b"], "experiments": [found | changes]}


def test_a_run_that_passed_is_noted_with_what_the_others_saw() -> None:
    entry = {
        "on": "2026-11-26",
        "tenants": 2,
        "recovered_s": 1.0,
        "requests": 20,
        "failed": 2,
        "baseline_ms": 21,
        "worst_ms": 100,
    }
    assert shown.with_run({}, run()) == {"etcd-frozen": entry}


@pytest.mark.parametrize("changes", [{"passed": False}, {"evidence": []}])
def test_what_failed_or_was_not_proven_is_shown_no_more(changes: dict[str, Any]) -> None:
    assert shown.with_run(shown.with_run({}, run()), run(**changes)) == {}


def test_what_a_run_left_out_stays() -> None:
    before = shown.with_run({}, run())
    assert shown.with_run(before, run(experiment="flood")).keys() == {"etcd-frozen", "flood"}
    assert shown.with_run(before, run(experiment="of-another-version")) == before


def test_the_file_is_in_the_order_of_the_experiments_and_names_no_other() -> None:
    names = [item.name for item in EXPERIMENTS]
    found = shown.read()
    assert list(found) == [name for name in names if name in found]
    assert shown.text(found) == shown.FILE.read_text(encoding="utf-8")
    assert yaml.safe_load(shown.text({})) == {}


def test_nothing_is_noted_of_a_run_on_a_busy_machine() -> None:
    assert shown.unfit(run() | {"baseline_p99_ms": {"a": 999.0, "host": 20.0}}) == ""
    reason = shown.unfit(run() | {"baseline_p99_ms": {"a": 4706.6, "b": 300.0, "host": 1001.0}})
    assert reason.startswith("a: p99 4707 ms without a fault, more than 1000 ms")
    assert "host: p99 1001 ms" in reason
    assert "b:" not in reason
