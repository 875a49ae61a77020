"""The remnant of a slice: it keeps the addresses that other Services of the host have in the slice of a tenant that goes. Pure.

The host gives a new Service an address of any ServiceCIDR (Kubernetes 1.34 and later), so of a tenant's slice, too. The Service
keeps it for life, and the host keeps a ServiceCIDR for as long as a Service has an address that no other ServiceCIDR contains.
So a Tenant could not go before a Service that has nothing to do with it.

    ServiceCIDR of the tenant, which is to go ──> contained in the remnant: the host lets it go
    remnant of the same network, deletion asked for at once ──> the host keeps it until the last address is gone

The host gives no more addresses of a ServiceCIDR whose deletion was asked for. No tenant gets the slice before the remnant has
gone, because it counts as taken like any other ServiceCIDR (`slices.allocate`).
"""

from collections.abc import Container, Iterable, Sequence
from typing import Final

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, sequence, text
from controller.decide.slices import inside

# The host's own. Its controller adds it after a moment, and a ServiceCIDR that is deleted before that is gone at once.
_FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"


def holders(service_cidr: Obj, addresses: Iterable[Obj], *, without: Container[str] = ()) -> list[str]:
    """The Services with an address in a ServiceCIDR, each with its address; those of the namespaces `without` are left out."""
    networks = [text(cidr) for cidr in sequence(mapping(service_cidr.get("spec")).get("cidrs"))]
    found = []
    for claimed in addresses:
        address, parent = text(claimed["metadata"].get("name")), mapping(mapping(claimed.get("spec")).get("parentRef"))
        if parent.get("namespace") not in without and any(inside(network, address) for network in networks):
            found.append(f"{text(parent.get('namespace'))}/{text(parent.get('name'))} has {address}")
    return found


def remnant_of(service_cidr: Obj) -> Obj:
    """The remnant for a tenant's ServiceCIDR."""
    meta, cidrs = service_cidr["metadata"], service_cidr["spec"]["cidrs"]
    network = str(cidrs[0]).replace("/", "-")
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {
            "name": f"{network}.left.bulkhead.dev",
            "labels": {
                labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD,
                labels.LEFT_BY: meta["labels"][labels.TENANT],
            },
            "finalizers": [_FINALIZER],
        },
        "spec": {"cidrs": list(cidrs)},
    }


def missing(service_cidrs: Sequence[Obj], remnants: Iterable[Obj], addresses: Sequence[Obj]) -> list[Obj]:
    """The remnants to make: one for each ServiceCIDR in which Services have addresses, unless it is there."""
    there = {remnant["metadata"]["name"] for remnant in remnants}
    wanted = [remnant_of(service_cidr) for service_cidr in service_cidrs if holders(service_cidr, addresses)]
    return [remnant for remnant in wanted if remnant["metadata"]["name"] not in there]


def abandoned(service_cidrs: Iterable[Obj]) -> list[Obj]:
    """Remnants whose deletion was not asked for: the controller died between the two requests, and maybe no Tenant is left."""
    metas = ((obj, obj["metadata"]) for obj in service_cidrs)
    return [obj for obj, meta in metas if labels.LEFT_BY in mapping(meta.get("labels")) and not meta.get("deletionTimestamp")]
