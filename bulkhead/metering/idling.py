"""Which accounts hold devices that are not at work, by the utilisation that was measured of them. Pure.

An account idles in an hour if its devices were measured for most of the time that it held them, and were busy for less than
5 % of that. It is named once it has idled for a whole hour of the clock and still holds devices. What was not measured idles
neither way: it is reported apart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bulkhead.metering.meter import HOUR, UsageKey
from bulkhead.metering.usagebook import Sums

BELOW: Final = 0.05
# Of the held time; a pod's first minute is not measured, nor what a restart of the source takes.
MEASURED_PART: Final = 0.8
# So long after the beginning of an hour its own sums say nothing yet.
_YOUNG: Final = 180_000


@dataclass(frozen=True, slots=True)
class Idle:
    """An account that idles: devices on average, their utilisation (0 to 1) in the last whole hour, and for how many hours."""

    account: UsageKey
    devices: float
    utilisation: float
    hours: int


@dataclass(frozen=True, slots=True)
class Idling:
    """Accounts that idle, those with the most devices first; and those that hold devices of which too little was measured."""

    idle: tuple[Idle, ...]
    unmeasured: tuple[UsageKey, ...]


def idling(rows: Iterable[tuple[int, UsageKey, Sums]], now: int) -> Idling:
    """Judge the last whole hour before `now`, in milliseconds since 1970."""
    hours: dict[int, dict[UsageKey, Sums]] = {}
    for hour, account, sums in rows:
        accounts = hours.setdefault(hour, {})
        accounts[account] = accounts.get(account, Sums()).plus(sums)
    this = now // HOUR
    present = hours.get(this, {})
    found: list[Idle] = []
    unmeasured: list[UsageKey] = []
    for account, sums in hours.get(this - 1, {}).items():
        held, latest = sums.used + sums.idle, present.get(account, Sums())
        if not held or (now % HOUR > _YOUNG and not latest.used + latest.idle):
            continue
        if sums.measured < MEASURED_PART * held:
            unmeasured.append(account)
        elif _idles(sums) and (not latest.measured or latest.busy < BELOW * latest.measured):
            found.append(Idle(account, held / HOUR, sums.busy / sums.measured, _streak(hours, account, this - 1)))
    return Idling(tuple(sorted(found, key=lambda one: (-one.devices, one.account))), tuple(sorted(unmeasured)))


def _idles(sums: Sums) -> bool:
    held = sums.used + sums.idle
    return held > 0 and sums.measured >= MEASURED_PART * held and sums.busy < BELOW * sums.measured


def _streak(hours: Mapping[int, Mapping[UsageKey, Sums]], account: UsageKey, last: int) -> int:
    hour = last
    while _idles(hours.get(hour, {}).get(account, Sums())):
        hour -= 1
    return last - hour
