"""Tenants that several files of the core suite use one after the other: each file leaves them as it found them.

The files that share a tenant belong to one group (`order`). The tenant is deleted at the end of the process (`Fleet.close`).
"""

from functools import cache

from e2e.api import Obj
from e2e.fleet import Fleet

GANG = 3
EVERYWHERE = "e2e-everywhere"


@cache
def with_pod_groups(fleet: Fleet) -> Obj:
    """The manifest of a tenant whose cluster has pod groups, with GPUs for a gang of `GANG` pods; its creation begins."""
    return fleet.order_of_own_class("e2e-groups", gpus=GANG, scheduling={"podGroups": True})


@cache
def with_every_address(fleet: Fleet) -> Obj:
    """The manifest of a tenant of class `EVERYWHERE`, which allows every address; its creation begins."""
    isolation = fleet.host.get("TenantClass", "standard")["spec"].get("isolation", {})
    return fleet.order_of_own_class(EVERYWHERE, gpus=0, isolation=isolation | {"network": {"egressCIDRs": ["0.0.0.0/0"]}})
