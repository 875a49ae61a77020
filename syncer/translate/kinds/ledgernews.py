"""The ledger's verdicts on a host pod, as the tenant reads them on the virtual pod. Pure.

    at the gate, judged          PodScheduled=False with the verdict's reason and message instead of the host's SchedulingGated
    at the gate, not judged yet  as the host says: SchedulingGated
    over a lowered quota         announced by an event: what becomes of it
    to be taken back             announced by an event: why, and until when
    taken back                   DisruptionTarget=True with the cause, beside what the host says

Only the ledger writes them, which the host's admission policies enforce. They are limited in size and checked here all the
same; the callers sanitise them.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bulkhead.api import ledger
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from bulkhead.api.untrusted import mapping
from syncer.translate import sanitise
from syncer.translate.kinds import gate
from syncer.translate.view import TenantView

GATED: Final = "SchedulingGated"
_REASON: Final = re.compile(r"[A-Za-z]{1,64}")
_LONGEST: Final = 1024
_DISRUPTED: Final = "DisruptionTarget"


def verdict(host: Mapping[str, Any]) -> tuple[str, str] | None:
    """Reason and message for which a host pod waits at the gate; None where it does not, or was not judged yet."""
    noted = ledger.read_verdict(_annotations(host)) if gate.is_gated(host) else None
    return None if noted is None else (_reason(noted[0], GATED), noted[1][:_LONGEST])


def conditions(host: Obj, given: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The conditions of a host pod, with the ledger's verdict in them."""
    told = [_told(host, condition) for condition in given]
    why = _taken_back(host)
    if why is None:
        return told
    since = mapping(host.get("metadata")).get("deletionTimestamp")
    others = [condition for condition in told if condition.get("type") != _DISRUPTED]
    since = next((condition.get("lastTransitionTime") for condition in told if condition.get("type") == _DISRUPTED), since)
    reason, message = why
    return [
        *others,
        {"type": _DISRUPTED, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since},
    ]


def taken_back(host: Obj, virtual: Obj, view: TenantView) -> tuple[str, str] | None:
    """Reason and message of the reclaim by which a host pod ends; None if it ends by no reclaim."""
    why = _taken_back(host)
    return None if why is None else (why[0], sanitise.for_tenant(why[1], virtual, view))


def announced(host: Obj, virtual: Obj, view: TenantView) -> tuple[str, str] | None:
    """Reason and message of the event that a pod is to be taken back, or may be; None where there is nothing to tell."""
    found = ledger.read_reclaim(_annotations(host))
    if found is None:
        return _noticed(host, virtual, view)
    message = sanitise.for_tenant(found.message[:_LONGEST], virtual, view)
    why = f"{message.rstrip(' .;')}; " if message else ""
    return _reason(found.cause, "Reclaimed"), f"{why}it ends by {ledger.moment(found.by)} at the latest"


def _noticed(host: Obj, virtual: Obj, view: TenantView) -> tuple[str, str] | None:
    """The notice on a pod that runs beyond its tenant's quota."""
    noted = None if gate.is_gated(host) else ledger.read_verdict(_annotations(host))
    if noted is None or noted[0] != ledger.OVER_QUOTA:
        return None
    return noted[0], sanitise.for_tenant(noted[1][:_LONGEST], virtual, view)


def _taken_back(host: Obj) -> tuple[str, str] | None:
    found = ledger.read_reclaim(_annotations(host)) if is_pending_deletion(host) else None
    return None if found is None else (_reason(found.cause, "Reclaimed"), found.message[:_LONGEST])


def _told(host: Obj, condition: Mapping[str, Any]) -> Mapping[str, Any]:
    noted = verdict(host) if condition.get("type") == "PodScheduled" and condition.get("status") == "False" else None
    return condition if noted is None else {**condition, "reason": noted[0], "message": noted[1]}


def _reason(given: str, otherwise: str) -> str:
    return given if _REASON.fullmatch(given) else otherwise


def _annotations(host: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(host.get("metadata")).get("annotations"))
