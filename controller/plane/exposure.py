"""The object that makes a plane reachable from outside the host; the plane's own Service stays as it is.

    Proxy         Service `plane-proxy`, headless: a record that the proxy reads (`frontdoor.routes`), and no address
    LoadBalancer  Service `plane-public`, whose address the host's load balancer reports in its status
    Gateway       TLSRoute `plane`, to the plane's own Service

TLS ends in the plane in every case, so nothing on the way holds a key. The API server reloads a changed certificate by itself
(docs/decisions/0035).
"""

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from controller.plane.parts import metadata
from controller.plane.spec import API_PORT, PLANE, PROXY_ROUTE, PUBLIC, PlaneSpec
from controller.plane.ways import Gateway

GATEWAY_GROUP = "gateway.networking.k8s.io"


def is_way(kind: str, name: str) -> bool:
    """Whether an object in a plane's namespace is one that exposes the plane."""
    return kind == "TLSRoute" or (kind == "Service" and name in {PROXY_ROUTE, PUBLIC})


def ways(spec: PlaneSpec) -> list[Obj]:
    """The object of the exposure, as a list; empty if the exposure needs none."""
    exposure = spec.exposure
    if exposure.type == "Proxy" and exposure.hostnames:
        return [_proxied(spec)]
    if exposure.type == "Gateway" and exposure.gateway is not None and exposure.route_version:
        return [_routed(spec, exposure.gateway)]
    return [_balanced(spec)] if exposure.type == "LoadBalancer" else []


def _routed(spec: PlaneSpec, gateway: Gateway) -> Obj:
    parent: Obj = {"group": GATEWAY_GROUP, "kind": "Gateway", "namespace": gateway.namespace, "name": gateway.name}
    if gateway.section:
        parent["sectionName"] = gateway.section
    rule: Obj = {"backendRefs": [{"group": "", "kind": "Service", "name": PLANE, "port": 443, "weight": 1}]}
    return {
        "apiVersion": f"{GATEWAY_GROUP}/{spec.exposure.route_version}",
        "kind": "TLSRoute",
        "metadata": metadata(spec, PLANE, namespace=spec.namespace, component=PLANE),
        "spec": {"parentRefs": [parent], "hostnames": list(spec.exposure.hostnames), "rules": [rule]},
    }


def _proxied(spec: PlaneSpec) -> Obj:
    annotations = {labels.PROXY_HOSTS: ",".join(spec.exposure.hostnames), labels.PROXY_TARGET: spec.api_address}
    meta = metadata(
        spec,
        PROXY_ROUTE,
        namespace=spec.namespace,
        component=PLANE,
        annotations=annotations,
        extra_labels={labels.EXPOSED_BY: labels.EXPOSED_BY_PROXY},
    )
    return _service(spec, meta, {"type": "ClusterIP", "clusterIP": "None"})


def _balanced(spec: PlaneSpec) -> Obj:
    balancer = spec.exposure.balancer
    meta = metadata(
        spec, PUBLIC, namespace=spec.namespace, component=PLANE, annotations=dict(balancer.annotations) if balancer else None
    )
    # An address of the tenant's own slice: any other would be outside it, and could belong to another tenant's slice.
    more: Obj = {"type": "LoadBalancer", "clusterIP": spec.public_address}
    if balancer is not None and balancer.class_name:
        more["loadBalancerClass"] = balancer.class_name
    if balancer is not None and balancer.source_ranges:
        more["loadBalancerSourceRanges"] = list(balancer.source_ranges)
    return _service(spec, meta, more)


def _service(spec: PlaneSpec, meta: Obj, more: Obj) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {
            "selector": metadata(spec, PLANE, component=PLANE)["labels"],
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": API_PORT}],
            "publishNotReadyAddresses": True,
            **more,
        },
    }
