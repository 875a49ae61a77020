"""Whether one plane may use all cores of a node. Pure.

What a webhook of a tenant answers, or a large list, costs the CPU of the tenant's own API server, up to its limit. On a node
with no more cores than that, the planes and pods of other tenants wait for it (docs/measurements/chaos.md).
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from bulkhead.api.planecpu import usual_cpu_limit
from bulkhead.api.quantity import readable
from bulkhead.api.untrusted import mapping, text
from workstation.preflight.facts import Obj, Observed, Unseen, need
from workstation.preflight.findings import Finding, ok, warning
from workstation.preflight.judge.nodes import is_real
from workstation.preflight.values import Values

_CURE: Final = (
    "give these planes nodes with more cores (planes.nodeSelector of the chart), or set "
    "controlPlane.resources.apiServer.limits.cpu of the class below the node's cores; that restarts the planes of the class"
)
_NAMES: Final = 3
# What a class has that sets nothing.
_USUAL: Final[Mapping[str, Any]] = {"metadata": {"name": "(default)"}, "spec": {}}


def of_cluster(observed: Observed, values: Values) -> Finding:
    """Preflight's finding: with the chart's selector, and the classes that are there already."""
    return finding(need(observed, "nodes"), observed.lists.get("tenantclasses", ()), values.planes_selector)


def finding(nodes: Iterable[Obj], classes: tuple[Obj, ...] | Unseen, selector: Mapping[str, str]) -> Finding:
    """Warns for each class whose planes may use all cores of a node on which they may run."""
    fitting = [node for node in nodes if is_real(node) and _cores(node) is not None and _matches(node, selector)]
    known = () if isinstance(classes, Unseen) else classes
    tight = [line for found in known or (_USUAL,) if (line := _tight(found, fitting))]
    if tight:
        return warning("an API server of one tenant may use all cores of a node", _CURE, tight)
    least = min((cores for node in fitting if (cores := _cores(node)) is not None), default=None)
    return ok("no node that runs pods tells its cores" if least is None else f"nodes have {_number(least)} cores at least")


def _tight(tenant_class: Obj, nodes: list[Obj]) -> str:
    spec = mapping(mapping(tenant_class.get("spec")).get("controlPlane"))
    limit = _limit(spec)
    own = [node for node in nodes if _matches(node, mapping(spec.get("nodeSelector")))]
    small = sorted(
        (cores, text(mapping(node.get("metadata")).get("name")))
        for node in own
        if (cores := _cores(node)) is not None and (limit is None or cores <= limit)
    )
    if not small:
        return ""
    named = ", ".join(f"{name} ({_number(cores)})" for cores, name in small[:_NAMES]) + (", …" if len(small) > _NAMES else "")
    most = "any number of" if limit is None else f"up to {_number(limit)}"
    name = text(mapping(tenant_class.get("metadata")).get("name"))
    return f"class {name}: {most} cores; {len(small)} of {len(own)} nodes have no more: {named}"


def _limit(control_plane: Mapping[str, Any]) -> Decimal | None:
    """The most CPU that an API server of the class may have; None if nothing limits it."""
    own, most = (mapping(mapping(control_plane.get(part)).get("apiServer")) for part in ("resources", "maxResources"))
    request = str(mapping(own.get("requests")).get("cpu") or "0")
    usual = None if control_plane.get("cpuLimits") == "None" else usual_cpu_limit("apiserver", request)
    limit = readable(mapping(own.get("limits")).get("cpu") or usual)
    raised = readable(mapping(most.get("limits")).get("cpu"))
    return limit if limit is None or raised is None else max(limit, raised)


def _cores(node: Obj) -> Decimal | None:
    return readable(mapping(mapping(node.get("status")).get("capacity")).get("cpu"))


def _matches(node: Obj, selector: Mapping[str, Any]) -> bool:
    labels = mapping(mapping(node.get("metadata")).get("labels"))
    return all(labels.get(key) == value for key, value in selector.items())


def _number(amount: Decimal) -> str:
    return f"{amount.normalize():f}"
