"""What one condition of a Tenant says, and what the pods behind it come to. Pure."""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bulkhead.api.conditions import Reason, condition_of
from bulkhead.api.conditions import Status as Truth

Obj: TypeAlias = dict[str, Any]

_CRASHES: Final = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """One condition's content."""

    status: Truth
    reason: Reason
    message: str


def pod_trouble(pod: Obj) -> tuple[Reason, str] | None:
    """Why a pod does not start, when it is more than a matter of time."""
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for each in status.get("containerStatuses") or []:
        waiting = (each.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        detail = f"pod {name}, container {each['name']}: {reason}: {waiting.get('message') or ''}".rstrip(": ")
        if reason in {
            "ErrImagePull",
            "ImagePullBackOff",
            "ErrImageNeverPull",
            "InvalidImageName",
            "CreateContainerConfigError",
        }:
            return Reason.POD_NOT_STARTING, detail
        if reason == "CrashLoopBackOff" and int(each.get("restartCount") or 0) >= _CRASHES:
            return Reason.CRASHING, detail
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return Reason.POD_NOT_STARTING, f"pod {name}: {scheduled.get('message')}"
    return None
