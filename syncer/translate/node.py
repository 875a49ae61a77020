"""A node of the host as the tenant may see it: its own name, what scheduling needs, and no more GPUs than the tenant may use.

Addresses are the kubelet shim's, so that logs and exec of the tenant's API server go through the syncer. Machine identifiers,
images, volumes and annotations of the host stay behind. `gpu_shares` looks at all nodes at once: over all of them a tenant
never sees more of a resource than its limit, and what its pods use on a node is always part of that node's share.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bulkhead.api import labels as marks
from syncer.translate import cordon, scheduling
from syncer.translate.quantity import InvalidQuantityError, parse, whole
from syncer.translate.view import Obj, TenantView

SHOWN_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        marks.ZONE,
        marks.RACK,
        marks.NVLINK_DOMAIN,
        marks.SIMULATED,
        marks.GPU_PRODUCT,
        marks.GPU_COUNT,
        marks.GPU_CLIQUE,
        "nvidia.com/gpu.memory",
        "nvidia.com/gpu.family",
        "nvidia.com/cuda.driver.major",
        "nvidia.com/cuda.driver.minor",
    }
)
_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_CONDITIONS: Final = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
_CONDITION_FIELDS: Final = ("type", "status", "lastHeartbeatTime", "lastTransitionTime", "reason", "message")
_NODE_INFO: Final = ("kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion", "operatingSystem", "architecture")
_NODE_INFO_HIDDEN: Final = ("machineID", "systemUUID", "bootID", "kubeProxyVersion")  # required fields, empty
# The tenant's pods tolerate these for a while by default, and the plane has nobody who would act on them.
_HIDDEN_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "bulkhead.dev/")

Shares = dict[str, dict[str, int]]


def gpu_shares(
    host_nodes: Iterable[Obj], limits: Mapping[str, int], used: Mapping[str, Mapping[str, int]] | None = None
) -> Shares:
    """How much of each limited resource every node shows, by node and resource.

    Each node first shows what the tenant's pods use there; what remains of the limit goes to the nodes in the order of their
    names, as far as they have it, so that the same input always gives the same view. The sum never exceeds the limit.
    """
    nodes = sorted(host_nodes, key=_name)
    shares: Shares = {_name(node): {} for node in nodes}
    for resource, limit in sorted(limits.items()):
        left = max(0, limit)
        has = {_name(node): _whole(_mapping(_mapping(node.get("status")).get("allocatable")).get(resource)) for node in nodes}
        for name, here in has.items():
            taken = max(0, min(_mapping((used or {}).get(name)).get(resource, 0), here, left))
            shares[name][resource] = taken
            left -= taken
        for name, here in has.items():
            more = min(left, here - shares[name][resource])
            shares[name][resource] += more
            left -= more
    return shares


def to_virtual(host_node: Obj, view: TenantView, gpus: Mapping[str, int]) -> Obj:
    """The node for the tenant; `gpus` is its entry of `gpu_shares`."""
    meta = _mapping(host_node.get("metadata"))
    spec = _mapping(host_node.get("spec"))
    status = _mapping(host_node.get("status"))
    name = _name(host_node)
    labels = {key: value for key, value in sorted(_mapping(meta.get("labels")).items()) if key in SHOWN_LABELS}
    labels = {"kubernetes.io/hostname": name} | labels | {marks.PLATFORM: "true"}
    for resource in view.gpu_resources:
        if resource == marks.GPU and marks.GPU_COUNT in labels:
            labels[marks.GPU_COUNT] = str(gpus.get(resource, 0))
    virtual_spec: Obj = {"taints": _taints(spec.get("taints"), view)}
    about: Obj = {"name": name, "labels": dict(sorted(labels.items()))}
    if spec.get("unschedulable") is True:
        virtual_spec["unschedulable"] = True
        about["annotations"] = {marks.CORDONED_BY: cordon.BY_HOST}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": about,
        "spec": {key: value for key, value in virtual_spec.items() if value},
        "status": _status(status, name, view, gpus),
    }


def _status(status: Mapping[str, Any], name: str, view: TenantView, gpus: Mapping[str, int]) -> Obj:
    address = view.shim_address
    addresses = [{"type": "InternalIP", "address": address}] if address else []
    info = _mapping(status.get("nodeInfo"))
    return {
        "capacity": _resources(status.get("capacity"), view, gpus),
        "allocatable": _resources(status.get("allocatable"), view, gpus),
        "conditions": [
            {key: condition[key] for key in _CONDITION_FIELDS if condition.get(key) is not None}
            for condition in _mappings(status.get("conditions"))
            if condition.get("type") in _CONDITIONS
        ],
        "addresses": [*addresses, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": view.shim_port}},
        "nodeInfo": {key: str(info.get(key) or "") for key in _NODE_INFO} | dict.fromkeys(_NODE_INFO_HIDDEN, ""),
    }


def _resources(value: Any, view: TenantView, gpus: Mapping[str, int]) -> dict[str, str]:
    plain = _mapping(value)
    shown = {key: str(plain[key]) for key in sorted(plain) if key in _RESOURCES or key in view.allowed_resources}
    cut = {key: str(min(_whole(plain[key]), gpus.get(key, 0))) for key in sorted(view.gpu_resources) if key in plain}
    return shown | cut


def _taints(value: Any, view: TenantView) -> list[Obj]:
    """The taints that the tenant's pods have to tolerate themselves."""
    found = []
    for taint in _mappings(value):
        key = str(taint.get("key") or "")
        if key.startswith(_HIDDEN_TAINTS) or any(
            scheduling.tolerates(toleration.to_obj(), taint) for toleration in view.enforced_tolerations
        ):
            continue
        found.append({part: taint[part] for part in ("key", "value", "effect") if taint.get(part)})
    return sorted(found, key=lambda taint: (taint.get("key", ""), taint.get("effect", "")))


