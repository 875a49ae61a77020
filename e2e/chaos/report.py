"""The findings of a chaos run, as a printed table, as chaos.json and as JUnit's XML. Pure."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree as ET

from e2e.chaos.history import History
from e2e.chaos.invariants import AIM, SPARE_CORES, TITLES, LatencyBound
from e2e.chaos.judgement import Judgement
from e2e.chaos.rows import Row, outside, totals

_NAMES_IN_A_CELL = 4


def latency_limit(document: Mapping[str, Any]) -> LatencyBound:
    """The bound beyond which a run on an oversubscribed machine fails, from the reviewed file `limits.yaml`."""
    given = document["neighbour_p99"]["limit"]
    return LatencyBound(float(given["factor"]), float(given["allowance_ms"]) / 1000)


def bound_text(idle_cores: float, bound: LatencyBound) -> str:
    """The bound that I4 and I5 were judged by, and why."""
    spare = f"{idle_cores:.1f} cores were idle before the first fault; {SPARE_CORES:.0f} or more count as spare"
    text = f"I4, I5: a neighbour's p99 over {bound.factor:g} x its baseline + {bound.allowance * 1000:.0f} ms fails the run"
    return (
        f"{text}: {spare}"
        if bound == AIM
        else f"{text}, and over the design's bound is reported: {spare}: an oversubscribed machine"
    )


def as_json(judgement: Judgement) -> dict[str, Any]:
    run, table = judgement.run, judgement.rows
    return {
        "passed": judgement.passed,
        "started": run.started,
        "seed": run.seed,
        "tenants": list(run.tenants),
        "cores": run.cores,
        "idle_cores": round(run.idle_cores, 2),
        "slower": run.slower,
        "judged_by_the_designs_bound": judgement.bound == AIM,
        "machine_slower": {name: round(times, 2) for name, times in judgement.slower.items()},
        "baseline_p99_ms": {tenant: round(value * 1000, 1) for tenant, value in judgement.baseline.items()},
        "others": totals(table),
        "experiments": [asdict(row) for row in table],
        "left_out": [{"experiment": item.experiment, "reason": item.reason} for item in judgement.left_out],
        "invariants": {
            name: {"title": title, "violations": [asdict(item) for item in judgement.violations if item.invariant == name]}
            for name, title in TITLES.items()
        },
        "outside_experiments": [asdict(item) for item in outside(table, judgement.violations)],
    }


def as_text(judgement: Judgement) -> str:
    """A plain table that fits the width of a terminal."""
    table, violations = judgement.rows, judgement.violations
    head = ("EXPERIMENT", "RESULT", "RECOVERED", "PODS", "OTHERS (errors; worst p99 / aim)")
    body = [
        (
            row.title,
            "ok" if row.passed else "FAILED",
            "no" if row.recovered_s is None else f"{row.recovered_s:.1f} s",
            "went on" if row.pods_went_on else "STOPPED",
            _others(row),
        )
        for row in table
    ]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in (head, *body)]
    for row in table:
        lines += [f"  {row.experiment}: proof: {text}" for text in row.evidence]
        lines += [f"  {row.experiment}: slower than the aim: {', '.join(row.over_aim)}"] if row.over_aim else []
        lines += [f"  {row.experiment}: slow for a moment, and not when it was made once more: {text}" for text in row.moments]
        lines += [f"  {row.experiment}: VIOLATED {text}" for text in row.violations]
    lines += [f"  {item.experiment}: VIOLATED {item.invariant}: {item.text}" for item in outside(table, violations)]
    lines += [f"  {item.experiment}: left out: {item.reason}" for item in judgement.left_out]
    lines += [
        f"  {name}: the machine took {times:.1f} times the CPU time of the baseline for the same work"
        for name, times in judgement.slower.items()
    ]
    sums = totals(table)
    failed = f"{sums['failed_work']} of {sums['work']} pods, watches and jobs failed"
    lines.append(f"others: {sums['errors']} of {sums['requests']} requests and {failed}")
    return "\n".join(lines)


def as_junit(judgement: Judgement) -> str:
    """One test case for each experiment, and one for each invariant outside them."""
    beyond = outside(judgement.rows, judgement.violations)
    suite = ET.Element("testsuite", name="chaos", timestamp=judgement.run.started)
    for row in judgement.rows:
        case = ET.SubElement(suite, "testcase", classname="chaos.experiments", name=row.experiment)
        case.set("time", f"{_seconds(judgement.history, row.experiment):.1f}")
        if not row.passed:
            problems = row.violations or _problems(row)
            ET.SubElement(case, "failure", message=problems[0][:200]).text = "\n".join(problems)
    for item in judgement.left_out:
        case = ET.SubElement(suite, "testcase", classname="chaos.experiments", name=item.experiment)
        ET.SubElement(case, "skipped", message=item.reason[:200])
    for name, title in TITLES.items():
        case = ET.SubElement(suite, "testcase", classname="chaos.invariants", name=f"{name} {title}")
        texts = [f"{item.experiment}: {item.text}" for item in beyond if item.invariant == name]
        if texts:
            ET.SubElement(case, "failure", message=texts[0][:200]).text = "\n".join(texts)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(judgement.left_out)))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _others(row: Row) -> str:
    errors = [f"{name} {item.errors}" for name, item in row.neighbours.items() if item.errors]
    worst = sorted(row.neighbours.items(), key=lambda item: item[1].p99_ms / item[1].aim_ms, reverse=True)
    slow = ", ".join(f"{name} {item.p99_ms:.0f}/{item.aim_ms:.0f}" for name, item in worst[:2])
    listed = ", ".join(errors[:_NAMES_IN_A_CELL]) + (", …" if len(errors) > _NAMES_IN_A_CELL else "")
    return f"{listed or 'none'}; {slow} ms"


def _problems(row: Row) -> tuple[str, ...]:
    found = () if row.recovered_s is not None else ("the target did not recover",)
    return found if row.pods_went_on else (*found, "pods of the target that were to keep running did not")


def _seconds(history: History, experiment: str) -> float:
    return next((span.end - span.begin for span in history.spans if span.experiment == experiment), 0.0)
