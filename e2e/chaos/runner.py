"""Runs the experiments one by one under steady load and observation.

tenants up -> loads on -> recorders on -> baseline -> for each: hypothesis, fault, proof, lift, recovery, writes read back,
quiet window -> once more those in which others were only slow -> last scan and search -> recorders off -> all records
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import yaml

from e2e import tenants
from e2e.api import Api, ApiError, UnreachableError
from e2e.chaos import again, canary, invariants, judgement, population, quiet, report, room, scan, speed
from e2e.chaos.experiments import Experiment
from e2e.chaos.faults import Scene
from e2e.chaos.history import (
    CONTROLLER,
    HOST,
    Announced,
    Aside,
    Evidence,
    Finding,
    LeftOut,
    Record,
    Run,
    Span,
    Speed,
    from_lines,
)
from e2e.chaos.load import Load, stayers, stopped, turn_period
from e2e.chaos.pace import Pace, probe_period
from e2e.chaos.population import NEWCOMER, Member
from e2e.chaos.schedule import Turn
from e2e.commands import CommandError
from e2e.poll import NotYetError, WaitTimeoutError, until
from e2e.tenants import Tenant

RECORDERS = {"observer": Path("build/e2e/chaos-observer.jsonl"), "prober": Path("build/e2e/chaos-prober.jsonl")}
LIMITS = Path(__file__).with_name("limits.yaml")
CONVERGE_SECONDS = invariants.LONGEST_CONVERGENCE
_LOOK_SECONDS = 10.0
_LOOKS_AT_MACHINE = 3
_LAST_TURN_SECONDS = 3.0  # before the shortest span ends
_TRACES_SECONDS = 120.0  # for what is left of a fault to go

Note = Callable[[str], None]
# Whose failures an experiment expects, where they are not its target tenant's.
_OWNERS: Mapping[str, str] = {"controller": CONTROLLER, "platform": HOST}
_BROKE_OFF = (ApiError, UnreachableError, WaitTimeoutError, CommandError, AssertionError, OSError, NotYetError)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to do. `turns` may be endless; `until` then ends it, in seconds from the first experiment."""

    members: tuple[Member, ...]
    turns: Iterable[Turn]
    seed: int = 0
    until: float | None = None
    command: str = ""


