"""The status of a host pod as the status of the tenant's pod, and the little that goes the other way.

Flow: `status_to_virtual` gives the whole desired status; the runtime writes it when `same` says that it differs from what the
virtual pod has. Conditions of Kubernetes' own types come from the host. All others belong to the tenant and stay as they are,
and so does what the plane says of a disruption of its own. The tenant's readiness gates are copied to the host by
`readiness_to_host`, so that the kubelet can count them.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended
from bulkhead.api.untrusted import mapping, mappings
from syncer.translate import sanitise
from syncer.translate.kinds import ledgernews
from syncer.translate.kinds.pod import GENERATION, NATIVE_CONDITIONS
from syncer.translate.podspec import placement, tolerations
from syncer.translate.reasons import Reason
from syncer.translate.view import TenantView

# Every field of a pod's status of Kubernetes 1.36 that the tenant sees; those with a rule of their own are below.
COPIED: Final = ("phase", "startTime", "resize", "allocatedResources", "resources", "podIP", "podIPs")
TRANSLATED: Final = (
    "conditions", "message", "reason", "nominatedNodeName", "hostIP", "hostIPs", "initContainerStatuses",
    "containerStatuses", "ephemeralContainerStatuses", "qosClass", "observedGeneration",
)  # fmt: skip
KEPT: Final = ("resourceClaimStatuses",)  # the plane's own controller writes them
DROPPED: Final = ("extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")  # the host's doing
# Why a pod finds no node, to which the tenant's own marks on nodes may contribute: by the scheduler's words and the ledger's.
_BY_NODES: Final = frozenset({"Unschedulable", "NoCapacity", "NeverFits", "TopologyUnsatisfied"})
# Of the texts of a readiness gate's condition on the host. Kubernetes bounds none, and a pod may have 64 gates.
MOST_OF_CONDITION: Final = {"reason": 128, "message": 512}
# Of Kubernetes' own, but set in the plane as well, by its API server at an eviction; a kubelet leaves it there, too.
_SET_IN_PLANE: Final = frozenset({"DisruptionTarget"})
_CONTAINER_STATUSES: Final = {
    "initContainerStatuses": "initContainers",
    "containerStatuses": "containers",
    "ephemeralContainerStatuses": "ephemeralContainers",
}


def status_to_virtual(host: Obj, virtual: Obj, view: TenantView) -> Obj:
    """The status that the virtual pod should have."""
    given = mapping(host.get("status"))
    before = mapping(virtual.get("status"))
    found: Obj = {key: copy.deepcopy(given[key]) for key in COPIED if given.get(key) is not None}
    found |= {key: copy.deepcopy(before[key]) for key in KEPT if before.get(key) is not None}
    for key in ("message", "reason"):
        if isinstance(given.get(key), str):
            found[key] = sanitise.for_tenant(given[key], virtual, view)
    if given.get("nominatedNodeName") in view.nodes:
        found["nominatedNodeName"] = given["nominatedNodeName"]
    if given.get("hostIP"):
        address = view.kubelet_address or given["hostIP"]
        found |= {"hostIP": address, "hostIPs": [{"ip": address}]}
    for key, field in _CONTAINER_STATUSES.items():
        statuses = _statuses(given.get(key), virtual, field, view)
        if statuses:
            found[key] = statuses
    quality = before.get("qosClass") or given.get("qosClass")  # may not change once set
    if quality:
        found["qosClass"] = quality
    seen = _observed(host, given, before)
    if seen is not None:
        found["observedGeneration"] = seen
    found["conditions"] = _conditions(host, before, seen, virtual, view)
    for condition in found["conditions"]:
        if condition["type"] == "PodScheduled" and condition.get("reason") in _BY_NODES:
            narrowed = tolerations.narrowed(mapping(virtual.get("spec")), view)
            more = placement.explanation(host, view) + (f"; {narrowed}" if narrowed else "")
            condition["message"] = f"{condition.get('message') or ''}{more}"
    return found


def blocked(virtual: Obj, reason: Reason, message: str, now: str) -> Obj:
    """The status of a pod that may not run: `PodScheduled=False` with the reason. `now` counts only where that is news."""
    found = copy.deepcopy(dict(mapping(virtual.get("status"))))
    found.setdefault("phase", "Pending")
    conditions = _conditions_of(found)
    old = next((entry for entry in conditions if entry.get("type") == "PodScheduled"), {})
    since = old.get("lastTransitionTime") if old.get("status") == "False" else None
    new = {
        "type": "PodScheduled", "status": "False", "reason": str(reason), "message": message, "lastProbeTime": None,
        "lastTransitionTime": since or now,
    }  # fmt: skip
    found["conditions"] = [entry for entry in conditions if entry.get("type") != "PodScheduled"] + [new]
    return found


def lost(virtual: Obj, why: tuple[str, str] | None = None) -> Obj:
    """The status of a pod whose host pod went before its result was seen; `why`: reason and message, where they are known."""
    found = copy.deepcopy(dict(mapping(virtual.get("status"))))
    reason, message = why or ("Lost", "the pod was gone before its result was seen")
    return found | {"phase": "Failed", "reason": reason, "message": message}


def readiness_to_host(virtual: Obj, host: Obj) -> Obj | None:
    """A strategic merge patch of the host pod's status that carries the tenant's readiness gates, or None.

    A kubelet takes a gate without a condition for closed, so one that the tenant took away goes. Those of the host's own stay.
    """
    wanted = {
        gate.get("conditionType")
        for gate in mapping(host.get("spec")).get("readinessGates") or ()
        if gate.get("conditionType") not in NATIVE_CONDITIONS
    }
    have = {entry.get("type"): entry for entry in _conditions_of(host.get("status"))}
    news = []
    for condition in _conditions_of(virtual.get("status")):
        if condition.get("type") not in wanted or condition.get("status") not in ("True", "False", "Unknown"):
            continue
        plain = {
            key: condition[key][: MOST_OF_CONDITION.get(key)]
            for key in ("type", "status", "reason", "message", "lastTransitionTime")
            if isinstance(condition.get(key), str)
        }
        old = have.get(condition["type"]) or {}
        if any(old.get(key) != value for key, value in plain.items()):
            news.append(plain)
    own = {gate.get("conditionType") for gate in mappings(mapping(virtual.get("spec")).get("readinessGates"))}
    told = {entry["type"] for entry in _conditions_of(virtual.get("status"))}
    news += [{"$patch": "delete", "type": name} for name in have if name in wanted and name in own and name not in told]
    uid = mapping(host.get("metadata")).get("uid")
    return {"metadata": {"uid": uid}, "status": {"conditions": news}} if news else None


def goes_back(host: Obj, virtual: Obj) -> bool:
    """Whether a host pod has yet to start or end where its virtual pod has: a copy from before, or a status that was forged."""
    given, shown = mapping(host.get("status")), mapping(virtual.get("status"))
    return bool(shown.get("startTime") and not given.get("startTime")) or (has_ended(virtual) and not has_ended(host))


def same(one: Any, other: Any) -> bool:
    """Whether two statuses say the same: absent, null and empty are alike."""
    return bool(_without_empty(one) == _without_empty(other))


def _statuses(value: Any, virtual: Obj, field: str, view: TenantView) -> list[Obj]:
    """The statuses of containers that the tenant knows, not of those that something on the host added."""
    entries = mappings(mapping(virtual.get("spec")).get(field))
    known = {entry["name"]: mapping(entry.get("resources")) for entry in entries if isinstance(entry.get("name"), str)}
    statuses = [copy.deepcopy(entry) for entry in value or () if entry.get("name") in known]
    for entry in statuses:
        entry.pop("allocatedResourcesStatus", None)  # names devices of the host
        _show_asked(entry, known[entry["name"]])
        for state in (entry.get("state"), entry.get("lastState")):
            for detail in (state or {}).values():
                if isinstance(detail, dict) and isinstance(detail.get("message"), str):
                    detail["message"] = sanitise.text(detail["message"], virtual, view)
    return statuses


def _show_asked(status: Obj, asked: Mapping[str, Any]) -> None:
    """Leave of a container's resources what its pod asks for: the rest are defaults that the platform set on the host pod.

    Clients that resize a pod wait until the two are equal, and take a limit that was not asked for as a resize that failed.
    """
    requests, limits = mapping(asked.get("requests")), mapping(asked.get("limits"))
    actual = status.get("resources")
    if isinstance(actual, dict):
        for part, own in (("requests", requests), ("limits", limits)):
            if part in actual:
                actual[part] = {key: item for key, item in mapping(actual[part]).items() if key in own}
        status["resources"] = {key: item for key, item in actual.items() if item}
    if "allocatedResources" in status:
        held = mapping(status["allocatedResources"])
        status["allocatedResources"] = {key: item for key, item in held.items() if key in requests}


def _observed(host: Obj, given: Mapping[str, Any], before: Mapping[str, Any]) -> int | None:
    """The generation of the virtual pod that the host's kubelet has seen."""
    meta = mapping(host.get("metadata"))
    mirrored = mapping(meta.get("annotations")).get(GENERATION, "")
    if given.get("observedGeneration") is not None and given["observedGeneration"] == meta.get("generation"):
        return int(mirrored) if str(mirrored).isdecimal() else None
    old = before.get("observedGeneration")
    return old if isinstance(old, int) else None


