"""Which of the host's GPUs are in use, counted from lists of nodes, pods and quotas. Pure.

A pod counts from its binding until it has ended, also while it is being deleted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from e2e import names
from e2e.api import Obj
from e2e.chaos.history import Use
from e2e.names import GPU

_ENDED = frozenset({"Succeeded", "Failed"})


def gpus(pod: Obj) -> int:
    """The GPUs that the scheduler counts for a pod: containers and sidecars together, or an init container if it needs more."""
    spec = pod["spec"]
    sidecars = most = 0
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            sidecars += _requested(container)
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + _requested(container))
    return max(most, sidecars + sum(_requested(container) for container in spec["containers"]))


@dataclass(frozen=True, slots=True)
class Lists:
    """What the host has at one moment. `most` are the most GPUs that each node has had: a device plugin may restart."""

    nodes: Sequence[Obj]
    pods: Sequence[Obj]
    quotas: Sequence[Obj]
    devices: Mapping[str, Iterable[str]]
    most: Mapping[str, int]


def counted(at: float, lists: Lists, tenants: Iterable[str]) -> list[Use]:
    """The use of each node, tenant and device."""
    alive = [pod for pod in lists.pods if pod.get("status", {}).get("phase") not in _ENDED]
    found = []
    for node in lists.nodes:
        name = node["metadata"]["name"]
        used = sum(gpus(pod) for pod in alive if pod["spec"].get("nodeName") == name)
        limit = max(allocatable(node), lists.most.get(name, 0))
        if limit or used:
            found.append(Use(at, "node", name, limit, used))
    hard = {quota["metadata"]["namespace"]: quota for quota in lists.quotas if quota["metadata"]["name"] == names.POD_QUOTA}
    for tenant in tenants:
        space = names.work_namespace(tenant)
        if space in hard:
            limit = int(hard[space].get("spec", {}).get("hard", {}).get(f"requests.{GPU}", 0))
            used = sum(gpus(pod) for pod in alive if pod["metadata"]["namespace"] == space)
            found.append(Use(at, "tenant", tenant, limit, used))
    known = {pod["metadata"]["uid"]: f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in alive}
    for device, uids in sorted(lists.devices.items()):
        holders = sorted(known[uid] for uid in uids if uid in known)
        found.append(Use(at, "device", device, 1, len(holders), ", ".join(holders)))
    return found


def allocatable(node: Obj) -> int:
    return int(node.get("status", {}).get("allocatable", {}).get(GPU, 0))


def _requested(container: Obj) -> int:
    resources = container.get("resources") or {}
    return int((resources.get("requests") or {}).get(GPU) or (resources.get("limits") or {}).get(GPU) or 0)
