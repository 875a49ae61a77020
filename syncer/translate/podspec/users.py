"""Whether a pod that does not ask for it gets a user namespace of its own, where its class prefers them. Pure.

Beside a class that requires user namespaces, under which every pod has one, a class may prefer them: then those pods get one
that surely can have it, and the others say by an event why not. The host would otherwise refuse to start a pod, or start it
without its devices or its data: no kernel maps users on NFS, and none lets a mapped root create devices.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, sequence
from syncer.translate.view import TenantView

SHARED: Final = "UsersShared"  # the reason of the event
# A kubelet gives a pod this many user numbers, from 0 on.
_MAPPED_USERS: Final = 65536
# Kinds of volumes that lie in the node's memory or on its own disk. Whether the file system of a claim can be mapped, no object
# says.
_MAPPABLE: Final = frozenset({"configMap", "secret", "projected", "downwardAPI", "emptyDir"})
_CONTAINERS: Final = ("initContainers", "containers")


def supports(node: Mapping[str, Any]) -> bool:
    """Whether a host node's default runtime says that it can give pods user namespaces."""
    handlers = mappings(mapping(node.get("status")).get("runtimeHandlers"), 100)
    default = [handler for handler in handlers if handler.get("name", "") == ""]
    return any(mapping(handler.get("features")).get("userNamespaces") is True for handler in default)


def separate(spec: Obj, own: Mapping[str, Any], view: TenantView) -> None:
    """Give the host pod with `spec` a user namespace if its class prefers that and nothing is against it."""
    if view.prefers_user_namespaces and "hostUsers" not in spec and not _reason(spec, own, view):
        spec["hostUsers"] = False


def shared(spec: Obj, own: Mapping[str, Any], view: TenantView) -> str:
    """Why a host pod has the node's users although its class prefers others; empty if it has its own, or asked for these."""
    if not view.prefers_user_namespaces or "hostUsers" in spec:
        return ""
    return f"runs with the users of the node, and not in a user namespace of its own: {_reason(spec, own, view)}"


def _reason(spec: Obj, own: Mapping[str, Any], view: TenantView) -> str:
    """The first thing that is against it; empty if nothing is."""
    return next(_reasons(spec, own, view), "")


def _reasons(spec: Obj, own: Mapping[str, Any], view: TenantView) -> Iterator[str]:
    if spec.get("runtimeClassName"):
        yield "it has a runtime class"
    if spec.get("resourceClaims"):
        yield "it claims devices"
    for volume in mappings(own.get("volumes"), 1000):
        if not _MAPPABLE.intersection(volume):
            yield f"the file system of volume {volume.get('name')} may not be able to map users"
    for container in _containers(spec):
        limits = mapping(mapping(container.get("resources")).get("limits"))
        yield from (f"it uses {name}" for name in sorted(limits) if "/" in name or name.startswith("hugepages-"))
        if "MKNOD" in sequence(mapping(mapping(container.get("securityContext")).get("capabilities")).get("add")):
            yield "it adds capability MKNOD"
    if max(_numbers(spec), default=0) >= _MAPPED_USERS:
        yield f"it names a user or a group of {_MAPPED_USERS} or above"
    if not view.nodes_support_user_namespaces:
        yield "not all nodes of this cluster report that they can"


def _containers(spec: Obj) -> Iterator[Mapping[str, Any]]:
    for field in _CONTAINERS:
        yield from mappings(spec.get(field))


def _numbers(spec: Obj) -> Iterator[int]:
    """Every user and group that the pod names."""
    contexts = [mapping(spec.get("securityContext")), *(mapping(entry.get("securityContext")) for entry in _containers(spec))]
    for context in contexts:
        named = [context.get(field) for field in ("runAsUser", "runAsGroup", "fsGroup")]
        yield from (number for number in [*named, *sequence(context.get("supplementalGroups"))] if isinstance(number, int))