@dataclass(slots=True)
class Runner:
    """One chaos run.

    `records` holds everything that it noted itself. `interrupted` is whether a user ended it early; `failed` says which
    recorder ended before the run did, so that the run cannot be judged.
    """

    host: Api
    note: Note
    pace: Pace = field(default_factory=Pace)
    records: list[Record] = field(default_factory=list)
    interrupted: bool = False
    failed: str = ""
    _loads: dict[str, Load] = field(default_factory=dict)
    _recorders: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _slower: int = 1

    def run(self, plan: Plan) -> list[Record]:
        """Run the plan and return all records: those of the recorders, of the loads, and its own."""
        opened = self._prepare(plan.members)
        done: list[Turn] = []
        try:
            baseline = self._with_room(opened)
            try:
                self._all(plan, opened, done)
                self._once_more(plan, baseline, opened, done)
                self._last_look(opened)
            except KeyboardInterrupt:
                self.interrupted = True
                self.note("interrupted: what was observed so far is kept and judged")
            self.records.append(self._whole(plan, baseline, done))
        finally:
            self._stop_loads()
            codes = {name: _end(process) for name, process in self._recorders.items()}
        if not self.failed and (ended := [f"{name} with code {code}" for name, code in codes.items() if code != 0]):
            self.failed = f"ended before the run was over: {', '.join(ended)}"
        return self._gather()

    def take_down(self, members: Sequence[Member]) -> None:
        """Remove what a short run does not use. What cannot be removed is reported, and does not change the verdict."""
        try:
            tenants.remove(self.host, NEWCOMER)
            population.take_down(self.host, members, self.note)
        except _BROKE_OFF as exc:
            self.note(f"not all tenants could be removed: {str(exc)[:200]}; `make down` removes the host")

    def _prepare(self, members: Sequence[Member]) -> dict[str, Tenant]:
        self.note(f"{len(members)} tenants under steady load: {', '.join(member.name for member in members)}")
        tenants.remove(self.host, NEWCOMER)
        opened = population.bring_up(self.host, members, self.note)
        period = turn_period(len(members))
        self._loads = {member.name: Load(opened[member.name], member, period) for member in members}
        for load in self._loads.values():
            load.prepare()
        return opened

    def _with_room(self, opened: Mapping[str, Tenant]) -> room.Baseline:
        """Start load and recorders, as slow as the machine needs them, and measure without a fault."""
        room.calm(self._detail)
        for load in self._loads.values():
            load.start()
        while True:
            self._recorders = self._record(opened)
            time.sleep(self.pace.settle)
            # A look costs less than a baseline. It can be too short to see the pods that come and go: the baseline decides.
            if self._room(room.measure(_LOOK_SECONDS).busy) and self._room((baseline := self._baseline()).busy):
                return baseline
            for process in self._recorders.values():
                _end(process)
            self._slower = room.next_slower(self._slower)
            for load in self._loads.values():
                load.slower = self._slower

    def _room(self, busy: float) -> bool:
        how = f", load and probes {self._slower} times slower" if self._slower > 1 else ""
        self.note(f"{busy:.0%} of the CPU is busy{how}")
        return room.enough(busy, self._slower)

    def _record(self, opened: Mapping[str, Tenant]) -> dict[str, subprocess.Popen[bytes]]:
        pairs = [f"{name}={tenant.kubeconfig}" for name, tenant in opened.items()]
        period = str(probe_period(len(opened), self._slower))
        started = {}
        for name, path in RECORDERS.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", f"e2e.chaos.{name}", "--out", str(path)]
            started[name] = subprocess.Popen([*command, "--period", period, *pairs])
        return started

    def _baseline(self) -> room.Baseline:
        """Measure without a fault."""
        seconds = self.pace.stretched(self.pace.baseline, self._slower)
        rounds = self.pace.rounds(len(self._loads), self._slower)
        self.note(f"baseline: {rounds * seconds:.0f} s without a fault")
        for _ in range(_LOOKS_AT_MACHINE):
            self._look_at_machine()
        time.sleep(self.pace.settle)
        return room.measure(seconds, rounds, self._turns, lambda busy: room.enough(busy, self._slower))

    def _whole(self, plan: Plan, baseline: room.Baseline, done: Sequence[Turn]) -> Run:
        """The record of the run, once its experiments are known."""
        experiments = tuple(turn.experiment.name for turn in done)
        names = tuple(member.name for member in plan.members)
        bound = invariants.bound_of(baseline.idle_cores, report.latency_limit(yaml.safe_load(LIMITS.read_text())))
        return Run(
            baseline.begin, names, baseline.started, plan.seed, baseline.begin, baseline.end, baseline.idle_cores,
            os.cpu_count() or 0, bound.factor, bound.allowance, self.pace.quiet, experiments, plan.command,
            slower=self._slower,
        )  # fmt: skip

    def _all(self, plan: Plan, opened: Mapping[str, Tenant], done: list[Turn]) -> None:
        """Every experiment in turn; `done` gets each as it begins."""
        begin = time.monotonic()
        for turn in plan.turns:
            if plan.until is not None and time.monotonic() - begin >= plan.until:
                return
            if not self._turn(turn, opened, done):
                return

    def _once_more(self, plan: Plan, baseline: room.Baseline, opened: Mapping[str, Tenant], done: list[Turn]) -> None:
        """Make the experiments once more in which others were slow, and nothing else was wrong (`again`)."""
        if self.failed:
            return
        slow = judgement.slow_ones([*self._gather(), self._whole(plan, baseline, done)])
        for turn in [turn for turn in done if turn.experiment.name in slow]:
            name = turn.experiment.name
            self.note(f"others were slow in {name}; it is made once more, to tell its effect from a moment of the machine")
            if not self._turn(replace(turn, experiment=replace(turn.experiment, name=again.once_more(name))), opened, done):
                return

    def _turn(self, turn: Turn, opened: Mapping[str, Tenant], done: list[Turn]) -> bool:
        """One experiment and what is looked at after it. False if a recorder has ended: nothing more could be judged."""
        if gone := [name for name, process in self._recorders.items() if process.poll() is not None]:
            self.failed = f"ended before {turn.experiment.name} began: {', '.join(gone)}"
            return False
        done.append(turn)
        target = opened[turn.member.name]
        others = tuple(tenant for name, tenant in opened.items() if name != target.name)
        self._look_at_machine(turn.experiment.name)
        if self._experiment(turn.experiment, target, others):
            self._afterwards(turn.experiment, target, turn.member)
        self._look_at_machine(turn.experiment.name)
        time.sleep(self.pace.settle)
        return True

    def _look_at_machine(self, experiment: str = "") -> None:
        # Without it a slow experiment counts as one of a machine that did not change.
        with suppress(OSError, subprocess.SubprocessError):
            self.records.append(Speed(time.monotonic(), experiment, speed.cpu_seconds()))

    def _experiment(self, experiment: Experiment, target: Tenant, others: tuple[Tenant, ...]) -> bool:
        """One experiment, from its hypothesis until no trace of its fault is left. False if it cannot be made here."""
        scene = Scene(self.host, target, NEWCOMER, self.note, others)
        owner = _OWNERS.get(experiment.target, target.name)
        hypothesis = hypothesis_of(experiment)
        self.note(f"{experiment.title} (target: {owner})")
        self.note(f"    hypothesis: {hypothesis}")
        self.records.append(
            Announced(time.monotonic(), experiment.name, experiment.title, hypothesis, owner, experiment.family)
        )
        if reason := experiment.fault.unmet(scene):
            self.note(f"    left out: {reason}")
            self.records.append(LeftOut(time.monotonic(), experiment.name, reason))
            return False
        try:
            if self._prepared(experiment, scene, owner):
                self._measured(experiment, scene, owner)
            return True
        finally:
            with self._aside(experiment, owner):
                self._clear(experiment, scene)

    @contextmanager
    def _aside(self, experiment: Experiment, owner: str) -> Iterator[None]:
        """Note that an experiment is prepared or cleared away: what its target does then is its own doing."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.records.append(Aside(begin, experiment.name, owner, time.monotonic()))

    def _prepared(self, experiment: Experiment, scene: Scene, owner: str) -> bool:
        """Whether all stands that the fault needs. If not, the experiment has failed, and nothing was measured."""
        try:
            with self._aside(experiment, owner):
                experiment.fault.prepare(scene)
        except (KeyboardInterrupt, *_BROKE_OFF) as exc:
            interrupted = isinstance(exc, KeyboardInterrupt)
            at, problem = time.monotonic(), f"it could not be prepared: {type(exc).__name__}: {exc}"
            self.note(f"    FAILED: {problem[:400]}")
            self.records.append(_span(experiment, owner, at, at, at))
            note = "interrupted" if interrupted else problem
            self.records.append(Finding(experiment.name, experiment.title, None, pods_went_on=False, note=note, at=at))
            if interrupted:
                raise
            return False
        return True

    def _clear(self, experiment: Experiment, scene: Scene) -> None:
        """Remove what an experiment prepared. What is left would only be measured with the next one, so it is reported."""
        try:
            until("what was prepared to be gone", partial(experiment.fault.clear, scene), seconds=240, note=self._detail)
        except _BROKE_OFF as exc:
            self.note(f"    what was prepared is not gone: {str(exc)[:200]}")

    def _measured(self, experiment: Experiment, scene: Scene, owner: str) -> None:
        """The span of an experiment, in which all that others notice counts as its effect."""
        target = scene.target
        begin, lifted = time.monotonic(), 0.0
        recovered: float | None = None
        went_on, problem = False, ""
        try:
            # A target that recovered from the previous fault may restart once more, if the restart was decided during the
            # fault.
            before = until("the target before the fault", lambda: stayers(target), seconds=60, note=self._detail)
            self._turns()
            self.note("    the fault begins")
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
            lost = "" if experiment.may_lose else stopped(target, before)
            went_on = not lost
            if lost:
                self.note(f"    pods that were to keep running: {lost}")
            # The next fault would measure whatever is left of this one.
            self._gone(experiment, scene)
        except KeyboardInterrupt:
            # Without its span, what the fault did to its target would be counted against the experiment before.
            end = time.monotonic()
            self.records.append(_span(experiment, owner, begin, end, lifted or end))
            self.records.append(
                Finding(experiment.name, experiment.title, None, pods_went_on=False, note="interrupted", at=end)
            )
            raise
        except Exception as exc:  # noqa: BLE001 -- a mistake in one fault must not cost what was observed of all others
            problem = f"{type(exc).__name__}: {exc}"
            self.note(f"    FAILED: {problem[:400]}")
            self._let_go(experiment, scene)
        time.sleep(max(0.0, self.pace.stretched(self.pace.least_span, self._slower) - (time.monotonic() - begin)))
        end = time.monotonic()
        self.records.append(_span(experiment, owner, begin, end, lifted))
        self.records.append(Finding(experiment.name, experiment.title, recovered, went_on, problem, end))
        if recovered is not None:
            self.note(f"    recovered after {recovered:.1f} s; running pods {'went on' if went_on else 'DID NOT go on'}")

    def _gone(self, experiment: Experiment, scene: Scene) -> None:
        over = partial(experiment.fault.over, scene)
        until("every trace of the fault to be gone", over, seconds=_TRACES_SECONDS, note=self._detail)

    def _let_go(self, experiment: Experiment, scene: Scene) -> None:
        """Lift a fault that failed once more, and wait for what is left of it: the next one would be measured with it."""
        for what in (partial(experiment.fault.lift, scene), partial(self._gone, experiment, scene)):
            try:
                what()
            except Exception as exc:  # noqa: BLE001 -- the experiment has failed already, and the others go on
                self.note(f"    what is left of it is not gone: {str(exc)[:200]}")

    def _turns(self) -> None:
        """At least one pod of each tenant has to come and go in the span of an experiment: one after the other, not at once.

        The baseline has the same ones. Without them, the limits of ten tenants came from a machine on which no pod started.
        """
        apart = (self.pace.stretched(self.pace.least_span, self._slower) - _LAST_TURN_SECONDS) / max(1, len(self._loads))
        for place, load in enumerate(self._loads.values()):
            load.turn_within(place * apart)

    def _afterwards(self, experiment: Experiment, target: Tenant, member: Member) -> None:
        """I3 and I9: read back what was acknowledged, then let the target do nothing and see what still writes for it."""
        try:
            self._loads[target.name].restore()
        except _BROKE_OFF as exc:
            self.note(f"    the work of {target.name} could not be restored: {str(exc)[:200]}")
        for name, load in self._loads.items():
            try:
                until(f"{name} to be read", partial(load.read_back, experiment.name), seconds=20, patience=1)
            except _BROKE_OFF as exc:
                self.note(f"    the writes of {name} could not be read: {str(exc)[:200]}")
        with self._loads[target.name].paused():
            seen = quiet.wait(
                self.host, target, experiment.name, window=self.pace.quiet, within=CONVERGE_SECONDS,
                counts=member.kind != "members", note=self.note,
            )  # fmt: skip
        self.records.append(seen)
        self.note(f"    quiet after {seen.converged:.0f} s" if not seen.writes else f"    NOT QUIET: {seen.writes[:3]}")

    def _last_look(self, opened: Mapping[str, Tenant]) -> None:
        """I7 and I10: every host object against the policies, every text for canaries."""
        for name, tenant in opened.items():
            try:
                self.records.append(scan.scan(self.host, tenant, self.note))
            except _BROKE_OFF as exc:
                self.note(f"{name} could not be scanned: {str(exc)[:200]}")
        try:
            self.records += canary.search(self.host, opened, self.note)
        except _BROKE_OFF as exc:
            self.note(f"the search for canaries broke off: {str(exc)[:200]}")

    def _stop_loads(self) -> None:
        for load in self._loads.values():
            load.stop()
        for load in self._loads.values():
            load.join()

    def _gather(self) -> list[Record]:
        found = list(self.records)
        for load in self._loads.values():
            found += load.records
        for path in RECORDERS.values():
            with path.open() as lines:
                found += from_lines(lines)
        return found

    def _detail(self, text: str) -> None:
        self.note(f"    waiting: {text[:160]}")


def _span(experiment: Experiment, owner: str, begin: float, end: float, lifted: float) -> Span:
    return Span(experiment.name, owner, begin, end, lifted, experiment.may_lose, experiment.only_measured)


def hypothesis_of(experiment: Experiment) -> str:
    """What the experiment expects: its own words, or what all have in common."""
    common = f"the target recovers within {experiment.recover_within:.0f} s, its running pods go on, others notice nothing"
    return experiment.hypothesis or common


def _end(process: subprocess.Popen[bytes]) -> int:
    """Let a recorder write what it has. Returns its exit code."""
    process.terminate()
    try:
        return process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
