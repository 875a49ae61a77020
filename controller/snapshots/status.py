"""What a TenantSnapshot reports while it is taken, and when it is finished. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bulkhead.api.conditions import (
    SnapshotCondition,
    SnapshotReason,
    Status,
    conditions_of,
    find_condition,
    timestamp,
    with_condition,
)
from bulkhead.api.objects import Obj
from bulkhead.snapshots.manifest import Manifest

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt is."""

    attempt: int = 1
    store: int = 0  # bytes of the store; 0 until etcd reports it
    stored: int = 0
    place: str = ""  # the name of the target; empty for that of the installation


def finished(request: Obj) -> bool:
    """Whether a TenantSnapshot needs nothing more: it is whole, or will not be taken."""
    found = find_condition(conditions_of(request), SnapshotCondition.COMPLETE)
    return found is not None and found.get("reason") in {str(SnapshotReason.STORED), str(SnapshotReason.FAILED)}


def waiting(request: Obj, why: str, now: datetime) -> Obj:
    """It waits for a place, or for a tenant."""
    return {"conditions": _set(request, "Unknown", SnapshotReason.WAITING, why, now)}


def running(request: Obj, progress: Progress, now: datetime) -> Obj:
    """It is being taken."""
    of = f" of {progress.store / _MIB:.1f} MiB" if progress.store else ""
    message = f"{progress.stored / _MIB:.1f}{of or ' MiB'} are stored"
    started = (request.get("status") or {}).get("startTime") or timestamp(now)
    return {
        "conditions": _set(request, "Unknown", SnapshotReason.RUNNING, message, now),
        "startTime": started,
        "attempts": progress.attempt,
        "storedBytes": progress.stored,
        **({"storeBytes": progress.store} if progress.store else {}),
        # A target that was recorded before is replaced, also by that of the installation.
        "target": progress.place or None,
    }


def retrying(request: Obj, attempt: int, why: str, seconds: float, now: datetime) -> Obj:
    """An attempt failed."""
    message = f"attempt {attempt} failed, and the next one follows in {seconds:.0f} s: {why}"
    return {"conditions": _set(request, "Unknown", SnapshotReason.RETRYING, message, now), "attempts": attempt}


def failed(request: Obj, why: str, now: datetime) -> Obj:
    """It will not be taken."""
    return {"conditions": _set(request, "False", SnapshotReason.FAILED, why, now)}


def removing(request: Obj, why: str, now: datetime) -> Obj:
    """Its object is deleted, and what is stored of it cannot be for now."""
    return {"conditions": _set(request, "Unknown", SnapshotReason.REMOVING, f"what is stored stays for now: {why}", now)}


def stored(request: Obj, made: Manifest, location: str, now: datetime) -> Obj:
    """It is whole."""
    plain = made.parts["etcd.age"].plain
    message = f"{plain / _MIB:.1f} MiB of the store, and the keys, are at {location}"
    started = (request.get("status") or {}).get("startTime") or made.created
    return {
        "conditions": _set(request, "True", SnapshotReason.STORED, message, now),
        "identity": made.identity,
        "location": location,
        # What an earlier controller stored lacks what was written since then.
        "startTime": min(started, made.created),
        "storeBytes": plain,
        "storedBytes": made.size,
        "completionTime": timestamp(now),
    }


def _set(request: Obj, status: Status, reason: SnapshotReason, message: str, now: datetime) -> list[Obj]:
    return with_condition(request, SnapshotCondition.COMPLETE, status, reason, message, now=now)
