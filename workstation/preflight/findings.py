"""What a check says, and the shape of the report. Pure.

The report names every check every time, also those that could not be made: a script may rely on finding each of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

REPORT_VERSION: Final = "bulkhead.dev/preflight/v1"
_TEXT_LIMIT: Final = 600
_DETAILS: Final = 20


class State(StrEnum):
    """What a check found."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's answer: what is so, and what to do about it; `details` name the objects where there are several."""

    state: State
    cause: str
    cure: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """A finding under its check's name."""

    check: str
    title: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run found."""

    server: str
    seconds: float
    checks: tuple[Checked, ...]
    left: tuple[str, ...] = ()  # what of the run is still on the cluster, which is being removed
    swept: tuple[str, ...] = ()  # namespaces of runs that were killed, which this one removed

    def count(self, state: State) -> int:
        """How many checks ended so."""
        return sum(each.finding.state == state for each in self.checks)

    @property
    def state(self) -> State:
        """The worst of all findings; what was skipped does not count."""
        return next((each for each in (State.FAILED, State.WARNING) if self.count(each)), State.OK)


def ok(cause: str, *details: str) -> Finding:
    """All is well."""
    return Finding(State.OK, cause, details=details)


def warning(cause: str, cure: str, details: Iterable[str] = ()) -> Finding:
    """Bulkhead can be installed, and something about it will not be as it should."""
    return Finding(State.WARNING, cause, cure, tuple(details))


def failed(cause: str, cure: str, details: Iterable[str] = ()) -> Finding:
    """Bulkhead would not work here, or would not keep tenants apart."""
    return Finding(State.FAILED, cause, cure, tuple(details))


def skipped(reason: str, cure: str = "") -> Finding:
    """The check could not be made."""
    return Finding(State.SKIPPED, reason, cure)


def document(report: Report) -> Mapping[str, Any]:
    """The report as plain data. What the cluster wrote is cut to length; control characters are the printer's to escape."""
    return {
        "apiVersion": REPORT_VERSION,
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
    """Text of bounded length."""
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"
