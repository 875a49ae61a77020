"""The host Services of a plane, each at a fixed address of the tenant's slice, and the ServiceCIDR of the slice.

The API server's Service publishes the only pod of a plane before it is ready: a starting plane is then reachable the moment it
listens, and the address of a plane that is down refuses connections instead of dropping packets.
"""

from bulkhead.api.objects import Obj
from controller.plane.parts import metadata
from controller.plane.spec import (
    API_PORT,
    DNS,
    DNS_PORT,
    ETCD_PEER_PORT,
    GPU_METRICS_PORT,
    ISSUERS_PORT,
    PEERS,
    PLANE,
    SHIM,
    SHIM_PORT,
    SYNCER,
    PlaneSpec,
)


def service_cidr(spec: PlaneSpec) -> Obj:
    """The host object that makes the tenant's slice available to Services; it has the name of the plane's namespace."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": metadata(spec, spec.namespace),
        "spec": {"cidrs": [spec.service_slice]},
    }


def services(spec: PlaneSpec) -> list[Obj]:
    """The API server, DNS and kubelet shim Services, and the headless one that names the StatefulSet's pods."""
    # Of several members, those that do not serve are left out.
    alone = spec.control_plane.replicas == 1
    return [
        _service(spec, PLANE, PLANE, spec.api_address, [_port("https", "TCP", 443, API_PORT)], publishNotReadyAddresses=alone),
        _service(
            spec,
            DNS,
            DNS,
            spec.dns_address,
            [_port("dns", "UDP", 53, DNS_PORT), _port("dns-tcp", "TCP", 53, DNS_PORT)],
        ),
        _service(
            spec,
            SHIM,
            SYNCER,
            spec.shim_address,
            [_port("https", "TCP", SHIM_PORT, SHIM_PORT), *_issuers(spec), *_gpu_metrics(spec)],
        ),
        _service(
            spec,
            PEERS,
            PLANE,
            "None",
            [_port("peer", "TCP", ETCD_PEER_PORT, ETCD_PEER_PORT)],
            publishNotReadyAddresses=True,
        ),
    ]


def _issuers(spec: PlaneSpec) -> list[Obj]:
    return [_port("issuers", "TCP", ISSUERS_PORT, ISSUERS_PORT)] if spec.access.issuers else []


def _gpu_metrics(spec: PlaneSpec) -> list[Obj]:
    return [_port("gpu-metrics", "TCP", GPU_METRICS_PORT, GPU_METRICS_PORT)] if spec.installation.gpu_metrics else []


def _service(spec: PlaneSpec, name: str, component: str, address: str, ports: list[Obj], **more: bool) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(spec, name, namespace=spec.namespace, component=component),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "selector": metadata(spec, name, component=component)["labels"],
            "ports": ports,
            **more,
        },
    }


def _port(name: str, protocol: str, port: int, target: int) -> Obj:
    return {"name": name, "protocol": protocol, "port": port, "targetPort": target}
