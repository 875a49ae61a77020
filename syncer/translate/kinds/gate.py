"""The ledger's gate on host pods: which pods get it, and the annotations that ledger and syncer exchange on them. Pure.

    asks for a gated resource, by `resources` or by a claim, or is of a gang
        -> gate `bulkhead.dev/ledger` beside the tenant's own, annotations of `bulkhead.api.ledger.BY_SYNCER`

Both are set once, when the host pod is created: later changes by the tenant do not move it into another gang, and only the
ledger removes the gate. If its group is made again, the pod is made again as well. The syncer does not repair what the ledger
writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import ledger, podresources
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from bulkhead.api.untrusted import mapping, mappings
from syncer.translate import podgroupapi
from syncer.translate.kinds import gang
from syncer.translate.podspec import podsize
from syncer.translate.view import TenantView

# What stays as it was made, and is neither written nor taken away later.
MADE_ONCE: Final = frozenset(ledger.BY_SYNCER)
_INT32: Final = 1 << 31
# What the host adds to a pod of a runtime class that has an overhead.
_OVERHEAD: Final = frozenset({"cpu", "memory"})


@dataclass(frozen=True, slots=True)
class Around:
    """What decides about the gate of a pod besides the pod."""

    groups: gang.Groups
    # One of its claims asks for devices of a gated resource.
    asks_by_claim: bool = False


NOTHING_AROUND: Final = Around(gang.Groups())


def close(made: Obj, virtual: Obj, view: TenantView, around: Around) -> None:
    """Put the gate on a host pod that is about to be created, if it needs one."""
    if gang.offered(view) and not around.groups.mirrored:
        made["spec"].pop(podgroupapi.NAMED_IN, None)
    of = gang.of_pod(virtual, view, around.groups)
    if of is None and not around.asks_by_claim and not _asks(made, view):
        return
    noted, spec = made["metadata"]["annotations"], made["spec"]
    noted[ledger.OWN_PRIORITY] = str(own_priority(virtual))
    if of is not None:
        noted |= {ledger.GANG: of.name, ledger.GANG_SIZE: str(of.size)}
        noted |= {ledger.GANG_TOPOLOGY: of.topology} if of.topology else {}
    spec["schedulingGates"] = [*spec.get("schedulingGates", ()), {"name": ledger.GATE}]


def is_gated(host: Mapping[str, Any]) -> bool:
    """Whether the ledger has not admitted a host pod yet."""
    gates = mappings(mapping(host.get("spec")).get("schedulingGates"))
    return any(gate.get("name") == ledger.GATE for gate in gates)


def is_the_ledgers(host: Mapping[str, Any]) -> bool:
    """Whether a host pod has the gate, or had it before it was admitted."""
    noted = mapping(mapping(host.get("metadata")).get("annotations"))
    return is_gated(host) or ledger.ADMITTED in noted or ledger.RECLAIM in noted


def may_be_taken_back(host: Mapping[str, Any]) -> bool:
    """Whether a host pod holds nothing but a place in the queue."""
    return is_gated(host) and not placed_on(host)


def _asks(host: Obj, view: TenantView) -> bool:
    if not view.gated_resources:
        return False
    seen, overhead = podsize.with_defaults(host, view), bool(mapping(host.get("spec")).get("runtimeClassName"))
    return any(
        podresources.requested(seen, resource) > 0 or (overhead and resource in _OVERHEAD) for resource in view.gated_resources
    )


def own_priority(virtual: Obj) -> int:
    """The priority that the tenant's own API server computed."""
    given = mapping(virtual.get("spec")).get("priority")
    return min(max(given, -_INT32), _INT32 - 1) if type(given) is int else 0
