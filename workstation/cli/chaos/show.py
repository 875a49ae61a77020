"""Plans and reports for people: every text of a cluster loses its control characters."""

import sys
from collections.abc import Iterable

from workstation.chaos.experiments import EXPERIMENTS, OTHERS
from workstation.chaos.judge import State
from workstation.chaos.objects import space
from workstation.chaos.plan import Plan
from workstation.chaos.report import Outcome, Report
from workstation.chaos.stop import Ended
from workstation.cli.output import heading, plain, table

_STATES = {State.HELD: "held", State.VIOLATED: "VIOLATED", State.UNPROVEN: "UNPROVEN", State.SKIPPED: "skipped"}


def experiments() -> None:
    """All experiments."""
    table(
        ("EXPERIMENT", "BREAKS", "WHAT"),
        [(found.name, "the platform" if found.platform else "the target", found.title) for found in EXPERIMENTS],
    )
    print(f"\nEach also claims: {OTHERS}.")


def plan(made: Plan) -> None:
    """What a run would touch."""
    creates = ", ".join(made.creates)
    print(f"run {made.run}, about {made.seconds / 60:.0f} minutes:")
    print(f"  creates and deletes {len(made.creates)} tenants of class {plain(made.class_name)}: {creates}")
    whose = "which it creates" if made.own_target else "WHICH IT DOES NOT CREATE: its users notice each fault"
    print(f"  breaks tenant {made.target}, {whose}")
    print(f"  measures {', '.join(made.neighbours)} and the host, for {made.baseline_seconds:g} s before the first fault")
    print(f"  creates namespace {space(made.run)} in each of these tenants for what it reads and writes there, and deletes it")
    print("  requests a certificate for an hour for each of these tenants")
    print("  writes one ConfigMap and one Lease in Bulkhead's namespace, and deletes them at its end")
    heading("EXPERIMENTS")
    for number, experiment in enumerate(made.experiments, 1):
        print(f"{number}. {experiment.name}: {experiment.title}, for {made.fault_seconds:g} s")
        print(f"   it {experiment.touches}")
        print(f"   claim: {experiment.hypothesis}; {OTHERS}")
        if experiment.needs_image:
            print(f"   image: {plain(made.image)}")


def report(found: Report) -> None:
    """The result of a run."""
    table(
        ("EXPERIMENT", "RESULT", "BACK AFTER", "WORST P99 OF OTHERS", "ERRORS OF OTHERS"),
        [(line.experiment.name, _STATES[line.verdict.state], _back(line), *_worst(line)) for line in found.outcomes],
    )
    for outcome in found.outcomes:
        _details(outcome)
    if found.ended:
        print(f"\nthe run ended early: {plain(found.ended, 600)}")
    counts = ", ".join(f"{found.count(state)} {_STATES[state]}" for state in State if found.count(state))
    print(f"\n{counts or 'no experiment'}; {found.seconds:.0f} s")


def remains(found: Report) -> None:
    """On stderr, what the run found of earlier ones, and what it has left itself."""
    for run in found.swept:
        sys.stderr.write(f"undid run {plain(run)}, which had not undone itself\n")
    left(found.left)


def left(texts: Iterable[str]) -> None:
    """On stderr, what could not be undone."""
    for text in texts:
        warning(f"not undone: {text}")


def warning(text: str) -> None:
    """On stderr, what is worth knowing beside a result."""
    sys.stderr.write(f"warning: {plain(text, 2000)}\n")


def ended(found: Ended) -> None:
    """What a stop did."""
    for name in found.runs:
        print(f"run {plain(name)}: {'ended' if found.left else 'ended and undone'}")
    if not found.runs and not found.left:
        print("no run is going on, and none has left anything")


def _back(outcome: Outcome) -> str:
    return "-" if outcome.verdict.state is State.SKIPPED else f"{outcome.verdict.recovered_after:.0f} s"


def _worst(outcome: Outcome) -> tuple[str, str]:
    subjects = outcome.verdict.subjects
    if not subjects:
        return "-", "-"
    worst = max(subjects, key=lambda subject: (subject.during.errors, subject.during.p99 - subject.limit))
    shown = f"{worst.during.p99 * 1000:.0f} ms of {worst.limit * 1000:.0f} ms ({worst.name})"
    return shown, str(sum(subject.during.errors for subject in subjects))


def _details(outcome: Outcome) -> None:
    if outcome.verdict.state is State.HELD:
        return
    heading(f"{_STATES[outcome.verdict.state]}: {outcome.experiment.name}: {outcome.experiment.title}")
    for proof in outcome.verdict.proofs:
        print(f"  {'shown' if proof.shown else 'NOT shown'}: {plain(proof.text, 600)}")
    for violation in outcome.verdict.violations:
        print(f"  - {plain(violation, 600)}")
