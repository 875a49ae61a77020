"""The host's CoreDNS as Kubernetes objects. Pure."""

from typing import Any

from workstation.hostcluster.component import CLUSTER_DNS, CLUSTER_DOMAIN, NODE_NAME

NAMESPACE = "kube-system"
_LABELS = {"k8s-app": "kube-dns"}
_PORT = 10053  # a port that needs no privileges

COREFILE = f"""\
.:{_PORT} {{
    errors
    health :8080 {{
        lameduck 5s
    }}
    ready :8181
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 5
    }}
    prometheus :9153
    forward . /etc/resolv.conf {{
        max_concurrent 1000
    }}
    cache 5
    loop
    reload
    loadbalance
}}
"""


def _named(kind: str, name: str, api: str = "v1", *, namespaced: bool = True) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {**_LABELS, "app.kubernetes.io/managed-by": "bulkhead"}}
    if namespaced:
        metadata["namespace"] = NAMESPACE
    return {"apiVersion": api, "kind": kind, "metadata": metadata}


def _access() -> list[dict[str, Any]]:
    role = _named("ClusterRole", "system:coredns", "rbac.authorization.k8s.io/v1", namespaced=False)
    role["rules"] = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    binding = _named("ClusterRoleBinding", "system:coredns", "rbac.authorization.k8s.io/v1", namespaced=False)
    binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": "coredns", "namespace": NAMESPACE}]
    return [_named("ServiceAccount", "coredns"), role, binding]


def _pod(image: str, config_digest: str) -> dict[str, Any]:
    def probe(path: str, port: int, period: int) -> dict[str, Any]:
        return {"httpGet": {"path": path, "port": port}, "periodSeconds": period, "timeoutSeconds": 5}

    container = {
        "name": "coredns",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "env": [{"name": "GOGC", "value": "50"}, {"name": "GOMEMLIMIT", "value": "96MiB"}],
        "ports": [
            {"name": "dns", "containerPort": _PORT, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": _PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9153, "protocol": "TCP"},
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "48Mi"}, "limits": {"memory": "170Mi"}},
        "readinessProbe": probe("/ready", 8181, 2),
        "livenessProbe": probe("/health", 8080, 10),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    spec = {
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "nodeSelector": {
            "kubernetes.io/hostname": NODE_NAME
        },  # next to the control plane: if another node is lost, names still resolve
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    return {"metadata": {"labels": _LABELS, "annotations": {"bulkhead.dev/config": config_digest}}, "spec": spec}


def _service() -> dict[str, Any]:
    service = _named("Service", "kube-dns")
    service["spec"] = {
        "clusterIP": CLUSTER_DNS,
        "selector": _LABELS,
        "ports": [
            {"name": "dns", "port": 53, "targetPort": _PORT, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53, "targetPort": _PORT, "protocol": "TCP"},
        ],
    }
    return service


def dns_objects(image: str, config_digest: str) -> list[dict[str, Any]]:
    """All objects for name resolution in the host cluster."""
    config = _named("ConfigMap", "coredns")
    config["data"] = {"Corefile": COREFILE}
    deployment = _named("Deployment", "coredns", "apps/v1")
    deployment["spec"] = {
        "replicas": 1,
        "selector": {"matchLabels": _LABELS},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}},
        "template": _pod(image, config_digest),
    }
    return [*_access(), config, _service(), deployment]
