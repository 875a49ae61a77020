"""The report on a plane's scheduled snapshots: whether the last whole one is recent enough. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bulkhead.api.conditions import ConditionType, Reason, find_condition, timestamp
from bulkhead.api.objects import Obj
from controller.tenant.status import Report
from controller.verdict import Verdict

_INTERVALS: Final = 2
_GRACE: Final = timedelta(minutes=15)
# A next look that is later than this comes by itself.
_SOON_SECONDS: Final = 60.0
_PLACE: Final = "set backup.target and backup.recipients of the chart (docs/backup.md)"


@dataclass(frozen=True, slots=True)
class Standing:
    """What was found.

    every: seconds between two snapshots, 0 for no schedule. trouble: why the latest is not whole yet. held: why none is taken
    and none deleted for now.
    """

    every: int
    now: datetime
    last: datetime | None = None
    upcoming: datetime | None = None
    has_place: bool = True
    target: str = ""  # the name of the place; empty for that of the installation
    trouble: str = ""
    held: str = ""


@dataclass(frozen=True, slots=True)
class Made:
    """The report, and the same for metrics, in seconds since 1970."""

    report: Report
    last: float | None = None
    due: float | None = None


def report(tenant: Obj, standing: Standing | None) -> Made:
    """Empty if nothing was found out; without a schedule the condition goes."""
    if standing is None:
        return Made(Report())
    if not standing.every:
        return Made(Report({ConditionType.LAST_SNAPSHOT: None}))
    due = _due(tenant, standing)
    until = (standing.upcoming - standing.now).total_seconds() if standing.upcoming else _SOON_SECONDS
    made = Report(
        conditions={ConditionType.LAST_SNAPSHOT: _verdict(standing, overdue=standing.now >= due)},
        again=max(1.0, until) if until < _SOON_SECONDS else None,
    )
    return Made(made, standing.last.timestamp() if standing.last else None, due.timestamp())


def _verdict(standing: Standing, *, overdue: bool) -> Verdict:
    if not standing.has_place:
        return Verdict(
            "False", Reason.NO_BACKUP_PLACE, f"snapshots are scheduled and cannot be stored: {_place(standing.target)}"
        )
    last = f"the last whole snapshot is of {timestamp(standing.last)}" if standing.last else "there is no whole snapshot yet"
    held = f"; {standing.held}" if standing.held else ""
    why = held or (f"; {standing.trouble}" if standing.trouble else "")
    if overdue:
        return Verdict("False", Reason.BACKUP_OVERDUE, f"{last}, and one was due{why}")
    if standing.last is None:
        return Verdict("Unknown", Reason.PROVISIONING, f"{last}{why}")
    return Verdict("True", Reason.READY, f"{last}{held}")


def _place(target: str) -> str:
    return f"add target {target!r} to backup.targets of the chart, or choose another one (docs/backup.md)" if target else _PLACE


def _due(tenant: Obj, standing: Standing) -> datetime:
    """From when on the next one is overdue. Before the first, that is counted from when it was first awaited."""
    allowed = _INTERVALS * timedelta(seconds=standing.every) + _GRACE
    if standing.last is not None:
        return standing.last + allowed
    found = find_condition((tenant.get("status") or {}).get("conditions") or [], ConditionType.LAST_SNAPSHOT) or {}
    since = found.get("lastTransitionTime")
    if found.get("status") == "True" or not since:
        return standing.now + allowed
    # The condition changed when the first one became overdue, and that must not begin again.
    return datetime.fromisoformat(str(since)) + (timedelta() if found.get("reason") == Reason.BACKUP_OVERDUE else allowed)
