"""A tenant's node ports on the host: a Service beside the mirrored one, at the address that the tenant's nodes show.

The virtual nodes have one address, the ClusterIP of the tenant's kubelet (`syncer.kubelet`). A pod of the tenant that dials it
at a node port meets this Service: an external address of the host's proxy, which belongs to no machine. No port of a
node is opened, no other address is ever claimed, and no port outside `FIRST`..`LAST` (so never that kubelet's own).

The policy for external traffic must be Local. With Cluster the proxy hides the caller behind the node's address, which no
NetworkPolicy can tell from the host kubelet's, and every tenant would get in. With Local the proxy sends what comes from pods
to all endpoints and leaves their addresses as they are, so the tenant's policies judge them.

The Service has a ClusterIP, because the proxy serves none without. It is chosen from the tenant's own slice: the host's own
choice would fall into any tenant's. What the tenant's plane gives to a Service goes first.
"""

import hashlib
import ipaddress
from collections.abc import Collection, Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from syncer.translate import metadata, mirrored, schema, selectors
from syncer.translate.kinds import service
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import TenantView

KIND: Final = "NodePorts"  # no kind of any API server: it is never taken for a tenant's own object
FIRST: Final = 30000
LAST: Final = 32767

# The addresses at the beginning of a slice are those that the plane itself gives out last.
_GIVEN_LAST: Final = 64


def wanted(virtual: Obj, view: TenantView) -> bool:
    """Whether `virtual` has node ports that can be served: what has no selector has endpoints of unknown origin."""
    if not view.kubelet_address or not view.service_slice or not mirrored.service(virtual):
        return False
    spec = schema.mapping(virtual.get("spec"), "spec")
    return spec.get("type") in ("NodePort", "LoadBalancer") and bool(spec.get("selector")) and bool(_ports(spec))


def to_host(virtual: Obj, view: TenantView, address: str) -> Obj:
    """The host Service for the node ports of `virtual`, which are `wanted`; `address` is its own, see `choose`."""
    own = schema.mapping(virtual.get("spec"), "spec")
    plain = schema.struct(own, service.SERVICE_SPEC, "spec")
    identity = metadata.identity("Service", virtual)
    # `origin.of_host` gives this kind back, which no virtual object has
    carrier = metadata.Identity(KIND, identity.namespace, identity.name, identity.uid)
    selector = selectors.host_labels(plain["selector"], "spec.selector") | dict(
        selectors.own_namespace(identity.namespace, view).labels
    )
    spec: Obj = {
        "type": "ClusterIP",
        "clusterIP": address,
        "clusterIPs": [address],
        "externalIPs": [view.kubelet_address],
        "externalTrafficPolicy": "Local",
        "ports": _ports(own),
        "selector": dict(sorted(selector.items())),
    }
    spec |= {
        key: plain[key] for key in ("sessionAffinity", "sessionAffinityConfig", "publishNotReadyAddresses") if key in plain
    }
    meta = metadata.host_metadata(carrier, {"metadata": {}}, view)
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _ports(spec: Mapping[str, Any]) -> list[Obj]:
    """The node ports within the range; what a plane gave outside of it is not served."""
    found: list[Obj] = []
    for at, entry in schema.items(spec.get("ports"), "spec.ports"):
        number: Any = entry.get("nodePort")
        if type(number) is not int or not FIRST <= number <= LAST:
            continue
        port = schema.struct(entry, service.SERVICE_PORT, at)
        found.append(port | {"port": number, "targetPort": port.get("targetPort") or port.get("port")})
    return found


def may_keep(address: str, view: TenantView) -> bool:
    """Whether the host Service may stay at this address: the plane has not given it to a Service."""
    inside = bool(address) and ipaddress.ip_address(address) in ipaddress.ip_network(view.service_slice)
    return inside and address not in _own(view)


def choose(virtual: Obj, view: TenantView, taken: Collection[str]) -> str:
    """A free address of the slice; `taken` are those that the host has given away, as far as is known."""
    network, own = ipaddress.ip_network(view.service_slice), _own(view)
    first = int(network.network_address) + 1
    usable = max(0, network.num_addresses - 2)
    band = min(_GIVEN_LAST, usable)
    # Services that are made together start at different places, so that they seldom choose the same address.
    uid = metadata.identity("Service", virtual).uid
    start = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4], "big")
    for number in range(usable):
        place = (start + number) % band if number < band else number
        found = str(ipaddress.ip_address(first + place))
        if found not in own and found not in taken:
            return found
    raise Untranslatable(Reason.QUOTA_EXCEEDED, f"no address is left in {view.service_slice} for its node ports", "spec.type")


def _own(view: TenantView) -> set[str]:
    """Addresses that the platform and the tenant's Services have."""
    services = (service.cluster_ip for found in view.services.values() for service in found)
    return {view.api_address, view.dns_address, view.kubelet_address, view.public_address, *services}
