"""A tenant's Service on the host: the very same ClusterIP, a selector scoped to the tenant's namespace, and nothing public.

NodePort and LoadBalancer become ClusterIP and external addresses stay behind: a tenant opens no port of the host and claims
no address. Their node ports are a host Service of its own, see `nodeports`. ExternalName is not mirrored, the tenant's DNS
answers it.
"""

import ipaddress
from typing import Final

from bulkhead.api.objects import Obj
from syncer.translate import metadata, schema, selectors
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import FLAG, INT_OR_TEXT, PORT, TEXT_MAP, Dropped, ListOf, Number, OneOf, Struct, Text, Translated
from syncer.translate.view import TenantView

HEADLESS: Final = "None"
_PUBLIC: Final = Dropped("nothing of a tenant is reachable from outside through the host's Services")
_FAMILY: Final = Dropped("follows from the address")

SERVICE_PORT: Final = Struct(
    {
        "name": Text(63),
        "protocol": OneOf(("", "TCP", "UDP", "SCTP")),
        "appProtocol": Text(317),
        "port": PORT,
        "targetPort": INT_OR_TEXT,
        "nodePort": Translated("nodeports"),
    }
)
# Every field of a Service's spec of Kubernetes 1.36.
SERVICE_SPEC: Final = Struct(
    {
        "ports": ListOf(SERVICE_PORT, 250),
        "selector": TEXT_MAP,
        "clusterIP": Translated("_address"),
        "clusterIPs": Translated("_address"),
        "type": OneOf(("", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName")),
        "externalIPs": _PUBLIC,
        "sessionAffinity": OneOf(("", "None", "ClientIP")),
        "loadBalancerIP": _PUBLIC,
        "loadBalancerSourceRanges": _PUBLIC,
        "externalName": _PUBLIC,
        "externalTrafficPolicy": _PUBLIC,
        "healthCheckNodePort": _PUBLIC,
        "publishNotReadyAddresses": FLAG,
        "sessionAffinityConfig": Struct({"clientIP": Struct({"timeoutSeconds": Number(1, 86400)})}),
        "ipFamilies": _FAMILY,
        "ipFamilyPolicy": _FAMILY,
        "allocateLoadBalancerNodePorts": _PUBLIC,
        "loadBalancerClass": _PUBLIC,
        "internalTrafficPolicy": OneOf(("Cluster", "Local")),
        "trafficDistribution": OneOf(("PreferClose", "PreferSameZone", "PreferSameNode")),
    }
)


def to_host(virtual: Obj, view: TenantView) -> Obj:
    """The host Service for `virtual`."""
    identity = metadata.identity("Service", virtual)
    own = schema.mapping(virtual.get("spec"), "spec")
    spec = schema.struct(own, SERVICE_SPEC, "spec")
    if spec.get("type") == "ExternalName":
        raise Untranslatable(Reason.NOT_SUPPORTED, "ExternalName is answered by this cluster's DNS alone", "spec.type")
    address = _address(schema.text(own.get("clusterIP"), "spec.clusterIP", 64), view)
    selector = selectors.host_labels(spec.pop("selector", {}), "spec.selector")
    spec |= {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address]}
    if selector:
        spec["selector"] = dict(sorted((selector | dict(selectors.own_namespace(identity.namespace, view).labels)).items()))
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata.host_metadata(identity, virtual, view), "spec": spec}


def address_of(service: Obj) -> str:
    """The ClusterIP of a Service as one side has it; empty where it has none."""
    spec = service.get("spec")
    address = spec.get("clusterIP") if isinstance(spec, dict) else None
    return address if isinstance(address, str) and address != "None" else ""


def as_made(view: TenantView, host: Obj) -> TenantView:
    """One that holds the load balancer's address, from before that was kept free, is left where it is."""
    return view.standing() if view.public_address and address_of(host) == view.public_address else view


def _address(value: str, view: TenantView) -> str:
    if value == HEADLESS:
        return value
    if not value:
        raise Untranslatable(Reason.REFERENCE_MISSING, "waiting for the API server to give an address", "spec.clusterIP")
    if value in {view.api_address, view.dns_address, view.kubelet_address} or (view.judges and value == view.public_address):
        raise Untranslatable(Reason.NOT_ALLOWED, f"{value} belongs to the platform; choose another", "spec.clusterIP")
    try:
        inside = not view.service_slice or ipaddress.ip_address(value) in ipaddress.ip_network(view.service_slice)
    except ValueError as error:
        raise Untranslatable(Reason.MALFORMED, f"{value!r} is not an IP address", "spec.clusterIP") from error
    if not inside:
        raise Untranslatable(Reason.NOT_ALLOWED, f"{value} is outside {view.service_slice}", "spec.clusterIP")
    return value
