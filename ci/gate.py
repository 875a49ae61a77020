"""What a change has to pass before it lands: `.ci/run`.

    fixed part, the first failure ends all ──> suites that the change touches, longest not run first, while they fit
    ──> what was not run, and why ──> make down, always

A suite that fails makes the run red, and so does a fixed part that does not come to its end. A suite for which no time was left
is printed; it makes nothing red, and comes first on another day. CI=all runs all of them, without a limit.
"""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from ci import change, flaky, plan, record, stage, table
from ci.catalogue import Catalogue, Suite
from ci.change import Change
from ci.record import Result
from ci.runner import Runner

BUDGET = 60 * 60.0  # no suite begins that should last beyond it
HARD_STOP = 75 * 60.0  # whatever runs then is ended


@dataclass(slots=True)
class Gate:
    """One run over one change."""

    catalogue: Catalogue
    seen: Change
    runner: Runner
    everything: bool  # CI=all
    reasons: dict[str, str] = field(default_factory=dict)  # why a suite was not run

    def run(self) -> bool:
        """Run the gate; returns whether all suites that ran have passed."""
        for suite in self.catalogue.fixed:
            result = self.runner.run(suite, until=self._hard_stop)
            if result is Result.STOPPED:
                print(f"{suite.name} belongs to the fixed part and was ended at the hard stop: that is red", flush=True)
            if result is not Result.PASSED:
                self._leave_out(self.catalogue.suites, f"{suite.name} did not pass")
                return False
        return self._others()

    def _others(self) -> bool:
        others = self.catalogue.others
        wanted = plan.wanted(self.catalogue, self.seen.files)
        chosen = [suite for suite in others if self.everything or suite.name in wanted]
        self._leave_out([suite for suite in others if suite not in chosen], "not touched")
        self._leave_out([suite for suite in others if suite not in chosen and suite.quiet], "wants a quiet machine")
        past = record.load(self.runner.path)
        waiting = plan.one_host(chosen) if self.everything else plan.in_order(chosen, past, self.seen.commit)
        self._say_chosen(waiting, wanted)
        while (suite := plan.following(waiting, past, self._left)) is not None:
            waiting.remove(suite)
            result = self.runner.run(suite, until=self._hard_stop)
            if result is Result.STOPPED:
                self._leave_out([suite], "ended at the hard stop, after 75 minutes")
            if result is Result.FAILED:
                self._leave_out(waiting, f"{suite.name} failed")
                return False
        for suite in waiting:
            takes = table.minutes(plan.expected(suite, past))
            self.reasons[suite.name] = f"takes {takes}, {table.minutes(max(0.0, self._left))} were left"
        return True

    @property
    def _left(self) -> float:
        return float("inf") if self.everything else BUDGET - self.runner.elapsed

    @property
    def _hard_stop(self) -> float | None:
        return None if self.everything else HARD_STOP

    def _leave_out(self, suites: list[Suite] | tuple[Suite, ...], why: str) -> None:
        self.reasons |= {suite.name: why for suite in suites}

    def _say_chosen(self, waiting: list[Suite], wanted: dict[str, list[str]]) -> None:
        print(
            f"\n{'CI=all: every suite' if self.everything else self.seen.why}; in this order, while there is time:", flush=True
        )
        for suite in waiting:
            why = wanted.get(suite.name, [])
            print(f"  {suite.name:<20} {', '.join(why[:4])}{f' and {len(why) - 4} more' if len(why) > 4 else ''}", flush=True)

    def report(self) -> None:
        """Print the table of results."""
        ran = [suite for suite in self.catalogue.suites if suite.name in self.runner.results]
        print(f"\n{table.summary(ran, record.load(self.runner.path))}")
        counted = Path(self.runner.environment[flaky.COUNTED_IN])
        if found := counted.read_text().splitlines() if counted.exists() else []:
            print("FLAKY, each with a line above that belongs into tests/flaky.yaml:", *found, sep="\n  ")
        came_to_an_end = {name for name, result in self.runner.results.items() if result is not Result.STOPPED}
        rest = [suite for suite in self.catalogue.suites if suite.name not in came_to_an_end]
        reasons = {suite.name: self.reasons.get(suite.name, "the run was ended before") for suite in rest}
        print(table.not_run(rest, reasons), flush=True)


def main(catalogue: Catalogue, root: Path) -> int:
    """Run the gate; returns the exit status of `.ci/run`."""
    if os.geteuid() != 0:
        print(".ci/run: the demo and the scenarios need root; next: sudo bash .ci/run")
        return 2
    seen = change.look(root)
    with tempfile.TemporaryDirectory() as folder, stage.signals_end():
        runner = Runner(seen.commit, seen.dirty, record.default_path(), {flaky.COUNTED_IN: str(Path(folder) / "flakes")})
        gate = Gate(catalogue, seen, runner, everything=os.environ.get("CI") == "all")
        status = 1
        try:
            status = 0 if gate.run() else 1
        except stage.Signalled as told:
            status = 128 + told.number
        finally:
            if not runner.down() and status == 0:
                status = 1
            gate.report()
            print(f"ended after {table.minutes(runner.elapsed)} with status {status}", flush=True)
    return status
