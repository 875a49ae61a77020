"""A node of the host as the tenant may see it: its own name, what scheduling needs, and no more GPUs than it can have.

Addresses are those of the tenant's kubelet, so that logs and exec of the tenant's API server go through the syncer. Machine
identifiers, images, volumes and annotations of the host stay behind. `gpu_shares` shares out over all nodes at once: over all
of them a tenant never sees more of a resource than its limit, on each no more than others leave there, and what its pods use on
a node is always part of that node's share. Capacity is allocatable is the share, and the label that counts GPUs says the same.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from bulkhead.api import accelerators
from bulkhead.api import labels as marks
from bulkhead.api.accelerators import count
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, sequence
from syncer.translate.kinds import nodemarks
from syncer.translate.podspec import tolerations
from syncer.translate.view import TenantView

_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_CONDITIONS: Final = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
_CONDITION_FIELDS: Final = ("type", "status", "lastHeartbeatTime", "lastTransitionTime", "reason", "message")
_NODE_INFO: Final = ("kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion", "operatingSystem", "architecture")
_NODE_INFO_HIDDEN: Final = ("machineID", "systemUUID", "bootID", "kubeProxyVersion")  # required fields, empty
# What a kubelet says that it can do, by the names of Kubernetes' feature gates: API servers refuse a resize that no node has
# declared, and schedulers keep pods away. Only what the syncer carries down; streams end at its own kubelet.
FEATURES: Final = "declaredFeatures"
_FEATURES_CARRIED_DOWN: Final = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
Shares = dict[str, dict[str, int]]


class Room(NamedTuple):
    """What a host node has of the limited resources, and how much of it all pods of the host hold together."""

    has: Mapping[str, int]
    held: Mapping[str, int]


def room(host_node: Obj, resources: Iterable[str]) -> tuple[Room, bool]:
    """A host node's room; and whether what it says of pods could be read. What could not counts as nothing held."""
    allocatable = mapping(mapping(host_node.get("status")).get("allocatable"))
    held = accelerators.read(mapping(mapping(host_node.get("metadata")).get("annotations")).get(accelerators.HELD))
    wanted = frozenset(resources)
    return Room(
        {resource: count(allocatable.get(resource)) for resource in wanted},
        {resource: number for resource, number in (held or {}).items() if resource in wanted},
    ), held is not None


def gpu_shares(rooms: Mapping[str, Room], limits: Mapping[str, int], used: Mapping[str, Mapping[str, int]]) -> Shares:
    """How much of each limited resource every node shows, by node and resource; `used` is what the tenant's own pods hold.

    Each node first shows what the tenant's pods use there; what remains of the limit goes to the nodes in the order of their
    names, as far as others leave it, so that the same input always gives the same view. The sum never exceeds the limit.
    """
    shares: Shares = {name: {} for name in sorted(rooms)}
    for resource, limit in sorted(limits.items()):
        left = max(0, limit)
        for name in shares:
            taken = max(0, min(used.get(name, {}).get(resource, 0), rooms[name].has.get(resource, 0), left))
            shares[name][resource] = taken
            left -= taken
        for name in shares:
            more = max(0, min(left, _left_by_others(rooms[name], used.get(name, {}), resource) - shares[name][resource]))
            shares[name][resource] += more
            left -= more
    return shares


def _left_by_others(here: Room, own: Mapping[str, int], resource: str) -> int:
    # The sum on the node comes a moment late: our own pods may not be in it yet.
    others = max(0, here.held.get(resource, 0) - own.get(resource, 0))
    return max(0, here.has.get(resource, 0) - others)


def to_virtual(host_node: Obj, view: TenantView, gpus: Mapping[str, int]) -> Obj:
    """The node for the tenant; `gpus` is its entry of `gpu_shares`."""
    meta = mapping(host_node.get("metadata"))
    spec = mapping(host_node.get("spec"))
    status = mapping(host_node.get("status"))
    name = _name(host_node)
    labels = nodemarks.shown(mapping(meta.get("labels")), {resource: gpus.get(resource, 0) for resource in view.gpu_resources})
    labels = {"kubernetes.io/hostname": name} | labels | {marks.PLATFORM: "true"}
    taints = _taints(spec.get("taints"), view)
    virtual_spec: Obj = {"taints": taints}
    about: Obj = {"name": name, "labels": dict(sorted(labels.items()))}
    annotations = {marks.HOST_TAINTS: nodemarks.host_taints(taints)}
    if spec.get("unschedulable") is True or _is_anothers(spec.get("taints"), view):
        virtual_spec["unschedulable"] = True
        annotations[marks.CORDONED_BY] = nodemarks.BY_HOST
    if any(annotations.values()):
        about["annotations"] = {key: value for key, value in annotations.items() if value}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": about,
        "spec": {key: value for key, value in virtual_spec.items() if value},
        "status": _status(status, name, view, gpus),
    }


def _status(status: Mapping[str, Any], name: str, view: TenantView, gpus: Mapping[str, int]) -> Obj:
    address = view.kubelet_address
    addresses = [{"type": "InternalIP", "address": address}] if address else []
    info = mapping(status.get("nodeInfo"))
    return {
        "capacity": _resources(status.get("capacity"), view, gpus),
        "allocatable": _resources(status.get("allocatable"), view, gpus),
        "conditions": [
            {key: condition[key] for key in _CONDITION_FIELDS if condition.get(key) is not None}
            for condition in mappings(status.get("conditions"))
            if condition.get("type") in _CONDITIONS
        ],
        "addresses": [*addresses, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": view.kubelet_port}},
        "nodeInfo": {key: str(info.get(key) or "") for key in _NODE_INFO} | dict.fromkeys(_NODE_INFO_HIDDEN, ""),
        FEATURES: [feature for feature in _FEATURES_CARRIED_DOWN if feature in sequence(status.get(FEATURES))],
    }


def _resources(value: Any, view: TenantView, gpus: Mapping[str, int]) -> dict[str, str]:
    plain = mapping(value)
    shown = {key: str(plain[key]) for key in sorted(plain) if key in _RESOURCES or key in view.allowed_resources}
    cut = {key: str(min(count(plain[key]), gpus.get(key, 0))) for key in sorted(view.gpu_resources) if key in plain}
    return shown | cut


def _taints(value: Any, view: TenantView) -> list[Obj]:
    """The taints that the tenant's pods have to tolerate themselves."""
    found = []
    for taint in mappings(value):
        key = str(taint.get("key") or "")
        if key.startswith(nodemarks.HIDDEN_TAINTS) or any(
            tolerations.tolerates(toleration.to_obj(), taint) for toleration in view.enforced_tolerations
        ):
            continue
        found.append({part: taint[part] for part in ("key", "value", "effect") if taint.get(part)})
    return sorted(found, key=lambda taint: (taint.get("key", ""), taint.get("effect", "")))


def _is_anothers(value: Any, view: TenantView) -> bool:
    """Whether a node is to be another tenant's alone: as a cordon shows it, nothing new comes and what runs drains off."""
    return any(taint.get("key") == marks.TENANT and taint.get("value") != view.tenant for taint in mappings(value))


def _name(node: Obj) -> str:
    return str(mapping(node.get("metadata")).get("name") or "")
