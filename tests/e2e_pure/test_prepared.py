"""What a fault needs to stand is made before its span and removed after it, and a fault without it has failed.

What is left of a fault that failed is waited for, as the next one would be measured with it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from e2e.chaos import runner
from e2e.chaos.experiments import Experiment
from e2e.chaos.faults.fault import Fault, LiftError, Proof, Scene
from e2e.chaos.history import Aside, Evidence, Finding, Span
from e2e.poll import NotYetError


@dataclass(frozen=True)
class Noting(Fault):
    """A fault that notes its steps, and fails while it is prepared if it is told so."""

    steps: list[str] = field(default_factory=list)
    problem: BaseException | None = None

    def prepare(self, scene: Scene) -> None:
        self.steps.append("prepare")
        if self.problem is not None:
            raise self.problem

    def inject(self, scene: Scene) -> Sequence[Proof]:
        self.steps.append("inject")
        return [(True, "it is so")]

    def recovered(self, scene: Scene) -> None:
        self.steps.append("recovered")

    def clear(self, scene: Scene) -> None:
        self.steps.append("clear")


@dataclass
class Named:
    name: str


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[[Noting], runner.Runner]:
    """A runner whose clock is the number of the fault's steps so far."""

    def of(fault: Noting) -> runner.Runner:
        monkeypatch.setattr("time.monotonic", lambda: float(len(fault.steps)))
        monkeypatch.setattr("time.sleep", lambda _: None)
        monkeypatch.setattr(runner, "stayers", lambda _: {})
        monkeypatch.setattr(runner, "stopped", lambda *_: "")
        monkeypatch.setattr(runner, "until", lambda _what, look, **_: look())
        nothing: Any = None
        return runner.Runner(nothing, lambda _: None)

    return of


def run(it: runner.Runner, fault: Noting) -> bool:
    target: Any = Named("a")
    return it._experiment(Experiment("one", "one", fault, 60), target, ())


def test_the_span_is_between_what_is_prepared_and_what_is_cleared(made: Callable[[Noting], runner.Runner]) -> None:
    fault = Noting()
    it = made(fault)
    assert run(it, fault)
    assert fault.steps == ["prepare", "inject", "recovered", "clear"]
    spans = [record for record in it.records if isinstance(record, Span)]
    assert [(span.begin, span.lifted, span.end) for span in spans] == [(1.0, 2.0, 3.0)]
    assert [record.proven for record in it.records if isinstance(record, Evidence)] == [True]
    # What its target does meanwhile is not the doing of the experiment before.
    asides = [record for record in it.records if isinstance(record, Aside)]
    assert [(aside.experiment, aside.target, aside.at, aside.end) for aside in asides] == [
        ("one", "a", 0.0, 1.0),
        ("one", "a", 3.0, 4.0),
    ]


@pytest.mark.parametrize("problem", [AssertionError("no room"), KeyboardInterrupt()], ids=["fails", "interrupted"])
def test_a_fault_that_cannot_be_prepared_has_failed_and_is_cleared(
    made: Callable[[Noting], runner.Runner], problem: BaseException
) -> None:
    fault = Noting(problem=problem)
    it = made(fault)
    if isinstance(problem, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            run(it, fault)
    else:
        assert run(it, fault)
    assert fault.steps == ["prepare", "clear"]
    spans = [record for record in it.records if isinstance(record, Span)]
    assert [(span.begin, span.end) for span in spans] == [(1.0, 1.0)]
    assert [(aside.at, aside.end) for aside in it.records if isinstance(aside, Aside)] == [(0.0, 1.0), (1.0, 2.0)]
    (found,) = (record for record in it.records if isinstance(record, Finding))
    assert (found.recovered_s, found.note) == (
        None, "interrupted" if isinstance(problem, KeyboardInterrupt) else "it could not be prepared: AssertionError: no room",
    )  # fmt: skip


@dataclass(frozen=True)
class Sticking(Noting):
    """A fault whose first lifts fail, or after which the target does not recover."""

    lifts_fail: int = 0
    recovers: bool = True

    def lift(self, scene: Scene) -> None:
        self.steps.append("lift")
        if self.steps.count("lift") <= self.lifts_fail:
            raise LiftError("the node is not back")

    def recovered(self, scene: Scene) -> None:
        self.steps.append("recovered")
        if not self.recovers:
            raise NotYetError("no pod runs")

    def over(self, scene: Scene) -> None:
        self.steps.append("over")


@pytest.mark.parametrize(
    ("fault", "steps", "note"),
    [
        (Sticking(lifts_fail=1), ["lift", "lift", "over"], "LiftError: the node is not back"),
        (Sticking(lifts_fail=2), ["lift", "lift", "over"], "LiftError: the node is not back"),
        (Sticking(recovers=False), ["lift", "recovered", "lift", "over"], "NotYetError: no pod runs"),
        (Sticking(), ["lift", "recovered", "over"], ""),
    ],
    ids=["lift fails", "lift fails twice", "no recovery", "control"],
)
def test_what_is_left_of_a_fault_that_failed_is_lifted_and_waited_for(
    made: Callable[[Noting], runner.Runner], fault: Sticking, steps: list[str], note: str
) -> None:
    it = made(fault)
    assert run(it, fault)
    assert fault.steps == ["prepare", "inject", *steps, "clear"]
    (found,) = (record for record in it.records if isinstance(record, Finding))
    assert found.note == note
    # All of it belongs to this experiment.
    (span,) = (record for record in it.records if isinstance(record, Span))
    assert span.end == len(fault.steps) - 1
