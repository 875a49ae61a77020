"""Where a pod may run: the tenant's wishes inside the pool that the platform enforces.

The host's scheduler always decides. A pod that names a node, by itself or through a scheduler of the tenant's own, is pinned
to it by affinity and never by `nodeName`, so that capacity, taints and quota still count. Priority is the host's to
compute: `priority`, `preemptionPolicy` and `overhead` stay behind, class names pass by allowlist only. Where the
ledger admits pods, the tenant's own classes order them among each other (`kinds.gate`). The two classes that every Kubernetes
has for its components, and that charts ask for, are the host's own: there such a pod is as one that names no class (`mapped`).
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from syncer.translate import metadata, schema
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import ListOf, Struct, Text
from syncer.translate.view import DEFAULT_SCHEDULER, TenantView

MAPPED: Final = "PriorityMapped"  # the reason of the event
_SYSTEM: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_GATES: Final = ListOf(Struct({"name": Text(317)}))


def node_selector(spec: Mapping[str, Any], view: TenantView) -> dict[str, str]:
    """The tenant's node selector under the enforced one, without what asks for labels of the tenant's own (`placement`)."""
    own = schema.text_map(spec.get("nodeSelector"), "spec.nodeSelector")
    passing = {key: value for key, value in own.items() if key not in view.own_node_labels}
    return dict(sorted((passing | dict(view.enforced_node_selector)).items()))


def pinned_node(spec: Mapping[str, Any], view: TenantView) -> str:
    """The node that the pod names, which the tenant must be able to see; empty where the host may choose."""
    node = schema.text(spec.get("nodeName"), "spec.nodeName", 253)
    scheduler = schema.text(spec.get("schedulerName"), "spec.schedulerName", 253)
    if node and node not in view.nodes and view.judges:
        raise Untranslatable(Reason.NODE_NOT_VISIBLE, f"there is no node {node[:253]!r} in this cluster", "spec.nodeName")
    if not node and scheduler not in {"", DEFAULT_SCHEDULER} and view.judges:
        raise Untranslatable(
            Reason.WAITING_FOR_SCHEDULER,
            f"waiting for the scheduler {scheduler[:64]!r} to bind the pod; leave schedulerName out to use the platform's",
            "spec.schedulerName",
        )
    return node


def priority(spec: Mapping[str, Any], view: TenantView) -> str:
    """The priority class on the host of a pod or a group of pods; empty where the host's default applies."""
    named = schema.text(spec.get("priorityClassName"), "spec.priorityClassName", 253)
    if named in _SYSTEM:
        return view.priority_class
    if named.startswith("system-"):
        raise Untranslatable(Reason.NOT_ALLOWED, f"the priority class {named!r} is the host's own", "spec.priorityClassName")
    if named and named not in view.allowed_priority_classes and view.waits_for_ledger:
        # One of the tenant's own: the ledger orders this tenant's pods by it, and nothing else reads it.
        return view.priority_class
    if named and named not in view.allowed_priority_classes and view.judges:
        raise Untranslatable(
            Reason.NOT_ALLOWED,
            f"the priority class {named!r} is not allowed{_choice(view.allowed_priority_classes)}",
            "spec.priorityClassName",
        )
    return named or view.priority_class


def mapped(spec: Mapping[str, Any]) -> str:
    """What became of a system priority class, in the tenant's words; empty where the pod or group names none."""
    named = spec.get("priorityClassName")
    if named not in _SYSTEM:
        return ""
    return (
        f"spec.priorityClassName: {named} is for the host's own components; on the host this pod has the priority class of the "
        "tenant's ordinary pods, and comes before them only while they wait for quota"
    )


def classes(spec: Mapping[str, Any], view: TenantView) -> Obj:
    """Priority and runtime class on the host."""
    translated: Obj = {}
    chosen = priority(spec, view)
    if chosen:
        translated["priorityClassName"] = chosen
    runtime = schema.text(spec.get("runtimeClassName"), "spec.runtimeClassName", 253)
    runtime = view.runtime_aliases.get(runtime, runtime)
    if runtime and runtime not in {*view.allowed_runtime_classes, view.runtime_class} and view.judges:
        raise Untranslatable(
            Reason.NOT_ALLOWED,
            f"the runtime class {runtime!r} is not allowed{_choice(view.allowed_runtime_classes)}",
            "spec.runtimeClassName",
        )
    if view.runtime_class or runtime:
        translated["runtimeClassName"] = view.runtime_class or runtime
    return translated


def gates(spec: Mapping[str, Any]) -> list[Obj]:
    """The tenant's scheduling gates under keys that no host operator knows."""
    own = schema.copy(spec.get("schedulingGates") or [], _GATES, "spec.schedulingGates")
    return [{"name": metadata.host_label_key(gate.get("name", ""), "spec.schedulingGates")} for gate in own]


def _choice(allowed: frozenset[str]) -> str:
    return f"; allowed: {', '.join(sorted(allowed))}" if allowed else "; none may be named"
