"""Prints the findings of preflight and doctor: a table, then cause and cure of what is wrong."""

import sys
from typing import Final

from workstation.cli.output import plain, table
from workstation.preflight.findings import Checked, Report, State, shortened

_SHOWN: Final = {State.OK: "ok", State.WARNING: "warning", State.FAILED: "FAILED", State.SKIPPED: "skipped"}
_WORST_FIRST: Final = (State.FAILED, State.WARNING, State.SKIPPED, State.OK)


def show(report: Report, *, worst_first: bool = False) -> None:
    """Print a report. `worst_first` sorts the checks by their result; otherwise they keep their order."""
    checks = worst(report) if worst_first else report.checks
    table(
        ("CHECK", "RESULT", "FINDING"),
        [(checked.check, _SHOWN[checked.finding.state], checked.finding.cause) for checked in checks],
    )
    for checked in checks:
        if checked.finding.state not in {State.FAILED, State.WARNING}:
            continue
        print(f"\n{_SHOWN[checked.finding.state]}: {checked.title} ({checked.check})")
        print(f"  cause: {plain(checked.finding.cause, 600)}")
        for detail in shortened(checked.finding.details):
            print(f"    - {plain(detail, 600)}")
        print(f"  cure:  {plain(checked.finding.cure, 600)}")
    print(f"\n{', '.join(f'{report.count(state)} {_SHOWN[state]}' for state in State)}; {report.seconds:.0f} s")
    for namespace in report.swept:
        sys.stderr.write(f"removed {plain(namespace)}, which an interrupted run had left\n")
    for left in report.left:
        sys.stderr.write(f"warning: not removed: {plain(left)}\n")


def worst(report: Report) -> tuple[Checked, ...]:
    """The checks with the worst result first; within one result they keep their order."""
    return tuple(sorted(report.checks, key=lambda checked: _WORST_FIRST.index(checked.finding.state)))
