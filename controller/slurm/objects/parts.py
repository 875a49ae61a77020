"""The pieces that every object of a Slurm cluster shares: metadata, security context, probes, volumes.

Pure. Every pod is one that Pod Security's level *baseline* admits: no privileges, no host namespaces, and no capability beyond
those that a daemon needs to become its users.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from controller.slurm.spec import (
    CONFIG_ANNOTATION,
    HOME,
    KEYS,
    NAME_LABEL,
    NAMESPACE,
    PART_OF,
    TOKEN_KEY,
    USERS,
    VOUCHING_KEY,
    SlurmSpec,
    Volume,
    image,
)


def marks(component: str) -> dict[str, str]:
    """The labels of everything that belongs to a component; also its selector."""
    return {labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD, PART_OF: "slurm", NAME_LABEL: component}


# What is ours in the cluster's namespace, as a selector.
OURS = f"{labels.MANAGED_BY}={labels.MANAGED_BY_BULKHEAD},{PART_OF}=slurm"


def metadata(
    name: str, component: str, *, annotations: Mapping[str, str] | None = None, extra: Mapping[str, str] | None = None
) -> Obj:
    """The metadata of an object in the cluster's namespace."""
    meta: Obj = {"name": name, "namespace": NAMESPACE, "labels": marks(component) | dict(extra or {})}
    return meta | {"annotations": dict(annotations)} if annotations else meta


def digest(value: Any) -> str:
    """A short digest of anything that JSON can write."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def security(daemon: str) -> Obj:
    """The security context of a daemon's container: it begins as root without privileges and becomes its user."""
    return {
        "privileged": False,
        "runAsUser": 0,
        "runAsGroup": 0,
        "capabilities": {"drop": ["ALL"], "add": sorted(image.CAPABILITIES[daemon])},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container(spec: SlurmSpec, daemon: str, *, resources: Obj, mounts: list[Obj], **more: Any) -> Obj:
    """A container of the Slurm image that runs the daemon of this name."""
    return {
        "name": daemon,
        "image": spec.images.slurm,
        "imagePullPolicy": spec.image_pull_policy,
        "command": [image.ENTRYPOINT, daemon],
        "securityContext": security(daemon),
        "resources": resources,
        "volumeMounts": [mount("run", image.RUN_PATH, read_only=False), mount("users", image.USERS_PATH), *mounts],
    } | more


def pod(containers: list[Obj], volumes: list[Obj], **more: Any) -> Obj:
    """A pod without token and without variables about other people's Services."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": containers,
        # Keys are copied to /run, so that none of them touches a disk.
        "volumes": [empty("run", medium="Memory", size="64Mi"), *volumes],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    } | more


def http_probe(path: str, port: int, *, period: int, failures: int, timeout: int = 5) -> Obj:
    """An HTTP probe by the kubelet."""
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": timeout,
    }


def tcp_probe(port: int, *, period: int, failures: int, timeout: int = 3) -> Obj:
    """A probe that only asks whether the port is open."""
    return {
        "tcpSocket": {"port": port},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": timeout,
    }


def variable(name: str, value: str) -> Obj:
    """An environment variable."""
    return {"name": name, "value": value}


def mount(name: str, path: str, *, read_only: bool = True) -> Obj:
    """A volume mount."""
    made: Obj = {"name": name, "mountPath": path}
    return made | {"readOnly": True} if read_only else made


def workload(kind: str, name: str, config: str, pod_spec: Obj, **more: Any) -> Obj:
    """A StatefulSet or Deployment of one component; `config` is a digest of what only a restart takes over."""
    meta = {"labels": marks(name), "annotations": {CONFIG_ANNOTATION: config}}
    made: Obj = {
        "replicas": 1,
        "revisionHistoryLimit": 2,
        "selector": {"matchLabels": marks(name)},
        "template": {"metadata": meta, "spec": pod_spec},
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata(name, name), "spec": made | more}


def claim_template(name: str, component: str, volume: Volume) -> Obj:
    """The volume of a StatefulSet's pod."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": marks(component)},
        "spec": claim_spec(volume, "ReadWriteOnce"),
    }


def keys_volume(*, tokens: bool = False) -> Obj:
    """The key that daemons vouch with, for the entrypoint alone, which copies it to where the daemon's user may read it.

    `tokens`: with the key of the REST API's tokens too, for the daemons that verify them. Its readers can make tokens of any
    user and any lifetime, so no pod that runs jobs or that users log in to has it.
    """
    names = (VOUCHING_KEY, TOKEN_KEY) if tokens else (VOUCHING_KEY,)
    items = [{"key": name, "path": name} for name in names]
    return {"name": "keys", "secret": {"secretName": KEYS, "defaultMode": 0o400, "items": items}}


def users_volume() -> Obj:
    """The users of the cluster."""
    return {"name": "users", "configMap": {"name": USERS, "defaultMode": 0o444}}


def home_volume() -> Obj:
    """The home directories that all nodes share."""
    return {"name": "home", "persistentVolumeClaim": {"claimName": HOME}}


def empty(name: str, *, medium: str | None = None, size: str | None = None) -> Obj:
    """A volume that lives as long as its pod."""
    source = ({"medium": medium} if medium else {}) | ({"sizeLimit": size} if size else {})
    return {"name": name, "emptyDir": source}


def claim_spec(volume: Volume, mode: str) -> Obj:
    """The spec of a PersistentVolumeClaim."""
    made: Obj = {"accessModes": [mode], "resources": {"requests": {"storage": volume.size}}}
    return made | {"storageClassName": volume.storage_class} if volume.storage_class is not None else made


def service(name: str, component: str, port: int, port_name: str, *, headless: bool = False, target: int | None = None) -> Obj:
    """A Service in front of a component; headless ones name pods also before they are ready."""
    made: Obj = {"selector": marks(component), "ports": [_port(port_name, port, target or port)]}
    if headless:
        made |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(name, component), "spec": made}


def _port(name: str, port: int, target: int) -> Obj:
    return {"name": name, "protocol": "TCP", "port": port, "targetPort": target}
