"""A tenant's PodDisruptionBudget on the host, so that draining a host node respects it too.

The plane's controller knows the workloads behind the pods and has turned percentages into a number; the host knows only bare
pods, for which a number is all it accepts. So the host budget says how many must stay healthy, as the plane computed it.
"""

from collections.abc import Mapping
from typing import Any, Final

from syncer.translate import metadata, mirrored, schema, selectors
from syncer.translate.schema import OneOf, Struct, Translated
from syncer.translate.view import Obj, TenantView

KIND: Final = "PodDisruptionBudget"

# Every field of a budget's spec of Kubernetes 1.36.
BUDGET_SPEC: Final = Struct(
    {
        "minAvailable": Translated("desiredHealthy of the status"),
        "maxUnavailable": Translated("desiredHealthy of the status"),
        "selector": Translated("selectors"),
        "unhealthyPodEvictionPolicy": OneOf(("IfHealthyBudget", "AlwaysAllow")),
    }
)


def is_mirrored(virtual: Obj) -> bool:
    """Once the plane's controller has counted."""
    return mirrored.always(virtual) and _healthy(virtual) is not None


def to_host(virtual: Obj, view: TenantView) -> Obj:
    """The host PodDisruptionBudget for `virtual`."""
    who = metadata.identity(KIND, virtual)
    own = schema.mapping(virtual.get("spec"), "spec")
    spec = schema.struct(own, BUDGET_SPEC, "spec")
    spec["minAvailable"] = schema.number(_healthy(virtual) or 0, "status.desiredHealthy", 0, 100_000)
    scope = selectors.own_namespace(who.namespace, view)
    selector = selectors.label_selector(own.get("selector"), "spec.selector", scope)
    if selector is not None:
        spec["selector"] = selector
    meta = metadata.host_metadata(who, virtual, view)
    return {"apiVersion": "policy/v1", "kind": KIND, "metadata": meta, "spec": spec}


def _healthy(virtual: Obj) -> int | None:
    status: Any = virtual.get("status")
    if not isinstance(status, Mapping) or not status.get("observedGeneration"):
        return None
    found = status.get("desiredHealthy", 0)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
