"""How long a tenant held devices, by day, as its plane shows it: what the controller metered, in the format of two places.

    controller: two weeks' sums ──> annotation of `tenant-quota` on the host ──syncer──> `usage.json` of the plane's ConfigMap

    {"until": "2026-…Z", "rows": [["2026-11-26", "nvidia.com/gpu", "h100", 7200, 600, 0, 3600, 1800], …]}

A row has its day (in UTC), resource and flavor, then device-seconds: used, idle, borrowed (a part of both), measured, and busy
(a part of measured). The newest day comes first. Only a picture: bills are made from the host's own pages. The tenant may write
its object too, so what is read here is checked again. Pure.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.ledger import moment, seconds
from bulkhead.api.untrusted import mapping, sequence, text

# On the host's ResourceQuota `tenant-quota`, written by the controller.
ANNOTATION: Final = "bulkhead.dev/device-hours"
# The key of the plane's ConfigMap.
FILE: Final = "usage.json"
DAYS: Final = 14
MAX_ROWS: Final = 128
MAX_BYTES: Final = 16 * 1024
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LONGEST_NAME: Final = 317
_LARGEST: Final = 1 << 53
_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class DayUse:
    """What the tenant held of one resource, or one flavor of it, on one day, in device-seconds."""

    day: str
    resource: str
    flavor: str
    # While a container ran, and while nothing had started.
    used: int = 0
    idle: int = 0
    # The part of both that was lent by others.
    borrowed: int = 0
    # For how long the devices' utilisation is known, and that time multiplied by the utilisation.
    measured: int = 0
    busy: int = 0


@dataclass(frozen=True, slots=True)
class OwnUsage:
    """Everything that the text holds."""

    # Everything before this moment is counted, in seconds since 1970.
    until: float
    rows: tuple[DayUse, ...] = ()


def write(usage: OwnUsage) -> str:
    """The text of the annotation and of the file; days that do not fit are left out, the oldest first."""
    rows = [[getattr(row, name) for name in DayUse.__slots__] for row in _newest(usage.rows)][:MAX_ROWS]
    while True:
        written = json.dumps({"until": moment(usage.until), "rows": rows}, separators=(",", ":"))
        if len(written) <= MAX_BYTES:
            return written
        rows = rows[: len(rows) // 2]


def read(written: Any) -> OwnUsage | None:
    """What a text says; None if it cannot be read. Rows that no controller can have written are left out."""
    if not isinstance(written, str) or not written or len(written) > MAX_BYTES:
        return None
    try:
        found = mapping(json.loads(written))
    except (ValueError, RecursionError):
        return None
    until = seconds(found.get("until"))
    if until is None:
        return None
    return OwnUsage(until, tuple(row for item in sequence(found.get("rows"))[:MAX_ROWS] for row in _row(sequence(item))))


def of_config_map(config_map: Mapping[str, Any]) -> OwnUsage | None:
    """What the plane's ConfigMap says; None if it says nothing that can be read."""
    return read(mapping(config_map.get("data")).get(FILE))


def _newest(rows: Iterable[DayUse]) -> list[DayUse]:
    ordered = sorted(rows, key=lambda row: (row.resource, row.flavor))
    return sorted(ordered, key=lambda row: row.day, reverse=True)


def _row(item: Any) -> Iterator[DayUse]:
    if len(item) != len(DayUse.__slots__):
        return
    day, resource, flavor = (text(part) for part in item[:_NAMES])
    counts = item[_NAMES:]
    if not _DAY.fullmatch(day) or not resource or len(resource) > _LONGEST_NAME or len(flavor) > _LONGEST_NAME:
        return
    if not isinstance(item[2], str) or not all(type(count) is int and 0 <= count <= _LARGEST for count in counts):
        return
    used, idle, borrowed, measured, busy = counts
    if borrowed <= used + idle and busy <= measured:
        yield DayUse(day, resource, flavor, used, idle, borrowed, measured, busy)