def _conditions(host: Obj, before: Mapping[str, Any], seen: int | None, virtual: Obj, view: TenantView) -> list[Obj]:
    found: list[Obj] = []
    for condition in ledgernews.conditions(host, _conditions_of(host.get("status"))):
        if condition.get("type") not in NATIVE_CONDITIONS:
            continue
        plain = {key: value for key, value in condition.items() if key != "observedGeneration"}
        if isinstance(plain.get("message"), str):
            plain["message"] = sanitise.for_tenant(plain["message"], virtual, view)
        if seen is not None and "observedGeneration" in condition:
            plain["observedGeneration"] = seen
        if plain["type"] == "PodScheduled":
            plain |= _since(plain, before)
        found.append(plain)
    foreign = NATIVE_CONDITIONS - (_SET_IN_PLANE - {condition["type"] for condition in found})
    own = [copy.deepcopy(dict(entry)) for entry in _conditions_of(before) if entry.get("type") not in foreign]
    return found + own


def _since(scheduled: Mapping[str, Any], before: Mapping[str, Any]) -> Obj:
    """The plane says itself, at the binding, since when its pod is scheduled: no write for a difference of a second."""
    for held in _conditions_of(before):
        if held.get("type") == scheduled["type"] and held.get("status") == scheduled.get("status"):
            return {"lastTransitionTime": held.get("lastTransitionTime")}
    return {}


def _conditions_of(status: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in mappings(mapping(status).get("conditions")) if isinstance(entry.get("type"), str)]


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        plain = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in plain.items() if item not in (None, {}, [], "")}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value
