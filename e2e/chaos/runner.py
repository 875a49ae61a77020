"""Runs the experiments one by one under steady load and observation, and judges the history that results.

tenants up -> loads on -> recorders on -> baseline -> for each: fault, proof, lift, recovery -> recorders off -> judge
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml

from e2e import machine, tenants
from e2e.api import Api, ApiError, UnreachableError
from e2e.chaos import invariants, report
from e2e.chaos.experiments import Experiment
from e2e.chaos.faults import Scene
from e2e.chaos.history import Evidence, History, Record, Span, from_lines
from e2e.chaos.invariants import CONTROLLER, Violation
from e2e.chaos.load import Load, stayers
from e2e.commands import CommandError
from e2e.machine import RESULTS
from e2e.poll import WaitTimeoutError, until
from e2e.tenants import Tenant

NAMES = ("chaos-a", "chaos-b", "chaos-c")
NEWCOMER = "chaos-d"
RECORDERS = {"observer": Path("build/e2e/chaos-observer.jsonl"), "prober": Path("build/e2e/chaos-prober.jsonl")}
LIMITS = Path(__file__).with_name("limits.yaml")
LONGEST_RUN = 5400.0

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the runner waits and measures, in seconds.

    With ten probes a second, a p99 over less than ten seconds would be the slowest probe.
    """

    baseline: float = 20.0
    least_span: float = 20.0  # of an experiment
    settle: float = 4.0  # before the baseline, and after each experiment


SHORT_PACE = Pace(baseline=12.0, least_span=11.0, settle=3.0)
_BROKE_OFF = (ApiError, UnreachableError, WaitTimeoutError, CommandError, AssertionError, OSError)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The time before the first fault, and how many cores were idle in it."""

    begin: float
    end: float
    idle_cores: float


@dataclass(slots=True)
class Runner:
    """One chaos run."""

    host: Api
    note: Note
    pace: Pace = field(default_factory=Pace)
    records: list[Record] = field(default_factory=list)
    findings: list[report.Finding] = field(default_factory=list)

    def run(self, experiments: Sequence[Experiment]) -> bool:
        """Run all, write chaos.json, print the table; True when everything held."""
        opened = self._prepare()
        loads = [Load(tenant) for tenant in opened]
        recorders = self._record(opened)
        try:
            for load in loads:
                load.start()
            quiet = self._baseline()
            for experiment in experiments:
                self._experiment(experiment, opened[0])
                time.sleep(self.pace.settle)
        finally:
            for load in loads:
                load.stop()
            codes = {name: _end(process) for name, process in recorders.items()}
            tenants.remove(self.host, NEWCOMER)
        for name, code in codes.items():
            if code != 0:
                raise RuntimeError(f"{name}: it ended with code {code} before the run was over")
        return self._judge(experiments, loads, quiet)

    def _prepare(self) -> list[Tenant]:
        self.note(f"three tenants under steady load: {', '.join(NAMES)}")
        tenants.remove(self.host, NEWCOMER)
        for name in NAMES:
            if self.host.find("Tenant", name) is None:
                self.host.create(tenants.manifest(name, gpus=2))
        tenants.wait_ready(self.host, NAMES, seconds=180, note=self.note)
        return [tenants.open_tenant(name) for name in NAMES]

    def _record(self, opened: Sequence[Tenant]) -> dict[str, subprocess.Popen[bytes]]:
        pairs = [f"{tenant.name}={tenant.kubeconfig}" for tenant in opened]
        started = {}
        for name, path in RECORDERS.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", f"e2e.chaos.{name}", "--out", str(path), "--seconds", str(LONGEST_RUN), *pairs]
            started[name] = subprocess.Popen(command)
        return started

    def _baseline(self) -> Baseline:
        self.note(f"baseline: {self.pace.baseline:.0f} s without a fault")
        time.sleep(self.pace.settle)
        begin, idle = time.monotonic(), machine.idle_core_seconds()
        time.sleep(self.pace.baseline)
        end = time.monotonic()
        return Baseline(begin, end, (machine.idle_core_seconds() - idle) / (end - begin))

    def _experiment(self, experiment: Experiment, target: Tenant) -> None:
        scene = Scene(self.host, target, NEWCOMER, self.note)
        owner = CONTROLLER if experiment.target == "controller" else target.name
        begin = time.monotonic()
        recovered: float | None = None
        went_on, problem = False, ""
        self.note(f"{experiment.title}: the fault begins")
        try:
            # A target that recovered from the previous fault may restart once more, if the restart was decided during the
            # fault.
            before = until("the target before the fault", lambda: stayers(target), seconds=60, note=self._detail)
            try:
                for proven, text in experiment.fault.inject(scene):
                    self.records.append(Evidence(experiment.name, time.monotonic(), proven, text))
                    self.note(f"    {'proof' if proven else 'NOT PROVEN'}: {text}")
            finally:
                experiment.fault.lift(scene)
            lifted = time.monotonic()
            within = experiment.recover_within
            recover = partial(experiment.fault.recovered, scene)
            until("the target to recover", recover, seconds=within, note=self._detail, patience=1)
            recovered = time.monotonic() - lifted
            went_on = stayers(target) == before
            # The next fault would measure whatever is left of this one.
            until("every trace of the fault to be gone", partial(experiment.fault.over, scene), seconds=120, note=self._detail)
        except _BROKE_OFF as exc:
            problem = f"{type(exc).__name__}: {exc}"
            self.note(f"    FAILED: {problem[:400]}")
        time.sleep(max(0.0, self.pace.least_span - (time.monotonic() - begin)))
        self.records.append(Span(experiment.name, owner, begin, time.monotonic()))
        self.findings.append(report.Finding(experiment.name, experiment.title, recovered, went_on, problem))
        if recovered is not None:
            self.note(f"    recovered after {recovered:.1f} s; running pods {'went on' if went_on else 'DID NOT go on'}")

    def _detail(self, text: str) -> None:
        self.note(f"    waiting: {text[:160]}")

    def _judge(self, experiments: Sequence[Experiment], loads: Sequence[Load], quiet: Baseline) -> bool:
        recorded: list[Record] = []
        for path in RECORDERS.values():
            with path.open() as lines:
                recorded += from_lines(lines)
        history = History.of([*recorded, *self.records], NAMES)
        baseline = invariants.baseline_p99(history, quiet.begin, quiet.end)
        bound = invariants.bound_of(quiet.idle_cores, report.latency_limit(yaml.safe_load(LIMITS.read_text())))
        violations = invariants.check_all(history, baseline, [item.name for item in experiments], bound)
        violations += self._broken_turns(history, loads)
        table = report.rows(history, baseline, self.findings, violations)
        result = report.as_json(table, violations, baseline, quiet.idle_cores)
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "chaos.json").write_text(json.dumps(result, indent=2) + "\n")
        print(report.as_text(table, violations))
        print(report.bound_text(quiet.idle_cores, bound))
        return bool(result["passed"])

    @staticmethod
    def _broken_turns(history: History, loads: Sequence[Load]) -> list[Violation]:
        """I4 for whole pods: while one tenant is broken, the pods of the others still come and go."""
        return [
            Violation("I4", span.experiment, text)
            for span in history.spans
            for load in loads
            if load.tenant.name != span.target
            for text in load.errors(span.begin, span.end)
        ]


def _end(process: subprocess.Popen[bytes]) -> int:
    process.terminate()
    return process.wait(timeout=30)
