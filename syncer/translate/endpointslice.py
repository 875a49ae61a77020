"""Endpoints of a tenant's Service without a selector: mirrored only where every address is one of the tenant's own pods.

Anything else would make the host's kube-proxy a way to addresses that the network policies keep from the tenant: other
tenants' pods, nodes, metadata services, the loopback device.
"""

from typing import Any, Final

from syncer.translate import metadata, mirrored, schema
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import FLAG, PORT, Dropped, ListOf, OneOf, Struct, Text, Translated
from syncer.translate.view import Obj, TenantView

MANAGED_BY_SYNCER: Final = "syncer.bulkhead.dev"
_CONDITIONS: Final = Struct({"ready": FLAG, "serving": FLAG, "terminating": FLAG})

ENDPOINT_SLICE: Final = Struct(
    {
        "apiVersion": Dropped("fixed"),
        "kind": Dropped("fixed"),
        "metadata": Translated("metadata"),
        "addressType": OneOf(("IPv4", "IPv6"), Reason.NOT_ALLOWED),
        "endpoints": ListOf(
            Struct(
                {
                    "addresses": ListOf(Text(64), 100),
                    "conditions": _CONDITIONS,
                    "hostname": Text(63),
                    "targetRef": Dropped("names a virtual object"),
                    "deprecatedTopology": Dropped("replaced by nodeName and zone"),
                    "nodeName": Text(253),
                    "zone": Text(253),
                    "hints": Dropped("the host's kube-proxy routes by its own"),
                }
            )
        ),
        "ports": ListOf(
            Struct({"name": Text(63), "protocol": OneOf(("", "TCP", "UDP", "SCTP")), "port": PORT, "appProtocol": Text(317)}),
            250,
        ),
    }
)


def to_host(virtual: Obj, view: TenantView, own_addresses: frozenset[str] = frozenset()) -> Obj:
    """The host EndpointSlice for `virtual`; `own_addresses` are the IPs of the tenant's running pods."""
    who = metadata.identity("EndpointSlice", virtual)
    plain = schema.struct(virtual, ENDPOINT_SLICE, "")
    labels = schema.text_map(schema.mapping(virtual.get("metadata"), "metadata").get("labels"), "metadata.labels")
    service = metadata.object_name(labels.get(mirrored.SERVICE_NAME), "metadata.labels")
    if not plain.get("addressType"):
        raise Untranslatable(Reason.MALFORMED, "needs an address type", "addressType")
    for index, endpoint in enumerate(plain.get("endpoints", [])):
        _check_endpoint(endpoint, f"endpoints[{index}]", own_addresses, view)
    meta = metadata.host_metadata(who, virtual, view, labels={
        mirrored.SERVICE_NAME: view.host_name("Service", who.namespace, service),
        mirrored.MANAGED_BY: MANAGED_BY_SYNCER,
    })  # fmt: skip
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": meta,
        "addressType": plain["addressType"],
        "endpoints": plain.get("endpoints", []),
        "ports": plain.get("ports", []),
    }


def _check_endpoint(endpoint: dict[str, Any], path: str, own_addresses: frozenset[str], view: TenantView) -> None:
    if not endpoint.get("addresses"):
        raise Untranslatable(Reason.MALFORMED, "an endpoint needs an address", f"{path}.addresses")
    if endpoint.get("nodeName", "") not in view.nodes:
        endpoint.pop("nodeName", None)
    for index, address in enumerate(endpoint["addresses"]):
        # compared as texts: an unusual spelling of an address, v4-mapped v6 among them, is not the pod's
        if address not in own_addresses:
            raise Untranslatable(
                Reason.NOT_ALLOWED, f"{address} is not the address of a pod of this cluster", f"{path}.addresses[{index}]"
            )
