"""For how long a tenant's disruption budgets hold up the drain of a host node, and how it shows on pods. Pure.

    node cordoned ── its taint says since when ──> deadline of the class ──> its pods are labelled ──> no budget selects them

In its own cluster a tenant may have a budget that allows no eviction. Here such a budget would keep an admin from ever emptying
a node, so it holds only until a deadline. A cordon by itself ends no pod: after the deadline a pod may be evicted, and runs
until an admin evicts it. If the taint has no time, the deadline never passes.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from bulkhead.api.moments import moment_of
from bulkhead.api.untrusted import mapping, mappings, text

KIND: Final = "Drain"  # of work, by the name of the node
DRAINED: Final = "bulkhead.dev/drained"
# What every budget on the host asks of the pods that it selects.
STAYING: Final[Mapping[str, str]] = {"key": DRAINED, "operator": "DoesNotExist"}
_CORDON: Final = "node.kubernetes.io/unschedulable"


def cordoned_since(host_node: Mapping[str, Any]) -> datetime | None:
    """When a node was cordoned; None where it is not, or where the host does not say."""
    spec = mapping(host_node.get("spec"))
    if spec.get("unschedulable") is not True:
        return None
    written = [text(taint.get("timeAdded")) for taint in mappings(spec.get("taints"), 64) if taint.get("key") == _CORDON]
    return moment_of(written[0]) if written else None


def remaining(host_node: Mapping[str, Any], now: datetime, deadline: float | None) -> float | None:
    """Seconds until its pods may go whatever budgets say, none left: they may; None: nothing ends that."""
    since = cordoned_since(host_node)
    if since is None or deadline is None:
        return None
    return max(0.0, deadline - (now - since).total_seconds())
