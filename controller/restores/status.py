"""What a TenantRestore reports. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bulkhead.api.conditions import (
    RestoreCondition,
    RestoreReason,
    Status,
    conditions_of,
    find_condition,
    timestamp,
    with_condition,
)
from bulkhead.api.objects import Obj
from bulkhead.api.tenantrestore import MOST_NAMED
from bulkhead.snapshots.manifest import Manifest
from controller.restores.decide import Step

_SHOWN: Final = 5
_NAME_CHARACTERS: Final = 600
_ENDED: Final = frozenset({str(RestoreReason.RESTORED), str(RestoreReason.FAILED)})


def finished(request: Obj) -> bool:
    """Whether a TenantRestore needs nothing more."""
    return _complete(request).get("reason") in _ENDED


def clone_of(request: Obj) -> str:
    """The Tenant of which this one becomes a clone; empty if the snapshot is its own."""
    return str((request.get("spec") or {}).get("cloneOf") or "")


def succeeded(request: Obj) -> bool:
    """Whether the plane has run with the snapshot's data."""
    return _complete(request).get("reason") == str(RestoreReason.RESTORED)


def began(request: Obj) -> datetime | None:
    """When the plane was told to stop; None if it was not."""
    return _moment(request, "startTime")


def asked(request: Obj) -> datetime:
    """When an admin asked for it."""
    return datetime.fromisoformat(str(request["metadata"]["creationTimestamp"]))


def filled(request: Obj) -> datetime | None:
    """When every volume was filled; None if that is not recorded."""
    return _moment(request, "filledTime")


def bump_of(request: Obj) -> int | None:
    """By how much revisions are raised; None if that is not recorded yet."""
    found = (request.get("status") or {}).get("bump")
    return int(found) if isinstance(found, int) else None


def waiting(request: Obj, why: str, now: datetime) -> Obj:
    """It waits."""
    return {"conditions": _set(request, "Unknown", RestoreReason.WAITING, why, now)}


def failed(request: Obj, why: str, now: datetime) -> Obj:
    """Nothing was replaced."""
    return {"conditions": _set(request, "False", RestoreReason.FAILED, why, now)}


def at_work(request: Obj, found: Manifest, step: Step, now: datetime) -> Obj:
    """It has begun. From the start on, the condition also says why the comparison is tried again (`comparing`): it stays."""
    reason, message = MESSAGES[step]
    stays = step is Step.START and _complete(request).get("reason") == str(reason)
    return {
        "conditions": conditions_of(request) if stays else _set(request, "Unknown", reason, message, now),
        "identity": found.identity,
        "snapshot": found.snapshot,
        "snapshotTime": found.created,
    }


MESSAGES: Final = {
    Step.AWAIT_KEYS: (
        RestoreReason.WAITING,
        "for the keys of the snapshot, which `bulkhead tenant restore` brings; the plane is not touched yet",
    ),
    Step.STOP: (RestoreReason.STOPPING, "the plane and its syncer stop; the tenant's pods run on"),
    Step.PREPARE: (RestoreReason.STOPPING, "the plane is stopped; keys and volumes are made ready"),
    Step.FILL: (RestoreReason.FILLING, "the volumes wait for the store, which `bulkhead tenant restore` sends"),
    Step.FILLED: (RestoreReason.STARTING, "the volumes have the snapshot's data; plane and syncer start"),
    Step.START: (RestoreReason.STARTING, "the volumes have the snapshot's data; plane and syncer start"),
    Step.COMPARE: (RestoreReason.STARTING, "the plane answers; the host's objects are compared with it"),
}

_AGAIN: Final = f"{MESSAGES[Step.COMPARE][1]}; tried again after:"


@dataclass(frozen=True, slots=True)
class Compared:
    """What the host has and the snapshot does not know, as `pod default/name`.

    trouble: why that is not certain. passing: whether another try may find it out.
    """

    unknown: Sequence[str] = ()
    trouble: str = ""
    passing: bool = False

    @property
    def clean(self) -> bool:
        """Whether the syncer may go on without an admin."""
        return not self.unknown and not self.trouble


def comparing(request: Obj, trouble: str, now: datetime) -> Obj:
    """The comparison is tried again. The first trouble stays: each change of the condition causes a reconcile at once."""
    if message_of(request).startswith(_AGAIN):
        return {"conditions": conditions_of(request)}
    return {"conditions": _set(request, "Unknown", MESSAGES[Step.COMPARE][0], f"{_AGAIN} {trouble}", now)}


def message_of(request: Obj) -> str:
    """What the condition says."""
    return str(_complete(request).get("message") or "")


def restored(request: Obj, found: Manifest, compared: Compared, now: datetime) -> Obj:
    """The plane runs with the snapshot's data."""
    tenant, unknown = str(request["spec"]["tenant"]), list(compared.unknown)
    message = f"the plane runs with snapshot {found.snapshot} of {found.created}; "
    after = f"to continue, which ends them: bulkhead tenant accept-data {tenant}"
    if of := clone_of(request):
        message = f"the clone of {of} runs with snapshot {found.snapshot} of {found.created}"
    elif unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        message += f"objects of the host that it does not know: {len(unknown)} ({', '.join(unknown[:_SHOWN])}{more}); {after}"
    elif compared.trouble:
        message += f"the host's objects were not compared with it ({compared.trouble}); look at them, and {after}"
    else:
        message += "it knows everything that the host has of the tenant"
    return {
        "conditions": _set(request, "True", RestoreReason.RESTORED, message, now),
        "completionTime": timestamp(now),
        "unknown": [name[:_NAME_CHARACTERS] for name in unknown[:MOST_NAMED]],
        "unknownCount": len(unknown),
    }


def _complete(request: Obj) -> Mapping[str, Any]:
    return find_condition(conditions_of(request), RestoreCondition.COMPLETE) or {}


def _set(request: Obj, status: Status, reason: RestoreReason, message: str, now: datetime) -> list[Obj]:
    return with_condition(request, RestoreCondition.COMPLETE, status, reason, message, now=now)


def _moment(request: Obj, field: str) -> datetime | None:
    found = (request.get("status") or {}).get(field)
    return datetime.fromisoformat(str(found)) if found else None
