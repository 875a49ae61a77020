"""What one condition of a Tenant says, and what the pods behind it come to. Pure."""

from dataclasses import dataclass
from typing import Final

from bulkhead.api.conditions import Reason, condition_of
from bulkhead.api.conditions import Status as Truth
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion

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
    found = _trouble(pod)
    return None if found is None else found[:2]


def not_starting(reason: Reason, message: str, pull_trouble: str) -> Verdict:
    """Why a pod does not start; where its image cannot be pulled, the host's pull secrets may be why."""
    why = f"; {pull_trouble}" if pull_trouble and "Pull" in message else ""
    return Verdict("False", reason, message + why)


def is_of(pod: Obj, component: str) -> bool:
    """Whether a pod is of this component of a plane."""
    return bool((pod["metadata"].get("labels") or {}).get("bulkhead.dev/component") == component)


def why_down(name: str, pod: Obj | None) -> tuple[Reason | None, str]:
    """Why a pod that is to serve does not, and how often it tried; a reason only where it is more than a matter of time."""
    if pod is None:
        return None, f"pod {name}: there is none"
    if is_pending_deletion(pod):
        return None, f"pod {name}: is being deleted"
    found = _trouble(pod)
    if found is not None:
        reason, message, often = found
        return reason, message + often
    stopped = [each for each in (pod.get("status") or {}).get("containerStatuses") or [] if not each.get("ready")]
    killed = next((text for each in stopped if (text := _out_of_memory(pod, each))), "")
    waiting = ", ".join(f"{each['name']}{_restarts(each)}" for each in stopped)
    return None, killed or f"pod {name}: not ready" + (f": {waiting}" if waiting else "")


def _trouble(pod: Obj) -> tuple[Reason, str, str] | None:
    """Why a pod does not start, and how often it tried where that does not say so itself."""
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
            return Reason.POD_NOT_STARTING, detail, ""
        if reason == "CrashLoopBackOff" and int(each.get("restartCount") or 0) >= _CRASHES:
            killed = _out_of_memory(pod, each)
            return Reason.CRASHING, killed or detail, "" if killed else _restarts(each)
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return Reason.POD_NOT_STARTING, f"pod {name}: {scheduled.get('message')}", ""
    return None


def _restarts(container: Obj) -> str:
    """How often a container was started again, and what it ended with at last; empty where it never was."""
    number = int(container.get("restartCount") or 0)
    if not number:
        return ""
    ended = (container.get("lastState") or {}).get("terminated") or {}
    code = f", the last time after exit code {ended['exitCode']}" if "exitCode" in ended else ""
    return f" (restarted {number} times{code})"


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
