"""The Service by which a plane's Prometheus finds the metrics of the tenant's GPUs. Pure.

It has no selector: its one endpoint is the syncer, at the address under which pods reach it. No address is taken for it, and
nothing of it is mirrored. The ConfigMap has the CA of that endpoint's certificate.
"""

from typing import Final

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from controller.plane.spec import GPU_METRICS_PORT, PlaneSpec

NAME: Final = "bulkhead-gpu-metrics"
NAMESPACE: Final = "kube-system"


def objects(spec: PlaneSpec, ca: bytes) -> tuple[Obj, ...]:
    """Service, EndpointSlice and ConfigMap; `ca` verifies the endpoint, PEM."""
    port = {"name": "gpu-metrics", "port": GPU_METRICS_PORT, "protocol": "TCP", "appProtocol": "https"}
    return (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _metadata(),
            "spec": {"clusterIP": "None", "ports": [{**port, "targetPort": GPU_METRICS_PORT}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": _metadata(
                {"kubernetes.io/service-name": NAME, "endpointslice.kubernetes.io/managed-by": labels.MANAGED_BY_BULKHEAD}
            ),
            "addressType": "IPv4",
            "endpoints": [{"addresses": [spec.shim_address], "conditions": {"ready": True}}],
            "ports": [port],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(), "data": {"ca.crt": ca.decode("ascii")}},
    )


def _metadata(more: dict[str, str] | None = None) -> Obj:
    marks = {labels.PLATFORM: "true", labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD, "app.kubernetes.io/name": NAME}
    return {"name": NAME, "namespace": NAMESPACE, "labels": marks | (more or {})}
