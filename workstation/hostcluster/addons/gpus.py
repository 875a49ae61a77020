"""The Service by which a cluster finds the exporters of the host's simulated GPUs. Pure.

They run as processes on the nodes' own network, so the Service has no selector, and its EndpointSlice names the nodes.
"""

from collections.abc import Iterable
from typing import Any, Final

from workstation.hostcluster.node import Node

NAME: Final = "simulated-gpu-exporter"
NAMESPACE: Final = "kube-system"
PORT: Final = 9400


def endpoint(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Service and EndpointSlice."""
    labels = {"k8s-app": NAME, "app.kubernetes.io/managed-by": "bulkhead"}
    metadata = {"name": NAME, "namespace": NAMESPACE, "labels": labels}
    port = {"name": "metrics", "port": PORT, "protocol": "TCP"}
    marks = labels | {"kubernetes.io/service-name": NAME, "endpointslice.kubernetes.io/managed-by": "bulkhead"}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": "None", "ports": [port]}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata | {"labels": marks},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": [node.address], "conditions": {"ready": True}, "nodeName": node.name} for node in nodes
            ],
            "ports": [port],
        },
    ]
