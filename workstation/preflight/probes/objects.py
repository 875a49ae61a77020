"""Manifests of the probes. Pure.

Every pod satisfies Pod Security `restricted`, has no token, ends by itself after two minutes, and requests very little.
"""

import importlib.resources
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.objects import Obj
from workstation.preflight.values import Values

LABEL: Final = "bulkhead.dev/preflight"
ROLE: Final = "bulkhead.dev/preflight-role"
PREFIX: Final = "bulkhead-preflight-"
ACCOUNT: Final = "probe"
PORT: Final = 8080
_USER: Final = 65532
_LIFE: Final = 120


@dataclass(frozen=True, slots=True)
class Shape:
    """What all probe pods of a run share."""

    image: str
    pull_policy: str
    pull_secrets: tuple[str, ...]
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]


def shape(values: Values, image: str | None, pull_secrets: tuple[str, ...]) -> Shape:
    """The shape of a run: by default the bulkhead image, scheduled like the controller."""
    return Shape(image or values.images["bulkhead"], values.pull_policy, pull_secrets, values.node_selector, values.tolerations)


def namespace(name: str) -> Obj:
    """The namespace of a run."""
    labels = {LABEL: "true", "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def account() -> Obj:
    """An account without rights, because the namespace's default one may be created late."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}, "automountServiceAccountToken": False}


_RESOURCES: Final[Obj] = {
    "requests": {"cpu": "5m", "memory": "16Mi", "ephemeral-storage": "1Mi"},
    "limits": {"memory": "64Mi", "ephemeral-storage": "64Mi"},
}


def pod(shape: Shape, role: str, order: Mapping[str, Any], *, env: Mapping[str, str] | None = None) -> Obj:
    """A pod that runs the program."""
    source = importlib.resources.files(__package__).joinpath("program.py").read_text(encoding="utf-8")
    command = ["python3", "-c", source, json.dumps(order)]
    return _pod(shape, role, shape.image, command, [{"name": name, "value": value} for name, value in (env or {}).items()])


def image_pod(shape: Shape, role: str, image: str) -> Obj:
    """A pod whose only purpose is to pull its image; no image has its command.

    With a pull secret the image is always pulled, because the secret would not be tested on a node that has the image.
    """
    made = _pod(shape, role, image, ["/bulkhead-preflight"], [])
    if shape.pull_secrets and shape.pull_policy == "IfNotPresent":
        made["spec"]["containers"][0]["imagePullPolicy"] = "Always"
    return made


def with_claim(made: Obj, claim: str) -> Obj:
    """The pod with a claim at /data."""
    spec = dict(made["spec"])
    spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    spec["containers"] = [main | {"volumeMounts": [{"name": "data", "mountPath": "/data"}]} for main in spec["containers"]]
    return made | {"spec": spec}


def on_nodes(made: Obj, nodes: list[str]) -> Obj:
    """The pod on one of these nodes, whatever their taints."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": nodes[:1]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    return made | {"spec": made["spec"] | {"affinity": affinity, "tolerations": [{"operator": "Exists"}], "nodeSelector": {}}}


def in_user_namespace(made: Obj) -> Obj:
    """The pod in a user namespace of its own."""
    return made | {"spec": made["spec"] | {"hostUsers": False}}


def claim(name: str, class_name: str, mode: str) -> Obj:
    """A small claim."""
    spec = {"accessModes": [mode], "storageClassName": class_name, "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def privileged_pod() -> Obj:
    """A pod that a namespace labelled `restricted` must refuse."""
    container = {"name": "probe", "image": "probe", "securityContext": {"privileged": True}}
    spec = {"serviceAccountName": ACCOUNT, "automountServiceAccountToken": False, "hostPID": True, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "privileged"}, "spec": spec}


def policies(host_api: Iterable[tuple[str, int]]) -> list[Obj]:
    """One policy for each question; each selects its own pod (see `judge.network`)."""
    opened = tuple(host_api)
    ports = sorted({port for _, port in opened})
    return [
        _policy("door", {"ingress": [{"from": [_role("allowed"), _role("confined")], "ports": [_tcp(PORT)]}]}),
        _policy("confined", {"egress": [{"to": [_role("open")], "ports": [_tcp(PORT)]}]}),
        # As the chart opens it for controller and syncers.
        _policy("caller", {"egress": [{"to": [{"ipBlock": {"cidr": cidr}}], "ports": [_tcp(port)]} for cidr, port in opened]}),
        _policy("anywhere", {"egress": [{"ports": [_tcp(port)]} for port in ports]}),
        _policy("entity", {"egress": []}),
    ]


def entity_policy() -> Obj:
    """What the chart opens with hostAPIBy: CiliumEntity, for the pod `entity`."""
    spec = {"endpointSelector": {"matchLabels": {ROLE: "entity"}}, "egress": [{"toEntities": ["kube-apiserver"]}]}
    return {"apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy", "metadata": {"name": "entity"}, "spec": spec}


def _policy(role: str, rules: Obj) -> Obj:
    (way,) = rules
    spec = {"podSelector": {"matchLabels": {ROLE: role}}, "policyTypes": [way.capitalize()], **rules}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": role}, "spec": spec}


def _role(role: str) -> Obj:
    return {"podSelector": {"matchLabels": {ROLE: role}}}


def _tcp(port: int) -> Obj:
    return {"protocol": "TCP", "port": port}


def _pod(shape: Shape, role: str, image: str, command: list[str], env: list[Obj]) -> Obj:
    container = {
        "name": "probe",
        "image": image,
        "imagePullPolicy": shape.pull_policy,
        "command": command,
        "env": env,
        "resources": _RESOURCES,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec = {
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "activeDeadlineSeconds": _LIFE,
        "nodeSelector": dict(shape.node_selector),
        "tolerations": [dict(toleration) for toleration in shape.tolerations],
        "imagePullSecrets": [{"name": secret} for secret in shape.pull_secrets],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # Policies must also work between nodes.
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {LABEL: "true"}},
            }
        ],
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role, "labels": {LABEL: "true", ROLE: role}}, "spec": spec}
