"""The StatefulSet `plane`: etcd, API server and controller manager in one pod, with etcd's data on a volume claim.

Annotations on the pod template contain digests of what the processes read only at their start (CA certificates, the service
account key, configuration files), so that a change of these restarts the pod. The processes reload leaf certificates from the
mounted Secrets by themselves, which restarts nothing.
"""

from bulkhead.api.objects import Obj
from controller.plane import apiserver, audit, auditreceiver, controller_manager, etcd
from controller.plane.parts import bound, metadata, pod_spec, secret_volume
from controller.plane.spec import CONFIG_ANNOTATION, PEERS, PLANE, TRUST_ANNOTATION, PlaneSpec

CONFIG_MAP = "plane-config"
ON_DELETE = "OnDelete"


def stateful_set(spec: PlaneSpec, *, trust: str, config: str) -> Obj:
    """The StatefulSet; `trust` and `config` are digests of what only a restart loads."""
    template_meta = metadata(spec, PLANE, component=PLANE, annotations={TRUST_ANNOTATION: trust, CONFIG_ANNOTATION: config})
    del template_meta["name"]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(spec, PLANE, namespace=spec.namespace, component=PLANE),
        "spec": {
            "replicas": members(spec),
            "serviceName": PEERS,
            "podManagementPolicy": "Parallel",
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": _selector(spec)},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            **strategy(spec.control_plane.replicas),
            "template": {"metadata": template_meta, "spec": _pod(spec)},
            "volumeClaimTemplates": [claim(spec)],
        },
    }


def strategy(replicas: int) -> Obj:
    """Which pods a changed template replaces: the only one at once; of several, none by itself (`controller.plane.rollout`)."""
    return {"updateStrategy": {"type": ON_DELETE}} if replicas > 1 else {}


def members(spec: PlaneSpec) -> int:
    """How many pods run: none while a restore is at work."""
    return 0 if spec.restoring is not None else spec.control_plane.replicas


def claim(spec: PlaneSpec) -> Obj:
    """The claim of each pod's volume, as the StatefulSet makes it."""
    claim_spec: Obj = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": spec.storage.template_size}}}
    if spec.storage.template_class is not None:
        claim_spec["storageClassName"] = spec.storage.template_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(spec, "data", component=PLANE),
        "spec": claim_spec,
    }


def config_map(spec: PlaneSpec, shim_ca: str) -> Obj:
    """The API server's configuration files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(spec, CONFIG_MAP, namespace=spec.namespace, component=PLANE),
        "data": apiserver.config_files(spec, shim_ca),
    }


def disruption_budget(spec: PlaneSpec) -> Obj:
    """With one replica a drain may evict the plane; with three, one pod at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(spec, PLANE, namespace=spec.namespace, component=PLANE),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _selector(spec)}},
    }


def _selector(spec: PlaneSpec) -> Obj:
    return metadata(spec, PLANE, component=PLANE)["labels"]  # type: ignore[no-any-return]


def _pod(spec: PlaneSpec) -> Obj:
    more: Obj = {"terminationGracePeriodSeconds": 20} | auditreceiver.names(spec.audit)
    if spec.control_plane.replicas > 1:
        apart = spec.control_plane.placement.apart(_selector(spec))
        more |= {"topologySpreadConstraints": apart} if apart else {}
        zones = spec.control_plane.placement.other_zones(_selector(spec))
        more |= {"affinity": zones} if zones else {}
    pod = pod_spec(
        spec,
        [etcd.container(spec), apiserver.container(spec), controller_manager.container(spec), *audit.readers(spec)],
        [
            secret_volume("pki-etcd", "pki-etcd"),
            secret_volume("pki-apiserver", "pki-apiserver"),
            secret_volume("pki-controller-manager", "pki-controller-manager"),
            {"name": "config", "configMap": {"name": CONFIG_MAP, "defaultMode": 0o444}},
            *audit.volumes(spec.audit),
            *auditreceiver.volumes(spec.audit),
        ],
        **more,
    )
    return bound(pod)
