"""The verdict on a history: baseline, bound, violations and rows, all from its records. Pure, so a run can be judged again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from e2e.chaos import again, invariants, rows
from e2e.chaos.history import Finding, History, LeftOut, Record, Run, Speed
from e2e.chaos.invariants import LatencyBound, Violation


class NoRunError(ValueError):
    """The history does not say what the run was: it ended before its baseline did."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a run showed."""

    history: History
    run: Run
    baseline: Mapping[str, float]
    bound: LatencyBound
    violations: tuple[Violation, ...]
    rows: tuple[rows.Row, ...]
    left_out: tuple[LeftOut, ...]
    # Experiments beside which the machine was slower than in the baseline, and how many times.
    slower: Mapping[str, float]

    @property
    def passed(self) -> bool:
        return bool(self.rows) and all(row.passed for row in self.rows) and not self.violations


def judge(records: Iterable[Record]) -> Judgement:
    """Judge a run by its records. Raises `NoRunError` if there are too few for any verdict."""
    whole = list(records)
    run = next((record for record in whole if isinstance(record, Run)), None)
    if run is None:
        raise NoRunError("the history has no record of a run: it ended before its baseline was measured")
    history = History.of(whole, run.tenants)
    baseline = invariants.baseline_p99(history, run.baseline_begin, run.baseline_end)
    bound = LatencyBound(run.factor, run.allowance)
    left_out = history.all(LeftOut)
    asked = [name for name in run.experiments if name not in {item.experiment for item in left_out}]
    found = invariants.check_all(history, baseline, asked, bound, run.quiet_seconds)
    slower = again.slowed(history.all(Speed))
    settled = again.settle(found, rows.held(history.all(Finding), found), asked, slower)
    table = rows.rows(history, run, settled)
    return Judgement(history, run, baseline, bound, settled.violations, tuple(table), left_out, slower)


def slow_ones(records: Iterable[Record]) -> tuple[str, ...]:
    """The experiments that are to be made once more. None if too many are slow. Raises `NoRunError` as `judge` does."""
    judged = judge(records)
    slow = again.slow_ones(judged.violations, judged.run.experiments)
    return slow if again.few_enough(slow, judged.run.experiments, judged.slower) else ()
