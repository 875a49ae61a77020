"""For how long a tenant held devices, as its plane tells its users: lines for a terminal, and documents. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bulkhead.api.ledger import line_name, moment
from bulkhead.api.ownusage import DAYS, DayUse, OwnUsage

_HOUR: Final = 3600.0
_MAX_NAME_CHARS: Final = 253
HEADERS: Final = ("DAY", "DEVICES", "HOURS", "USED", "IDLE", "BORROWED", "BUSY")


def line_of(row: DayUse) -> str:
    """The line of a quota that a row is about."""
    return line_name(row.flavor[:_MAX_NAME_CHARS], row.resource[:_MAX_NAME_CHARS])


def totals(rows: Iterable[DayUse]) -> dict[str, DayUse]:
    """The sums of each line, by its name; their day is empty."""
    found: dict[str, DayUse] = {}
    for row in rows:
        name = line_of(row)
        before = found.get(name, DayUse("", row.resource, row.flavor))
        counts = (getattr(before, part) + getattr(row, part) for part in ("used", "idle", "borrowed", "measured", "busy"))
        found[name] = DayUse("", row.resource, row.flavor, *counts)
    return dict(sorted(found.items()))


def as_json(usage: OwnUsage, *, since: str = "") -> dict[str, Any]:
    """All rows from a day on, in device-seconds."""
    return {
        "until": moment(usage.until),
        "items": [
            {
                "day": row.day,
                "resource": row.resource,
                "flavor": row.flavor,
                "seconds": row.used + row.idle,
                "usedSeconds": row.used,
                "idleSeconds": row.idle,
                "borrowedSeconds": row.borrowed,
                "measuredSeconds": row.measured,
                "busySeconds": row.busy,
            }
            for row in usage.rows
            if row.day >= since
        ],
    }


def cells(row: DayUse) -> list[str]:
    """Held, used, idle, borrowed and busy hours; of what was not measured, 0 would be a claim."""
    hours = (row.used + row.idle, row.used, row.idle, row.borrowed)
    return [*(f"{amount / _HOUR:.2f}" for amount in hours), f"{row.busy / _HOUR:.2f}" if row.measured else "-"]


def table_rows(usage: OwnUsage, *, since: str = "") -> list[tuple[str, ...]]:
    """The rows from a day on, the newest first, and the sums."""
    shown = [row for row in usage.rows if row.day >= since]
    rows = [(row.day, line_of(row), *cells(row)) for row in shown]
    return [*rows, *(("all", name, *cells(total)) for name, total in totals(shown).items())]


def chart(usage: OwnUsage | None, now: float) -> dict[str, Any] | None:
    """What the console's page draws: two weeks of days, in hours; None if nothing is known."""
    if usage is None:
        return None
    first = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=DAYS - 1)
    since = first.date().isoformat()
    rows: dict[tuple[str, str], list[int]] = {}
    for row in usage.rows:
        if row.day >= since:
            held = rows.setdefault((line_of(row), row.day), [0, 0, 0])
            for at, part in enumerate((row.used, row.idle, row.borrowed)):
                held[at] += part
    shown = [row for row in usage.rows if row.day >= since]
    return {
        "until": moment(usage.until),
        "since": moment(first.timestamp()),
        "days": DAYS,
        "rows": [
            {"resource": name, "day": day, "used": used / _HOUR, "idle": idle / _HOUR, "borrowed": lent / _HOUR}
            for (name, day), (used, idle, lent) in sorted(rows.items())
        ],
        "totals": [
            {
                "name": name,
                "held": (total.used + total.idle) / _HOUR,
                "idle": total.idle / _HOUR,
                "busyPercent": round(100 * total.busy / total.measured, 1) if total.measured else None,
            }
            for name, total in totals(shown).items()
        ],
    }
