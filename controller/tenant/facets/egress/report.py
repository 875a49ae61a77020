"""The report on the egress of a tenant's pods: what is not opened, and what may be open although it should not be. Pure."""

from typing import Final

from bulkhead.api.conditions import ConditionType, Reason
from controller.plane import network
from controller.plane.spec import PlaneSpec
from controller.tenant.status import Report
from controller.verdict import Verdict

_MAX_SERVERS: Final = 8


def report(spec: PlaneSpec) -> Report:
    """Computed from the plane's spec only."""
    return Report(
        conditions={ConditionType.EGRESS_APPLIED: applied(spec), ConditionType.STORAGE_CLOSED: storage(spec)},
        needed=(ConditionType.EGRESS_APPLIED,),
    )


def applied(spec: PlaneSpec) -> Verdict:
    """Whether every egress CIDR is open, except addresses of the host."""
    if closed := network.withheld(spec):
        message = "; ".join(f"isolation.network.egressCIDRs: {cidr}" for cidr in closed)
        remedy = "remove it, or list what the pods should reach in the class's isolation.network.reachReserved"
        return Verdict("False", Reason.RESERVED_ADDRESSES, f"{message}; {remedy}")
    return Verdict("True", Reason.APPLIED, "the tenant's pods reach what egressCIDRs lists, and no address of the host")


def storage(spec: PlaneSpec) -> Verdict | None:
    """Which servers of the host's storage may be reachable; None if none is, and nothing has to be done."""
    names = network.left_open(spec)
    if not names:
        return None
    more = f" and {len(names) - _MAX_SERVERS} more" if len(names) > _MAX_SERVERS else ""
    return Verdict(
        "False",
        Reason.SERVERS_BY_NAME,
        f"the host's nodes mount volumes from {', '.join(names[:_MAX_SERVERS])}{more}, and egressCIDRs may open that to the "
        "tenant's pods, whose traffic has a node's address: policies match addresses, not names. Give the SharedVolume, "
        "PersistentVolume or StorageClass the server's address, or chart value serverAddresses the addresses of the name",
    )
