"""A tenant's PodDisruptionBudget on the host, so that draining a host node respects it too.

The host knows only bare pods, for which a number is all it accepts: how many must stay healthy. A number in the spec is taken
from there. For the rest the plane's controller knows the workloads behind the pods, and has written its number into the status.
Either counts for no more than the pods that there are on the host. Those on a node whose drain has waited for long enough are
no part of any budget (`drain`), and one that is not healthy holds up no eviction, whatever the tenant's budget says.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from bulkhead.api import requirements
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from syncer.translate import metadata, mirrored, schema, selectors
from syncer.translate.kinds import drain
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import Struct, Translated
from syncer.translate.view import TenantView

KIND: Final = "PodDisruptionBudget"
_MOST: Final = 100_000

# Every field of a budget's spec of Kubernetes 1.36.
BUDGET_SPEC: Final = Struct(
    {
        "minAvailable": Translated("_healthy"),
        "maxUnavailable": Translated("_healthy"),
        "selector": Translated("selectors"),
        "unhealthyPodEvictionPolicy": Translated("to_host"),
    }
)


def is_mirrored(virtual: Obj) -> bool:
    """Whether it is mirrored: a budget in per cent only once the plane's controller has counted its pods."""
    return mirrored.always(virtual) and _healthy(virtual) is not None


def to_host(virtual: Obj, view: TenantView, selected: Callable[[Obj], int] | None = None) -> Obj:
    """The host PodDisruptionBudget for `virtual`; `selected` counts the host's pods that a selector of its selects."""
    identity = metadata.identity(KIND, virtual)
    own = schema.mapping(virtual.get("spec"), "spec")
    spec = schema.struct(own, BUDGET_SPEC, "spec")
    _check_size(own)
    scope = replace(selectors.own_namespace(identity.namespace, view), expressions=(dict(drain.STAYING),))
    selector = selectors.label_selector(own.get("selector"), "spec.selector", scope)
    if selector is not None:
        spec["selector"] = selector
    wanted = max(0, min(_healthy(virtual) or 0, _MOST))
    if selected is not None:
        wanted = min(wanted, 0 if selector is None else selected(selector))
    spec |= {"minAvailable": wanted, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    meta = metadata.host_metadata(identity, virtual, view)
    return {"apiVersion": "policy/v1", "kind": KIND, "metadata": meta, "spec": spec}


def _check_size(spec: Mapping[str, Any]) -> None:
    """Refuse a budget of which the host's controller manager would have much to read with each pod that changes."""
    count = requirements.of_selector(mapping(spec.get("selector")))
    if count > requirements.MOST_OF_BUDGET:
        text = (
            f"has {count} labels, expressions and values, and {requirements.MOST_OF_BUDGET} are the most; "
            "give the pods a label of their own"
        )
        raise Untranslatable(Reason.TOO_LARGE, text, "spec.selector")


def _number(virtual: Obj) -> int | None:
    """How many pods stay, where the spec says it in a number."""
    found = mapping(virtual.get("spec")).get("minAvailable")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _healthy(virtual: Obj) -> int | None:
    if (number := _number(virtual)) is not None:
        return number
    status = mapping(virtual.get("status"))
    if not status.get("observedGeneration"):
        return None
    found = status.get("desiredHealthy", 0)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
