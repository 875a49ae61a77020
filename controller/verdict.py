"""The content of one condition of a Tenant, and what it reports about pods. Pure."""

from dataclasses import dataclass
from typing import Final

from bulkhead.api.conditions import Reason, condition_of
from bulkhead.api.conditions import Status as Truth
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion

_CRASHES: Final = 3
# The names of a plane's containers in the fields that set their memory.
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
    """Why a pod does not start; None if it may still start by itself."""
    found = _trouble(pod)
    return None if found is None else found[:2]


def not_starting(reason: Reason, message: str, pull_trouble: str) -> Verdict:
    """The verdict on a pod that does not start; if its image cannot be pulled, with trouble of the host's pull secrets."""
    why = f"; {pull_trouble}" if pull_trouble and "Pull" in message else ""
    return Verdict("False", reason, message + why)


def is_of(pod: Obj, component: str) -> bool:
    """Whether a pod belongs to this component of a plane."""
    return bool((pod["metadata"].get("labels") or {}).get("bulkhead.dev/component") == component)


def why_down(name: str, pod: Obj | None) -> tuple[Reason | None, str]:
    """Why a pod does not serve, and how often it restarted; with a reason only if it will not recover by itself."""
    if pod is None:
        return None, f"pod {name}: does not exist"
    if is_pending_deletion(pod):
        return None, f"pod {name}: is being deleted"
    found = _trouble(pod)
    if found is not None:
        reason, message, often = found
        return reason, message + often
    stopped = [
        container for container in (pod.get("status") or {}).get("containerStatuses") or [] if not container.get("ready")
    ]
    killed = next((text for container in stopped if (text := _out_of_memory(pod, container))), "")
    waiting = ", ".join(f"{container['name']}{_restarts(container)}" for container in stopped)
    return None, killed or f"pod {name}: not ready" + (f": {waiting}" if waiting else "")


def _trouble(pod: Obj) -> tuple[Reason, str, str] | None:
    """Why a pod does not start, and the number of its restarts if the reason does not contain it."""
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for container in status.get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        detail = f"pod {name}, container {container['name']}: {reason}: {waiting.get('message') or ''}".rstrip(": ")
        if reason in {
            "ErrImagePull",
            "ImagePullBackOff",
            "ErrImageNeverPull",
            "InvalidImageName",
            "CreateContainerConfigError",
        }:
            return Reason.POD_NOT_STARTING, detail, ""
        if reason == "CrashLoopBackOff" and int(container.get("restartCount") or 0) >= _CRASHES:
            killed = _out_of_memory(pod, container)
            return Reason.CRASHING, killed or detail, "" if killed else _restarts(container)
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return Reason.POD_NOT_STARTING, f"pod {name}: {scheduled.get('message')}", ""
    return None


def _restarts(container: Obj) -> str:
    """How often a container restarted, and its last exit code; empty if it never did."""
    number = int(container.get("restartCount") or 0)
    if not number:
        return ""
    ended = (container.get("lastState") or {}).get("terminated") or {}
    code = f", the last time after exit code {ended['exitCode']}" if "exitCode" in ended else ""
    return f" (restarted {number} times{code})"


def _out_of_memory(pod: Obj, container: Obj) -> str:
    """What to do about a container that was killed for its memory; empty for any other."""
    if ((container.get("lastState") or {}).get("terminated") or {}).get("reason") != "OOMKilled":
        return ""
    name, field = str(container["name"]), _FIELDS.get(str(container["name"]))
    specs = (spec for spec in (pod.get("spec") or {}).get("containers") or [] if spec["name"] == name)
    limit = next((((spec.get("resources") or {}).get("limits") or {}).get("memory") for spec in specs), None)
    more = f"its limit of {limit}" if limit else "the node has"
    killed = f"pod {pod['metadata']['name']}, container {name}: killed {container.get('restartCount')} times"
    remedy = f"; raise controlPlane.resources.{field}.limits.memory of the Tenant or its class" if field else ""
    return f"{killed}, because it needed more memory than {more}{remedy}"
