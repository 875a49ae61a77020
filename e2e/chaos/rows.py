"""One row for each experiment of a run: what the report, chaos.json and the page say of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.chaos.again import Settled
from e2e.chaos.history import HOST, Announced, Evidence, Finding, History, Run, Span
from e2e.chaos.invariants import Violation
from e2e.chaos.measures import Broken, Neighbour, broken, neighbour, owners


@dataclass(frozen=True, slots=True)
class Row:
    """One experiment in the report."""

    experiment: str
    title: str
    hypothesis: str
    family: str
    target: str
    passed: bool
    evidence: tuple[str, ...]
    recovered_s: float | None
    pods_went_on: bool
    broken: Broken | None
    neighbours: dict[str, Neighbour]
    over_aim: tuple[str, ...]
    violations: tuple[str, ...]
    moments: tuple[str, ...]


def rows(history: History, run: Run, settled: Settled) -> list[Row]:
    """One row for each experiment that began."""
    spans = {span.experiment: span for span in history.spans}
    return [_row(history, run, finding, spans.get(finding.experiment), settled) for finding in history.all(Finding)]


def held(findings: Sequence[Finding], violations: Sequence[Violation]) -> frozenset[str]:
    """The experiments whose target recovered, whose pods went on, and that no violation names."""
    broken = {item.experiment for item in violations}
    return frozenset(item.experiment for item in findings if _well(item) and item.experiment not in broken)


def totals(table: Sequence[Row]) -> dict[str, int]:
    """Requests and errors of all neighbours and the host together, in all experiments."""
    noticed = [item for row in table for item in row.neighbours.values()]
    return {
        "requests": sum(item.requests for item in noticed),
        "errors": sum(item.errors for item in noticed),
        "work": sum(item.work for item in noticed),
        "failed_work": sum(item.failed_work for item in noticed),
    }


def outside(table: Sequence[Row], violations: Sequence[Violation]) -> list[Violation]:
    """Violations that belong to no experiment of the table."""
    known = {row.experiment for row in table}
    return [item for item in violations if item.experiment not in known]


def _well(finding: Finding) -> bool:
    return not finding.note and finding.recovered_s is not None and finding.pods_went_on


def _row(history: History, run: Run, finding: Finding, span: Span | None, settled: Settled) -> Row:
    name = finding.experiment
    own, moments = (
        tuple(f"{item.invariant}: {item.text}" for item in items if item.experiment == name)
        for items in (settled.violations, settled.moments)
    )
    proof = tuple(item.text for item in history.all(Evidence) if item.experiment == name and item.proven)
    announced = next((item for item in history.all(Announced) if item.experiment == name), None)
    note = (finding.note,) if finding.note else ()
    quiet = (run.baseline_begin, run.baseline_end)
    noticed = {} if span is None else {owner: neighbour(history, span, owner, quiet) for owner in owners(history, span)}
    neighbours = {owner: item for owner, item in noticed.items() if item is not None}
    return Row(
        experiment=name,
        title=finding.title,
        hypothesis=announced.hypothesis if announced else "",
        family=announced.family if announced else "",
        target=span.target if span else "",
        passed=not own and _well(finding),
        evidence=proof,
        recovered_s=finding.recovered_s,
        pods_went_on=finding.pods_went_on,
        broken=None if span is None else broken(history, span),
        neighbours=neighbours,
        over_aim=tuple(owner for owner, item in neighbours.items() if owner != HOST and item.p99_ms > item.aim_ms),
        violations=own + note,
        moments=moments,
    )
