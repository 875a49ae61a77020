"""When the next scheduled snapshot of a plane is due, what it is called, and which object is one. Pure.

    identity ──> offset within the interval ──> slots, one interval apart ──> one name for each plane and slot

Names are deterministic: a decision that is repeated, after a crash or with an outdated cache, asks for the same object. Only
the present slot is asked for, so what was missed while nothing ran is not made up for. The name ends in a part of the
identity, so two planes that had the same tenant's name never have snapshots of one name.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final

from bulkhead.api import labels, names
from bulkhead.api.conditions import SnapshotCondition, SnapshotReason, condition_of
from bulkhead.api.moments import moment_of
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text

FINALIZER: Final = "bulkhead.dev/stored-snapshot"
_TIME: Final = "%Y%m%d-%H%M%S"
_ENDING: Final = re.compile(r"-([0-9]{8}-[0-9]{6})-[0-9a-f]{8}")
_IDENTITY_CHARACTERS: Final = 8


@dataclass(frozen=True, slots=True)
class Plane:
    """Whose snapshots these are."""

    tenant: str
    identity: str


def slot(plane: Plane, every: int, now: datetime) -> datetime:
    """The beginning of the present slot: at most `every` seconds ago."""
    offset = int.from_bytes(hashlib.sha256(plane.identity.encode()).digest()[:8], "big") % every
    seconds = int(now.timestamp())
    return datetime.fromtimestamp(seconds - (seconds - offset) % every, UTC)


def name_of(plane: Plane, moment: datetime) -> str:
    """The name of the snapshot of one slot."""
    return f"{plane.tenant}-{moment.astimezone(UTC):{_TIME}}-{plane.identity[:_IDENTITY_CHARACTERS]}"


def request(plane: Plane, moment: datetime) -> Obj:
    """The TenantSnapshot of one slot. Its finalizer keeps it until what is stored of it is deleted."""
    meta = {
        "name": name_of(plane, moment),
        "labels": labels.made_for(plane.tenant) | {labels.SCHEDULED: plane.identity},
        "finalizers": [FINALIZER],
    }
    return {"apiVersion": names.API_VERSION, "kind": "TenantSnapshot", "metadata": meta, "spec": {"tenant": plane.tenant}}


def slot_of(obj: Mapping[str, Any], plane: Plane) -> datetime | None:
    """The slot of a snapshot that the controller asked for; None for any other, whatever its labels say."""
    meta = mapping(obj.get("metadata"))
    if mapping(meta.get("labels")).get(labels.SCHEDULED) != plane.identity:
        return None
    if mapping(obj.get("spec")).get("tenant") != plane.tenant:
        return None
    name = text(meta.get("name"))
    found = _ENDING.fullmatch(name.removeprefix(plane.tenant))
    try:
        moment = datetime.strptime(found[1], _TIME).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None
    return moment if moment is not None and name_of(plane, moment) == name else None


def has_finalizer(obj: Mapping[str, Any]) -> bool:
    """Whether an object waits for what is stored of it."""
    return FINALIZER in (mapping(obj.get("metadata")).get("finalizers") or ())


def reason_of(obj: Mapping[str, Any]) -> str:
    """How far a snapshot is; empty if that cannot be read."""
    found = condition_of(obj, SnapshotCondition.COMPLETE)
    reason = text(found.get("reason"))
    if reason == SnapshotReason.STORED and found.get("status") != "True":
        return ""
    return reason


def covers(obj: Mapping[str, Any], identity: str) -> datetime | None:
    """The moment from which on a whole snapshot of this plane lacks what was written; None if it is not one."""
    status = mapping(obj.get("status"))
    if reason_of(obj) != SnapshotReason.STORED or status.get("identity") != identity:
        return None
    return moment_of(status.get("startTime") or status.get("completionTime"))


def trouble(listed: Iterable[Mapping[str, Any]], plane: Plane) -> str:
    """Why the latest scheduled one is not whole; empty if it is, or nothing is reported of it."""
    found = max(
        ((moment, obj) for obj in listed if (moment := slot_of(obj, plane)) is not None), key=itemgetter(0), default=None
    )
    if found is None or reason_of(found[1]) == SnapshotReason.STORED:
        return ""
    return text(condition_of(found[1], SnapshotCondition.COMPLETE).get("message"))
