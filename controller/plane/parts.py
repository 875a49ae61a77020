"""The pieces that every builder shares: metadata, the security context, probes, volumes.

Pure, and small on purpose: every pod of a plane is hardened here, once.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from controller.plane import placement
from controller.plane.spec import CONFIG_ANNOTATION, LEAF_ANNOTATION, USER, PlaneSpec

CONTAINER_SECURITY: Final[Obj] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def metadata(
    spec: PlaneSpec,
    name: str,
    *,
    namespace: str | None = None,
    component: str | None = None,
    annotations: Mapping[str, str] | None = None,
    extra_labels: Mapping[str, str] | None = None,
) -> Obj:
    """The metadata of a tenant's object on the host."""
    meta: Obj = {"name": name, "labels": labels.made_for(spec.tenant, component) | dict(extra_labels or {})}
    if namespace is not None:
        meta["namespace"] = namespace
    if annotations:
        meta["annotations"] = dict(annotations)
    return meta


def pod_spec(spec: PlaneSpec, containers: list[Obj], volumes: list[Obj], **more: Any) -> Obj:
    """A hardened pod: not root, no token, no service environment, and a higher priority than tenants' pods."""
    pod: Obj = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": containers,
        "volumes": volumes,
    }
    if spec.control_plane.priority_class:
        pod["priorityClassName"] = spec.control_plane.priority_class
    if spec.images.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in spec.images.pull_secrets]
    return pod | spec.control_plane.placement.of_pod() | more


def bound(pod: Obj) -> Obj:
    """A pod with a volume, which stays on a silent node."""
    return pod | {"tolerations": placement.staying(pod.get("tolerations", ()))}


def deployment(spec: PlaneSpec, name: str, pod: Obj, *, leaf: str, config: str, strategy: Obj, replicas: int = 1) -> Obj:
    """A Deployment of one pod next to the plane; `leaf` and `config` are digests of what the process reads only once.

    The pod holds nothing, so it leaves a silent node soon.
    """
    template = metadata(spec, name, component=name, annotations={LEAF_ANNOTATION: leaf, CONFIG_ANNOTATION: config})
    del template["name"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(spec, name, namespace=spec.namespace, component=name),
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 1,
            "strategy": strategy,
            "selector": {"matchLabels": metadata(spec, name, component=name)["labels"]},
            "template": {
                "metadata": template,
                "spec": pod | {"tolerations": placement.leaving(pod.get("tolerations", ()))},
            },
        },
    }


def probe(path: str, port: int, *, scheme: str = "HTTP", period: int, failures: int, timeout: int = 5) -> Obj:
    """An HTTP probe for the kubelet."""
    return {
        "httpGet": {"path": path, "port": port, "scheme": scheme},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": timeout,
    }


def secret_volume(name: str, secret: str) -> Obj:
    """A volume with all of a Secret's files, readable by the pod's group only."""
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}


def mount(name: str, path: str, *, read_only: bool = True) -> Obj:
    """A volume mount."""
    made: Obj = {"name": name, "mountPath": path}
    return made | {"readOnly": True} if read_only else made
