"""The result of a check, and the shape of the report. Pure.

The report always contains every check, including skipped ones, so that a script can rely on each of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

REPORT_VERSION: Final = "bulkhead.dev/preflight/v1"
_TEXT_LIMIT: Final = 600
_DETAILS: Final = 20


class State(StrEnum):
    """The state of a check's result."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: the cause, and the cure; `details` name the objects if there are several."""

    state: State
    cause: str
    cure: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """A finding with the name of its check."""

    check: str
    title: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Report:
    """All results of a run."""

    server: str
    seconds: float
    checks: tuple[Checked, ...]
    left: tuple[str, ...] = ()  # objects of the run that are still on the cluster, and are being deleted
    swept: tuple[str, ...] = ()  # namespaces of earlier runs that were killed, which this run removed
    version: str = REPORT_VERSION  # of the report's shape: doctor's has another name

    def count(self, state: State) -> int:
        """The number of checks with this state."""
        return sum(checked.finding.state == state for checked in self.checks)

    @property
    def state(self) -> State:
        """The worst state of all findings; skipped checks do not count."""
        return next((state for state in (State.FAILED, State.WARNING) if self.count(state)), State.OK)


def ok(cause: str, *details: str) -> Finding:
    """The check succeeded."""
    return Finding(State.OK, cause, details=details)


def warning(cause: str, cure: str, details: Iterable[str] = ()) -> Finding:
    """Bulkhead can be installed, but a part of it will not work as it should."""
    return Finding(State.WARNING, cause, cure, tuple(details))


def failed(cause: str, cure: str, details: Iterable[str] = ()) -> Finding:
    """Bulkhead would not work here, or would not isolate tenants."""
    return Finding(State.FAILED, cause, cure, tuple(details))


def skipped(reason: str, cure: str = "") -> Finding:
    """The check could not be made."""
    return Finding(State.SKIPPED, reason, cure)


def document(report: Report) -> Mapping[str, Any]:
    """The report as plain data. Texts of the cluster are cut to a limit; the printer escapes control characters."""
    return {
        "apiVersion": report.version,
        "server": report.server,
        "seconds": round(report.seconds, 1),
        "state": str(report.state),
        "counts": {str(state): report.count(state) for state in State},
        "checks": [
            {
                "check": each.check,
                "title": each.title,
                "state": str(each.finding.state),
                "cause": cut(each.finding.cause),
                "cure": cut(each.finding.cure),
                "details": [cut(detail) for detail in shortened(each.finding.details)],
            }
            for each in report.checks
        ],
        "left": list(report.left),
        "swept": list(report.swept),
    }


def shortened(details: tuple[str, ...]) -> list[str]:
    """The first details, and how many more there are."""
    more = len(details) - _DETAILS
    return [*details[:_DETAILS], *([f"and {more} more"] if more > 0 else [])]


def cut(text: str) -> str:
    """The text, cut to a limit."""
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"
