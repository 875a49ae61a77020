"""The first cause of a tenant's state, and what to do about it. Pure.

    deleted ─> the controller stands still ─> the spec is refused or paused ─> the plane's data, keys or node
            ─> what keeps the plane's pods ─> the first condition that is not as it should be ─> nothing

Each answer on the way explains everything after it, so the first one is the cause and the rest are its consequences.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.conditions import HOPELESS, ConditionType, Reason, condition_of
from bulkhead.api.names import SYSTEM_NAMESPACE
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from workstation.cli.tenant.waiting import ready_condition
from workstation.cli.trouble import Trouble

# What keeps a pod from starting, from the ground up: a pod without a node has no volume, one without a volume no container.
_GROUND_UP: Final = (
    "FailedCreate", "ProvisioningFailed", "FailedScheduling", "FailedAttachVolume", "FailedMount", "FailedCreatePodSandBox",
    "InvalidImageName", "ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError", "CrashLoopBackOff",
)  # fmt: skip
# The containers of a plane, from the ground up: an API server without etcd crashes too.
_CONTAINERS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "syncer", "dns")
# What befell the plane itself: whatever its pods say meanwhile follows from it.
_EXPLAINS_PODS: Final = frozenset(
    {
        Reason.DATA_LOST,
        Reason.KEYS_LOST,
        Reason.IDENTITY_IN_DOUBT,
        Reason.NODE_LOST,
        Reason.CORRUPT,
        Reason.RESTORING,
        Reason.RECOVERING,
    }
)
_STEPS: Final[Mapping[str, str]] = {
    Reason.UNKNOWN_CLASS: "create the class again, or name another one: kubectl get tenantclasses; kubectl edit tenant {name}",
    Reason.QUORUM_LOST: "bring the pods back with their volumes; what each member has: bulkhead tenant recover {name}",
    Reason.RESTORING: "wait; if the message does not change, run `bulkhead tenant restore` again: it goes on",
    Reason.DATA_LOST: "find the volume first; to go on without the data: bulkhead tenant accept-data {name}",
    Reason.STORE_FULL: "delete what the tenant does not need, or raise controlPlane.storage.size of its class",
    Reason.NAMESPACE_TAKEN: "remove or rename that namespace, or give the tenant another name",
    Reason.ADDRESSES_EXHAUSTED: "raise services.range of the chart, or delete a tenant",
    Reason.HOST_REFUSED: "correct what the host's policy names in the message",
    Reason.CRASHING: "kubectl -n bh-{name} logs plane-0 --all-containers --previous --tail=50",
    Reason.POD_NOT_STARTING: "kubectl -n bh-{name} describe pods",
}
_BY_TROUBLE: Final[Mapping[str, str]] = {
    "FailedScheduling": "free room on a node, or see the chart's planes.nodeSelector and the class's controlPlane.resources",
    "ProvisioningFailed": "kubectl -n bh-{name} describe pvc",
    "ImagePullBackOff": "check the chart's images.registry, and push the images: bulkhead images push",
    "ErrImagePull": "check the chart's images.registry, and push the images: bulkhead images push",
    "CrashLoopBackOff": "kubectl -n bh-{name} logs {pod} -c {container} --previous --tail=50",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One sentence, since when, what shows it, and what to type."""

    healthy: bool
    what: str
    since: str | None
    reason: str
    next_step: str


_WAITS_UNSEEN: Final = Cause(
    False,
    "this spec has not been reconciled yet; the controller's Deployments could not be read, so it is unknown whether it runs",
    None,
    "ControllerUnknown",
    "wait some seconds; then ask an admin of the host: kubectl -n bulkhead-system get deployments",
)


def namespace_of(controllers: Sequence[Obj] | None) -> str:
    """The namespace in which the controller is installed; the usual one if its Deployments are not known."""
    found = (text(mapping(item.get("metadata")).get("namespace")) for item in controllers or ())
    return next((name for name in found if name), SYSTEM_NAMESPACE)


def controller_log(namespace: str) -> str:
    """Prints the log of each of its pods: `deploy/…` would show one of the two, which is often not the one that leads."""
    return f"kubectl -n {namespace} logs -l app.kubernetes.io/component=controller --prefix"


def first_cause(tenant: Obj, controllers: Sequence[Obj] | None, found: Iterable[Trouble]) -> Cause:
    """The first cause. `controllers` are the Deployments of the controller, `found` the troubles of the plane's pods.

    `controllers` are None if they could not be read: then nothing is known of whether the controller runs.
    """
    name = text(mapping(tenant.get("metadata")).get("name"))
    for cause in (_deleted(tenant, name), _still(tenant, controllers), _refused(tenant, name)):
        if cause is not None:
            return cause
    summary = _conditions(tenant, name)
    return summary if summary.reason in _EXPLAINS_PODS else _plane(tenant, name, found) or summary


