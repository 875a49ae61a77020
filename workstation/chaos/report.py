"""The result of a run as plain data, as JUnit, and as lines of text. Pure.

A report always contains every experiment of the plan, also those that the run did not reach: a pipeline can rely on each.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from workstation.chaos import objects
from workstation.chaos.experiments import OTHERS, Experiment
from workstation.chaos.judge import Figures, State, Subject, Verdict
from workstation.chaos.plan import Plan

REPORT_VERSION: Final = "bulkhead.dev/chaos/v1"
_TEXT_LIMIT: Final = 600
# What XML 1.0 cannot contain.
_NO_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One experiment of a run, and its verdict."""

    experiment: Experiment
    verdict: Verdict
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """All results of a run."""

    plan: Plan
    outcomes: tuple[Outcome, ...]
    seconds: float
    # Why the run ended before its last experiment; empty if it did not.
    ended: str = ""
    # Whether a person or a signal interrupted it.
    interrupted: bool = False
    # What could not be undone.
    left: tuple[str, ...] = ()
    # Earlier runs whose remains this run removed.
    swept: tuple[str, ...] = ()

    def count(self, state: State) -> int:
        """The number of experiments with this result."""
        return sum(outcome.verdict.state == state for outcome in self.outcomes)

    @property
    def held(self) -> bool:
        """Whether every experiment ran and held, and nothing is left of the run."""
        return bool(self.outcomes) and self.count(State.HELD) == len(self.outcomes) and not self.left and not self.ended


def skipped(experiment: Experiment, why: str) -> Outcome:
    """An experiment that the run did not reach."""
    return Outcome(experiment, Verdict(State.SKIPPED, (why,), (), (), 0.0))


def plan_document(plan: Plan) -> Mapping[str, Any]:
    """A plan as plain data."""
    return {
        "run": plan.run,
        "target": plan.target,
        "targetIsCreated": plan.own_target,
        "creates": list(plan.creates),
        "namespaceInEach": objects.space(plan.run),
        "class": plan.class_name,
        "image": plan.image,
        "baselineSeconds": plan.baseline_seconds,
        "faultSeconds": plan.fault_seconds,
        "requestSeconds": plan.request_seconds,
        "estimatedSeconds": round(plan.seconds),
        "experiments": [experiment_document(experiment) for experiment in plan.experiments],
    }


def experiment_document(experiment: Experiment) -> Mapping[str, Any]:
    """An experiment as plain data."""
    return {
        "name": experiment.name,
        "title": experiment.title,
        "hypothesis": hypothesis(experiment),
        "touches": experiment.touches,
        "touchesPlatform": experiment.platform,
        "ownTenantsOnly": experiment.own_only,
        "recoverWithinSeconds": experiment.recover_seconds,
    }


def hypothesis(experiment: Experiment) -> str:
    """Everything that an experiment claims."""
    return f"{experiment.hypothesis}; {OTHERS}"


def document(report: Report) -> Mapping[str, Any]:
    """The report as plain data."""
    return {
        "apiVersion": REPORT_VERSION,
        "held": report.held,
        "seconds": round(report.seconds, 1),
        "counts": {str(state): report.count(state) for state in State},
        "ended": _cut(report.ended),
        "left": [_cut(text) for text in report.left],
        "swept": list(report.swept),
        "plan": plan_document(report.plan),
        "results": [_outcome(outcome) for outcome in report.outcomes],
    }


def _outcome(outcome: Outcome) -> Mapping[str, Any]:
    verdict = outcome.verdict
    return {
        "experiment": outcome.experiment.name,
        "state": str(verdict.state),
        "seconds": round(outcome.seconds, 1),
        "recoveredAfterSeconds": round(verdict.recovered_after, 1),
        "hypothesis": hypothesis(outcome.experiment),
        "proofs": [{"shown": proof.shown, "text": _cut(proof.text)} for proof in verdict.proofs],
        "violations": [_cut(violation) for violation in verdict.violations],
        "subjects": [_subject(subject) for subject in verdict.subjects],
    }


def _subject(subject: Subject) -> Mapping[str, Any]:
    return {
        "name": subject.name,
        "before": _figures(subject.before),
        "during": _figures(subject.during),
        "limitP99Milliseconds": round(subject.limit * 1000, 1),
        "restarts": subject.restarts,
    }


def _figures(found: Figures) -> Mapping[str, Any]:
    return {
        "requests": found.requests,
        "errors": found.errors,
        "p50Milliseconds": round(found.p50 * 1000, 1),
        "p99Milliseconds": round(found.p99 * 1000, 1),
    }


def junit(report: Report) -> str:
    """The report for pipelines that read JUnit: one test case for each experiment."""
    suite = ET.Element("testsuite", name="bulkhead chaos", time=f"{report.seconds:.1f}")
    suite.set("failures", str(report.count(State.VIOLATED)))
    # Skipped experiments alone would be a suite that passes.
    others: list[tuple[str, str, tuple[str, ...]]] = []
    if report.ended:
        others.append(("run", "the run ended early", (report.ended,)))
    if report.left:
        others.append(("undo", "not everything was undone", report.left))
    suite.set("tests", str(len(report.outcomes) + len(others)))
    suite.set("errors", str(report.count(State.UNPROVEN) + len(others)))
    suite.set("skipped", str(report.count(State.SKIPPED)))
    for outcome in report.outcomes:
        case = ET.SubElement(suite, "testcase", classname="bulkhead.chaos", name=outcome.experiment.name)
        case.set("time", f"{outcome.seconds:.1f}")
        _result(case, outcome)
    for name, message, lines in others:
        case = ET.SubElement(suite, "testcase", classname="bulkhead.chaos", name=name)
        _text(ET.SubElement(case, "error", message=message), lines)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _result(case: ET.Element, outcome: Outcome) -> None:
    verdict = outcome.verdict
    proofs = [f"{'shown' if proof.shown else 'NOT shown'}: {proof.text}" for proof in verdict.proofs]
    if verdict.state is State.VIOLATED:
        failure = ET.SubElement(case, "failure", message=_clean(verdict.violations[0]))
        _text(failure, verdict.violations)
    elif verdict.state is State.UNPROVEN:
        _text(ET.SubElement(case, "error", message="the fault was not shown to have happened"), (*proofs, *verdict.violations))
    elif verdict.state is State.SKIPPED:
        ET.SubElement(case, "skipped", message=_clean(verdict.violations[0]))
    _text(ET.SubElement(case, "system-out"), (hypothesis(outcome.experiment), *proofs))


def _text(element: ET.Element, lines: tuple[str, ...]) -> None:
    element.text = "\n".join(_clean(line) for line in lines)


def _clean(text: str) -> str:
    return _NO_XML.sub(" ", _cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"
