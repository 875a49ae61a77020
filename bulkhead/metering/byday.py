"""Sums of metered usage by tenant and day, for what a tenant sees of its own. Pure.

pages ──> sums_by_day, once for a page that is closed ──> merged ──> OwnUsage of each tenant
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from typing import Final, NamedTuple, TypeAlias

from bulkhead.api.ownusage import DAYS, DayUse, OwnUsage
from bulkhead.metering.meter import HOUR
from bulkhead.metering.usagebook import Page, Sums

_SECOND: Final = 1000
_HOURS: Final = 24
_EPOCH: Final = date(1970, 1, 1).toordinal()


class DayLine(NamedTuple):
    """What one sum is about; `day` counts from 1970."""

    tenant: str
    day: int
    resource: str
    flavor: str
    # The UID of the tenant that had the name; "" if the page does not say it.
    holder: str = ""


ByDay: TypeAlias = Mapping[DayLine, Sums]


def first_day(now: int) -> int:
    """The first day that is shown at `now`, in milliseconds since 1970."""
    return now // (_HOURS * HOUR) - DAYS + 1


def sums_by_day(page: Page) -> ByDay:
    """The sums of one page, without namespaces and owners."""
    found: dict[DayLine, Sums] = {}
    for hour, rows in page.hours.items():
        for account, sums in rows.items():
            holder = page.holders.get(account.tenant, "")
            line = DayLine(account.tenant, hour // _HOURS, account.resource, account.flavor, holder)
            found[line] = found.get(line, Sums()).plus(sums)
    return found


def own_usages(parts: Iterable[ByDay], until: int, present: Mapping[str, str]) -> dict[str, OwnUsage]:
    """What each tenant held on the days that are shown; nothing of a tenant that held nothing. `until` in milliseconds.

    `present` has the UIDs of the tenants that have the names now: nothing is shown that is known to be another's.
    """
    since, merged = first_day(until), dict[DayLine, Sums]()
    for part in parts:
        for found, sums in part.items():
            is_its_own = found.holder in {"", present.get(found.tenant, found.holder)}
            if found.day >= since and sums.used + sums.idle and is_its_own:
                line = found._replace(holder="")
                merged[line] = merged.get(line, Sums()).plus(sums)
    rows: dict[str, list[DayUse]] = {}
    for line, sums in merged.items():
        rows.setdefault(line.tenant, []).append(_row(line, sums))
    return {tenant: OwnUsage(until / _SECOND, tuple(listed)) for tenant, listed in rows.items()}


def of_present(usage: OwnUsage, made: str) -> OwnUsage:
    """Without what a former tenant of the name held. `made` is the day on which the present one was made, as 2026-06-01.

    Of pages that do not say who had the name. A day that both had cannot be told apart there, and is left out; a former one
    that held something on that day alone is not noticed.
    """
    former = any(row.day < made for row in usage.rows)
    return replace(usage, rows=tuple(row for row in usage.rows if row.day > made or (row.day == made and not former)))


def _row(line: DayLine, sums: Sums) -> DayUse:
    used, idle, borrowed = (part // _SECOND for part in sums[:3])
    measured = sums.measured // _SECOND
    return DayUse(
        day=date.fromordinal(_EPOCH + line.day).isoformat(),
        resource=line.resource,
        flavor=line.flavor,
        used=used,
        idle=idle,
        # Each is rounded by itself, and a part is no more than the whole.
        borrowed=min(borrowed, used + idle),
        measured=measured,
        busy=min(sums.busy // _SECOND, measured),
    )