def _deleted(tenant: Obj, name: str) -> Cause | None:
    since = mapping(tenant.get("metadata")).get("deletionTimestamp")
    if not since:
        return None
    ready = condition_of(tenant, ConditionType.READY)
    what = f"it is being deleted: {text(ready.get('message')) or 'no progress was reported yet'}"
    if ready.get("reason") == Reason.TEARDOWN_BLOCKED:
        step = "kubectl describe what the message names; it usually has a finalizer whose controller no longer runs"
        return Cause(False, what, text(since), Reason.TEARDOWN_BLOCKED, step)
    return Cause(False, what, text(since), Reason.TERMINATING, f"wait; what is left: bulkhead tenant describe {name}")


def _still(tenant: Obj, controllers: Sequence[Obj] | None) -> Cause | None:
    """The controller does not run, or has not reconciled this spec."""
    if controllers is None:
        return None if ready_condition(tenant) is not None else _WAITS_UNSEEN
    running = sum(int(mapping(item.get("status")).get("readyReplicas") or 0) for item in controllers)
    reconciled = ready_condition(tenant) is not None
    # Without a Deployment, only a spec that waits tells that none runs.
    if (controllers and not running) or (not reconciled and not running):
        what = "no pod of the controller is ready, so nothing that is changed takes effect; what runs goes on"
        return Cause(False, what, None, "ControllerDown", f"kubectl -n {namespace_of(controllers)} describe pods")
    if reconciled:
        return None
    step = f"wait some seconds; then: {controller_log(namespace_of(controllers))} --tail=50"
    return Cause(False, "the controller runs and has not reconciled this spec yet", None, "NotReconciled", step)


def _refused(tenant: Obj, name: str) -> Cause | None:
    ready = ready_condition(tenant) or {}
    reason = text(ready.get("reason"))
    if ready.get("status") == "True" or reason not in HOPELESS | {Reason.PAUSED, Reason.VERSION_SKEW}:
        return None
    step = _STEPS.get(reason, "correct the spec: kubectl edit tenant {name}").format(name=name)
    return Cause(False, text(ready.get("message")), _since(ready), reason, step)


def _plane(tenant: Obj, name: str, found: Iterable[Trouble]) -> Cause | None:
    """What keeps a pod of the plane from working, if the tenant is not ready."""
    ready = ready_condition(tenant) or {}
    known = [trouble for trouble in found if trouble.reason in _GROUND_UP]
    if ready.get("status") == "True" or not known:
        return None
    trouble = min(known, key=_depth)
    pod, _, container = trouble.subject.removeprefix("pod ").partition(", container ")
    step = _BY_TROUBLE.get(trouble.reason, "kubectl -n bh-{name} describe pods")
    return Cause(False, str(trouble), _since(ready), trouble.reason, step.format(name=name, pod=pod, container=container))


def _depth(trouble: Trouble) -> tuple[int, int]:
    container = trouble.subject.partition(", container ")[2]
    place = _CONTAINERS.index(container) if container in _CONTAINERS else len(_CONTAINERS)
    return (_GROUND_UP.index(trouble.reason), place)


def _conditions(tenant: Obj, name: str) -> Cause:
    """The first condition that is not True, before the summary that repeats it; Degraded, which is True where it is wrong.

    A degraded plane serves, so what else is wrong comes first, unless the plane as a whole is on its way.
    """
    listed = mappings(mapping(tenant.get("status")).get("conditions"), 64)
    degraded = [item for item in listed if item.get("type") == ConditionType.DEGRADED and item.get("status") == "True"]
    whole = [item for item in degraded if item.get("reason") in _EXPLAINS_PODS]
    wrong = [item for item in listed if item.get("status") != "True" and item.get("type") != ConditionType.DEGRADED]
    parts = [item for item in wrong if item.get("type") != ConditionType.READY]
    first = next(iter((*whole, *parts, *degraded, *wrong)), None)
    if first is None:
        ready = condition_of(tenant, ConditionType.READY)
        return Cause(True, "nothing is wrong", _since(ready), Reason.READY, "")
    reason = text(first.get("reason"))
    step = _STEPS.get(reason, f"see docs/troubleshooting.md, row {reason}").format(name=name)
    return Cause(False, f"{text(first.get('type'))}: {text(first.get('message')) or 'no message'}", _since(first), reason, step)


def _since(condition: Mapping[str, Any]) -> str | None:
    return text(condition.get("lastTransitionTime")) or None