def used_by(host_pods: Sequence[Obj], resources: Iterable[str]) -> Shares:
    """What the tenant's host pods hold, by node and resource: bound pods that have not ended."""
    wanted = frozenset(resources)
    found: Shares = {}
    for pod in host_pods:
        node = _mapping(pod.get("spec")).get("nodeName")
        if not node or _mapping(pod.get("status")).get("phase") in ("Succeeded", "Failed"):
            continue
        mine = found.setdefault(str(node), {})
        for resource, count in requested(pod, wanted).items():
            mine[resource] = mine.get(resource, 0) + count
    return found


def requested(pod: Obj, resources: Iterable[str]) -> dict[str, int]:
    """What a pod asks for of each resource: containers and sidecars together, or an init container that needs more."""
    spec = _mapping(pod.get("spec"))
    found = {}
    for resource in resources:
        running = sum(_asked(container, resource) for container in _mappings(spec.get("containers")))
        sidecars = peak = 0
        for container in _mappings(spec.get("initContainers")):
            if container.get("restartPolicy") == "Always":
                sidecars += _asked(container, resource)
                peak = max(peak, sidecars)
            else:
                peak = max(peak, sidecars + _asked(container, resource))
        total = max(running + sidecars, peak)
        if total:
            found[resource] = total
    return found


def _asked(container: Mapping[str, Any], resource: str) -> int:
    resources = _mapping(container.get("resources"))
    return max(_whole(_mapping(resources.get(part)).get(resource)) for part in ("limits", "requests"))


def _whole(value: Any) -> int:
    """A count, 0 where there is none; a fraction counts as the next whole."""
    if value is None:
        return 0
    try:
        return whole(value)
    except InvalidQuantityError:
        try:
            return int(parse(value)) + 1
        except InvalidQuantityError:
            return 0


def _name(node: Obj) -> str:
    return str(_mapping(node.get("metadata")).get("name") or "")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
