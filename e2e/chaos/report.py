"""The findings of a chaos run, as a printed table and as chaos.json. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from e2e.chaos.history import HOST, Evidence, History, Span
from e2e.chaos.invariants import AIM, SPARE_CORES, LatencyBound, Violation
from e2e.chaos.percentiles import percentile


@dataclass(frozen=True, slots=True)
class Finding:
    """What the runner itself saw of one experiment: whether the target recovered, and whether its pods kept running."""

    experiment: str
    title: str
    recovered_s: float | None
    pods_went_on: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One experiment in the report."""

    experiment: str
    title: str
    target: str
    passed: bool
    evidence: tuple[str, ...]
    recovered_s: float | None
    pods_went_on: bool
    neighbours: dict[str, dict[str, float]]
    over_aim: tuple[str, ...]
    violations: tuple[str, ...]


def rows(
    history: History, baseline: Mapping[str, float], findings: Sequence[Finding], violations: Sequence[Violation]
) -> list[Row]:
    """One row for each requested experiment, whether it ran or not."""
    spans = {span.experiment: span for span in history.spans}
    return [_row(history, baseline, finding, spans.get(finding.experiment), violations) for finding in findings]


def latency_limit(document: Mapping[str, Any]) -> LatencyBound:
    """The bound beyond which a run on an oversubscribed machine fails, from the reviewed file `limits.yaml`."""
    given = document["neighbour_p99"]["limit"]
    return LatencyBound(float(given["factor"]), float(given["allowance_ms"]) / 1000)


def bound_text(idle_cores: float, bound: LatencyBound) -> str:
    """The bound that I4 was judged by, and why."""
    spare = f"{idle_cores:.1f} cores were idle before the first fault; {SPARE_CORES:.0f} or more count as spare"
    said = f"I4: a neighbour's p99 over {bound.factor:g} x its baseline + {bound.allowance * 1000:.0f} ms fails the run"
    return (
        f"{said}: {spare}"
        if bound == AIM
        else f"{said}, and over the design's bound is reported: {spare}: an oversubscribed machine"
    )


def as_json(
    table: Sequence[Row], violations: Sequence[Violation], baseline: Mapping[str, float], idle_cores: float
) -> dict[str, Any]:
    known = {row.experiment for row in table}
    return {
        "passed": bool(table) and all(row.passed for row in table) and not violations,
        "idle_cores": round(idle_cores, 2),
        "judged_by_the_designs_bound": idle_cores >= SPARE_CORES,
        "baseline_p99_ms": {tenant: round(value * 1000, 1) for tenant, value in baseline.items()},
        "experiments": [asdict(row) for row in table],
        "outside_experiments": [asdict(item) for item in violations if item.experiment not in known],
    }


def as_text(table: Sequence[Row], violations: Sequence[Violation]) -> str:
    """A plain table that fits the width of a terminal."""
    head = ("EXPERIMENT", "RESULT", "RECOVERED", "PODS", "NEIGHBOURS (errors, p99 / aim)")
    body = [
        (
            row.title,
            "ok" if row.passed else "FAILED",
            "no" if row.recovered_s is None else f"{row.recovered_s:.1f} s",
            "went on" if row.pods_went_on else "STOPPED",
            ", ".join(
                f"{name} {int(item['errors'])}e {item['p99_ms']:.0f}/{item['aim_ms']:.0f} ms"
                for name, item in row.neighbours.items()
            ),
        )
        for row in table
    ]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in (head, *body)]
    for row in table:
        lines += [f"  {row.experiment}: proof: {text}" for text in row.evidence]
        lines += [f"  {row.experiment}: slower than the aim: {', '.join(row.over_aim)}"] if row.over_aim else []
        lines += [f"  {row.experiment}: VIOLATED {text}" for text in row.violations]
    known = {row.experiment for row in table}
    lines += [
        f"  {item.experiment}: VIOLATED {item.invariant}: {item.text}" for item in violations if item.experiment not in known
    ]
    return "\n".join(lines)


def _row(
    history: History, baseline: Mapping[str, float], finding: Finding, span: Span | None, violations: Sequence[Violation]
) -> Row:
    own = tuple(f"{item.invariant}: {item.text}" for item in violations if item.experiment == finding.experiment)
    proof = tuple(
        item.text
        for item in history.records
        if isinstance(item, Evidence) and item.experiment == finding.experiment and item.proven
    )
    note = (finding.note,) if finding.note else ()
    passed = not own and not note and finding.recovered_s is not None and finding.pods_went_on
    neighbours = {} if span is None else _neighbours(history, baseline, span)
    target = span.target if span else ""
    return Row(
        experiment=finding.experiment,
        title=finding.title,
        target=target,
        passed=passed,
        evidence=proof,
        recovered_s=finding.recovered_s,
        pods_went_on=finding.pods_went_on,
        neighbours=neighbours,
        over_aim=tuple(name for name, item in neighbours.items() if name != HOST and item["p99_ms"] > item["aim_ms"]),
        violations=own + note,
    )


def _neighbours(history: History, baseline: Mapping[str, float], span: Span) -> dict[str, dict[str, float]]:
    result = {}
    for tenant in (*history.tenants, HOST):
        probes = history.probes(tenant, span.begin, span.end)
        if tenant == span.target or not probes or tenant not in baseline:
            continue
        result[tenant] = {
            "requests": float(len(probes)),
            "errors": float(sum(bool(probe.error) for probe in probes)),
            "p50_ms": round(percentile([probe.seconds for probe in probes], 50) * 1000, 1),
            "p99_ms": round(percentile([probe.seconds for probe in probes], 99) * 1000, 1),
            "aim_ms": round(AIM.over(baseline[tenant]) * 1000, 1),
        }
    return result
