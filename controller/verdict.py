"""What one condition of a Tenant says, and what the pods behind it come to. Pure."""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bulkhead.api.conditions import Reason, condition_of
from bulkhead.api.conditions import Status as Truth

Obj: TypeAlias = dict[str, Any]

_CRASHES: Final = 3
# What the containers of a plane are called where a Tenant or its class gives them memory.
_FIELDS: Final = {
    "etcd": "etcd",
    "kube-apiserver": "apiServer",
    "kube-controller-manager": "controllerManager",
    "syncer": "syncer",
    "coredns": "dns",
}


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
            return Reason.CRASHING, _out_of_memory(pod, each) or detail
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return Reason.POD_NOT_STARTING, f"pod {name}: {scheduled.get('message')}"
    return None


def _out_of_memory(pod: Obj, container: Obj) -> str:
    """What is to be done about a container that was killed for its memory; empty for any other."""
    if ((container.get("lastState") or {}).get("terminated") or {}).get("reason") != "OOMKilled":
        return ""
    name, field = str(container["name"]), _FIELDS.get(str(container["name"]))
    specs = (each for each in (pod.get("spec") or {}).get("containers") or [] if each["name"] == name)
    limit = next((((each.get("resources") or {}).get("limits") or {}).get("memory") for each in specs), None)
    more = f"its limit of {limit}" if limit else "there is"
    killed = f"pod {pod['metadata']['name']}, container {name}: killed {container.get('restartCount')} times"
    remedy = f"; raise controlPlane.resources.{field}.limits.memory of the Tenant or its class" if field else ""
    return f"{killed}, because it needed more memory than {more}{remedy}"
