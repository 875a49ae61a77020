"""The schedule of a tenant's snapshots: what its class allows, and what applies. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from bulkhead.api import durations
from bulkhead.api.backup import DAILY, FORBIDDEN, HOURLY, WEEKLY
from controller.plane.sections import Backup
from controller.sections import section_of

Section: TypeAlias = Mapping[str, Any]
_KEPT: Final = {"hourly": HOURLY, "daily": DAILY, "weekly": WEEKLY}


def backup_of(merged: Section) -> Backup:
    """What applies, from the Tenant's section over its class's. A schedule that cannot be read does not count."""
    every, clones = durations.seconds(merged.get("schedule")) or 0, merged.get("clones") != FORBIDDEN
    return Backup(every_seconds=every, clones=clones, target=str(merged.get("target") or ""), **_kept(merged))


def beyond(asked: Section, offer: Section) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Each field that exceeds the class: its path in the section, the message, and the part that the class allows."""
    wanted = asked.get("schedule")
    if wanted:
        shortest = offer.get("shortestSchedule") or offer.get("schedule")
        least, seconds = durations.seconds(shortest), durations.seconds(wanted)
        if not least:
            yield (
                ("schedule",),
                f"spec.backup.schedule: {wanted}, but the class takes no snapshots by itself; leave it out",
                None,
            )
        elif not seconds or seconds < least:
            yield ("schedule",), f"spec.backup.schedule: {wanted} is shorter than the {shortest} of the class", None
    target, offered = asked.get("target"), [offer.get("target"), *(offer.get("targets") or ())]
    if target and target not in offered:
        names = ", ".join(str(name) for name in offered if name)
        words = f"is not one of the class's: {names}" if names else "and the class offers none by name; leave it out"
        yield ("target",), f"spec.backup.target: {target} {words}", None
    for field, most in _kept(offer).items():
        number = section_of(asked, "retention").get(field)
        if number is not None and int(number) > most:
            message = f"spec.backup.retention.{field}: {number} is more than the {most} of the class"
            yield ("retention", field), message, most


def _kept(section: Section) -> dict[str, int]:
    chosen = section_of(section, "retention")
    return {field: usual if chosen.get(field) is None else int(chosen[field]) for field, usual in _KEPT.items()}
