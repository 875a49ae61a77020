"""Where a pod may run: the tenant's wishes inside the pool that the platform enforces.

The host's scheduler always decides. A pod that names a node, by itself or through a scheduler of the tenant's own, is pinned
to it by affinity and never by `nodeName`, so that capacity, taints and quota are still looked at. Priority is the host's to
compute: `priority`, `preemptionPolicy` and `overhead` stay behind, class names pass by allowlist only.
"""

from collections.abc import Mapping
from typing import Any, Final

from syncer.translate import metadata, schema
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import ListOf, Number, OneOf, Struct, Text
from syncer.translate.view import DEFAULT_SCHEDULER, Obj, TenantView

TOLERATIONS: Final = ListOf(
    Struct(
        {
            "key": Text(317),
            "operator": OneOf(("", "Equal", "Exists", "Lt", "Gt")),
            "value": Text(63),
            "effect": OneOf(("", "NoSchedule", "PreferNoSchedule", "NoExecute")),
            "tolerationSeconds": Number(),
        }
    )
)
_GATES: Final = ListOf(Struct({"name": Text(317)}))
# The control plane sets these taints on sick nodes; tolerating them for a while is every pod's right, the others are not.
_PASSING_NODE_TAINTS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_KEPT_TAINT_DOMAINS: Final = (
    "bulkhead.dev",
    "node-role.kubernetes.io",
    "node.kubernetes.io",
    "node.cloudprovider.kubernetes.io",
)


def node_selector(spec: Mapping[str, Any], view: TenantView) -> dict[str, str]:
    """The tenant's node selector under the enforced one, without what asks for labels of the tenant's own (`placement`)."""
    own = schema.text_map(spec.get("nodeSelector"), "spec.nodeSelector")
    passing = {key: value for key, value in own.items() if key not in view.own_node_labels}
    return dict(sorted((passing | dict(view.enforced_node_selector)).items()))


def pinned_node(spec: Mapping[str, Any], view: TenantView) -> str:
    """The node that the pod names, which the tenant must be able to see; empty where the host may choose."""
    node = schema.text(spec.get("nodeName"), "spec.nodeName", 253)
    scheduler = schema.text(spec.get("schedulerName"), "spec.schedulerName", 253)
    if node and node not in view.nodes:
        raise Untranslatable(Reason.NODE_NOT_VISIBLE, f"there is no node {node[:253]!r} in this cluster", "spec.nodeName")
    if not node and scheduler not in {"", DEFAULT_SCHEDULER}:
        raise Untranslatable(
            Reason.WAITING_FOR_SCHEDULER,
            f"waiting for the scheduler {scheduler[:64]!r} to bind the pod; leave schedulerName out to use the platform's",
            "spec.schedulerName",
        )
    return node


def tolerations(spec: Mapping[str, Any], view: TenantView) -> list[Obj]:
    """The enforced tolerations, then the tenant's without those that would lead onto nodes of others; no duplicates."""
    own = schema.copy(spec.get("tolerations") or [], TOLERATIONS, "spec.tolerations")
    found: list[Obj] = []
    for toleration in (*(entry.to_obj() for entry in view.enforced_tolerations), *filter(_may_tolerate, own)):
        if toleration not in found:
            found.append(toleration)
    return found


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a toleration is one of the taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key", "") in ("", taint.get("key"))
    return bool(toleration.get("key") == taint.get("key") and toleration.get("value", "") == (taint.get("value") or ""))


def _may_tolerate(toleration: Mapping[str, Any]) -> bool:
    key = toleration.get("key", "")
    if key in _PASSING_NODE_TAINTS:
        return True
    domain = key.rpartition("/")[0]
    return bool(key) and not any(domain == kept or domain.endswith(f".{kept}") for kept in _KEPT_TAINT_DOMAINS)


def priority(spec: Mapping[str, Any], view: TenantView) -> str:
    """The priority class on the host of a pod or a group of pods; empty where the host's default applies."""
    named = schema.text(spec.get("priorityClassName"), "spec.priorityClassName", 253)
    if named.startswith("system-"):
        raise Untranslatable(Reason.NOT_ALLOWED, f"the priority class {named!r} is the host's own", "spec.priorityClassName")
    if named and named not in view.allowed_priority_classes:
        raise Untranslatable(
            Reason.NOT_ALLOWED,
            f"the priority class {named!r} is not allowed{_choice(view.allowed_priority_classes)}",
            "spec.priorityClassName",
        )
    return named or view.priority_class


def classes(spec: Mapping[str, Any], view: TenantView) -> Obj:
    """Priority and runtime class on the host."""
    translated: Obj = {}
    chosen = priority(spec, view)
    if chosen:
        translated["priorityClassName"] = chosen
    runtime = schema.text(spec.get("runtimeClassName"), "spec.runtimeClassName", 253)
    runtime = view.runtime_aliases.get(runtime, runtime)
    if runtime and runtime not in view.allowed_runtime_classes and runtime != view.runtime_class:
        raise Untranslatable(
            Reason.NOT_ALLOWED,
            f"the runtime class {runtime!r} is not allowed{_choice(view.allowed_runtime_classes)}",
            "spec.runtimeClassName",
        )
    if view.runtime_class or runtime:
        translated["runtimeClassName"] = view.runtime_class or runtime
    return translated


def gates(spec: Mapping[str, Any], wants_gpu: bool, view: TenantView) -> list[Obj]:
    """The tenant's scheduling gates under keys that no host operator knows, and the ledger's gate for GPU pods."""
    own = schema.copy(spec.get("schedulingGates") or [], _GATES, "spec.schedulingGates")
    found = [{"name": metadata.host_label_key(gate.get("name", ""), "spec.schedulingGates")} for gate in own]
    if wants_gpu and view.accelerator_gate:
        found.append({"name": view.accelerator_gate})
    return found


def _choice(allowed: frozenset[str]) -> str:
    return f"; allowed: {', '.join(sorted(allowed))}" if allowed else "; none may be named"
