"""The host's metrics-server as Kubernetes objects: what it may read, where it is, and the API that it serves. Pure.

It runs beside the other components and not as a pod: a pod would need an image of its own, and the kubelet that it asks
would have to run it first. Clients reach it through the API server alone.
"""

import base64
from typing import Any

from workstation.hostcluster.component import NODE_ADDRESS, NODE_NAME

NAME = "metrics-server"
NAMESPACE = "kube-system"
USER = "system:metrics-server"  # the subject of its client certificate
PORT = 10448
_GROUP = "metrics.k8s.io"
_RBAC = "rbac.authorization.k8s.io/v1"


def _named(api: str, kind: str, name: str, *, namespaced: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {"k8s-app": NAME, "app.kubernetes.io/managed-by": "bulkhead"}}
    if namespaced:
        metadata["namespace"] = NAMESPACE
    return {"apiVersion": api, "kind": kind, "metadata": metadata}


def _bound(name: str, role: str) -> dict[str, Any]:
    binding = _named(_RBAC, "ClusterRoleBinding", name)
    binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    binding["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]
    return binding


def _reader() -> dict[str, Any]:
    """What it reads: usage from kubelets, names from the API server."""
    role = _named(_RBAC, "ClusterRole", USER)
    role["rules"] = [
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
    ]
    return role


def _readers_of_it() -> dict[str, Any]:
    """Lets those who may view a namespace see what its pods use."""
    aggregate = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    role = _named(_RBAC, "ClusterRole", "system:aggregated-metrics-reader")
    role["metadata"]["labels"] |= aggregate
    role["rules"] = [{"apiGroups": [_GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}]
    return role


def metrics_access() -> list[dict[str, Any]]:
    """Its rights, and those of its readers.

    They are those of upstream's manifests without the role `extension-apiserver-authentication-reader`: what that role lets it
    read, it gets as files.
    """
    delegator = _bound(f"{NAME}:system:auth-delegator", "system:auth-delegator")
    return [_reader(), _bound(USER, USER), delegator, _readers_of_it()]


def metrics_endpoint() -> list[dict[str, Any]]:
    """Where the API server finds it: a service without a selector, since no pod is behind it."""
    service = _named("v1", "Service", NAME, namespaced=True)
    service["spec"] = {"ports": [{"name": "https", "port": 443, "targetPort": PORT, "protocol": "TCP", "appProtocol": "https"}]}
    endpoints = _named("discovery.k8s.io/v1", "EndpointSlice", NAME, namespaced=True)
    endpoints["metadata"]["labels"] |= {
        "kubernetes.io/service-name": NAME,
        "endpointslice.kubernetes.io/managed-by": "bulkhead",
    }
    endpoints |= {
        "addressType": "IPv4",
        "endpoints": [{"addresses": [NODE_ADDRESS], "conditions": {"ready": True}, "nodeName": NODE_NAME}],
        "ports": [{"name": "https", "port": PORT, "protocol": "TCP", "appProtocol": "https"}],
    }
    return [service, endpoints]


def metrics_api(ca: bytes) -> dict[str, Any]:
    """The aggregated API.

    While it is registered and its server does not answer, deleted namespaces stay (they cannot be searched for its objects)
    until the supervisor has started the server again. So it must not be registered before the server answers.
    """
    service = _named("apiregistration.k8s.io/v1", "APIService", f"v1beta1.{_GROUP}")
    service["spec"] = {
        "group": _GROUP,
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": NAMESPACE, "name": NAME, "port": 443},
        "caBundle": base64.b64encode(ca).decode(),
    }
    return service
