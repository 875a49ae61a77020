"""The view and the pod that the tests of translation start from, and merging of a case's changes into them."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from bulkhead.api import devices
from bulkhead.api.objects import Obj
from bulkhead.api.serviceenv import ServiceEnv, ServicePort
from syncer.translate import TenantView, Toleration

HERE = Path(__file__).resolve().parents[1] / "syncer" / "translate"
VIEW = TenantView(
    tenant="red",
    tenant_uid="7d1f3c2a-0000-4000-8000-000000000001",
    dns_address="10.112.4.10",
    api_address="10.112.4.1",
    api_environment="kubernetes-environment",
    device_environment="devices-v1",
    kubelet_address="10.112.4.11",
    public_address="10.112.4.12",
    service_slice="10.112.4.0/22",
    enforced_node_selector={"bulkhead.dev/pool": "shared"},
    enforced_tolerations=(Toleration("nvidia.com/gpu", "Exists", effect="NoSchedule"),),
    allowed_tolerations=tuple(
        Toleration(key, "Exists") for key in ("a", "b", "kwok.x-k8s.io/node", "mine", "new", "old", "team")
    ),
    allowed_priority_classes=frozenset({"batch", "interactive"}),
    allowed_runtime_classes=frozenset({"sandboxed"}),
    allowed_resources=frozenset({"rdma/shared"}),
    services={
        "team": (ServiceEnv("db", "10.112.4.30", (ServicePort("sql", 5432),)),),
        "other": (ServiceEnv("hidden", "10.112.4.31", (ServicePort("", 80),)),),
    },
    namespace_labels={"team": {"stage": "test"}},
    nodes=frozenset({"gpu-a", "gpu-b"}),
)
POD: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-0", "namespace": "team", "uid": "0b8c7a52-0000-4000-8000-000000000002", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "docker.io/library/busybox:1.36"}]},
}
_SETS = (
    "allowed_priority_classes",
    "allowed_runtime_classes",
    "allowed_resources",
    "apparmor_profiles",
    "cordoned",
    "gated_resources",
    "gpu_resources",
    "ingress_classes",
    "nodes",
    "seccomp_profiles",
    "snapshot_classes",
    "storage_classes",
)


def pod(spec: Any = None, metadata: Any = None) -> Obj:
    """The sample pod with changes merged in; a list in `spec` replaces the whole list."""
    return merged(POD, {"spec": spec or {}, "metadata": metadata or {}})


def container(**fields: Any) -> Obj:
    """The sample pod with fields set on its only container."""
    return pod({"containers": [POD["spec"]["containers"][0] | fields]})


def merged(one: Any, other: Any) -> Any:
    """Mappings are merged, everything else is replaced; the result shares nothing with the inputs."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return {key: merged(one.get(key), other[key]) if key in other else copy.deepcopy(one[key]) for key in keys}
    return copy.deepcopy(other)


def effective_env(container: Obj, **image: str) -> dict[str, str]:
    """The environment with which a host container starts, for variables with plain values: the image's, then those of the pod.

    For `envFrom` it knows only the ConfigMaps of the platform that clear device variables.
    """
    closing = {
        devices.environment_name(devices.ENVIRONMENT, vendor): devices.environment(vendor)
        for vendor in (None, *devices.VENDORS)
    }
    found = dict(image)
    for entry in container.get("envFrom") or ():
        found |= closing.get((entry.get("configMapRef") or {}).get("name"), {})
    return found | {entry["name"]: entry["value"] for entry in container.get("env") or () if "value" in entry}


def view(changes: Any = None) -> TenantView:
    """The sample view with fields replaced, in the form that YAML can express."""
    plain = dict(changes or {})
    for key in _SETS:
        if key in plain:
            plain[key] = frozenset(plain[key])
    if "ingress_domains" in plain:
        plain["ingress_domains"] = tuple(plain["ingress_domains"])
    for field in {"enforced_tolerations", "allowed_tolerations"} & plain.keys():
        plain[field] = tuple(Toleration(**entry) for entry in plain[field])
    return replace(VIEW, **plain)
