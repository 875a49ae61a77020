"""The Kubernetes objects of the host's metrics-server: its rights, its address, and the API that it serves. Pure.

It runs as a process and not as a pod. A pod would need an image, and the kubelet that it reads from would have to start it
first. Clients reach it only through the API server.
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
    """What it may read: usage from kubelets, names from the API server."""
    role = _named(_RBAC, "ClusterRole", USER)
    role["rules"] = [
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
    ]
    return role


def _readers_of_it() -> dict[str, Any]:
    """Lets users who may view a namespace see the usage of its pods."""
    aggregate = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    role = _named(_RBAC, "ClusterRole", "system:aggregated-metrics-reader")
    role["metadata"]["labels"] |= aggregate
    role["rules"] = [{"apiGroups": [_GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}]
    return role


def metrics_access() -> list[dict[str, Any]]:
    """Its rights, and those of its readers.

    They are the rights of upstream's manifests without the role `extension-apiserver-authentication-reader`: metrics-server
    gets as files what that role would let it read.
    """
    delegator = _bound(f"{NAME}:system:auth-delegator", "system:auth-delegator")
    return [_reader(), _bound(USER, USER), delegator, _readers_of_it()]


def metrics_endpoint() -> list[dict[str, Any]]:
    """Where the API server finds it: a Service without a selector, because it is not a pod."""
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

    While the API is registered and its server does not answer, deleted namespaces remain, because they cannot be searched for
    the API's objects. This lasts until the supervisor has restarted the server. So register the API only once the server
    answers.
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
