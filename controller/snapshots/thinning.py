"""Which scheduled snapshots of a plane are deleted: hourly, daily and weekly ones are kept, the last of each. Pure.

    whole ones ──> the last of each of so many hours, days and weeks, and the newest, are kept ──> the rest goes
    failed ones ──> those before the newest whole one go; of later ones the last few stay, as they say what is wrong
    all others ──> stay: they are being taken, or cannot be read

Periods are counted back from the snapshots that there are, and not from now: while none is taken, none is deleted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.conditions import SnapshotReason
from bulkhead.api.untrusted import mapping, text
from controller.plane.sections import Backup
from controller.snapshots.schedule import Plane, reason_of, slot_of

FAILED_KEPT: Final = 3
_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR
# 1970 began with a Thursday, and weeks begin with Monday.
_MONDAY: Final = 3 * _DAY
_WEEK: Final = 7 * _DAY


@dataclass(frozen=True, slots=True)
class Taken:
    """One snapshot that the controller asked for."""

    name: str
    slot: datetime
    reason: str


def of(listed: Iterable[Mapping[str, Any]], plane: Plane) -> tuple[Taken, ...]:
    """The scheduled snapshots of a plane that may be deleted at all."""
    found = []
    for obj in listed:
        meta, moment = mapping(obj.get("metadata")), slot_of(obj, plane)
        kept = mapping(meta.get("labels")).get(labels.KEEP) == "true"
        if moment is not None and not meta.get("deletionTimestamp") and not kept:
            found.append(Taken(text(meta.get("name")), moment, reason_of(obj)))
    return tuple(found)


def surplus(taken: Iterable[Taken], kept: Backup) -> tuple[str, ...]:
    """The names of those that go, the oldest first."""
    taken = sorted(taken, key=lambda one: (one.slot, one.name))
    whole = [one for one in taken if one.reason == SnapshotReason.STORED]
    failed = [one for one in taken if one.reason == SnapshotReason.FAILED]
    newest = whole[-1] if whole else None
    stays = {newest.name} if newest else set()
    for length, shift, number in ((_HOUR, 0, kept.hourly), (_DAY, 0, kept.daily), (_WEEK, _MONDAY, kept.weekly)):
        # A later one replaces an earlier one of the same period, and moves to the end as periods do.
        last = {(int(one.slot.timestamp()) + shift) // length: one.name for one in whole}
        stays |= {last[period] for period in sorted(last)[max(0, len(last) - number) :]}
    later = [one for one in failed if newest is None or one.slot > newest.slot]
    stays |= {one.name for one in later[-FAILED_KEPT:]}
    return tuple(one.name for one in taken if one.name not in stays and one in (*whole, *failed))
