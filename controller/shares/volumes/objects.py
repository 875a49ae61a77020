"""Builds the volume and the claim of a grant, on the host and in a plane. Pure."""

from typing import Final

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from controller.shares.volumes.offers import Grant

# The same as for the syncer's volumes: it shows nothing of the host's storage.
DRIVER: Final = "volumes.bulkhead.dev"
_READ_ONLY: Final = "ro"
_NOTE: Final = "Shared by the platform: a pod mounts it by the name of this claim. If you delete the claim, it is recreated."


def host_volume(grant: Grant) -> Obj:
    """The tenant's volume on the host, reserved for the tenant's claim; the data stays when the volume is deleted."""
    options = [option for option in grant.options if option not in ("rw", _READ_ONLY)]
    spec: Obj = {
        "capacity": {"storage": grant.capacity},
        "accessModes": _modes(grant),
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": names.work_namespace(grant.tenant),
            "name": grant.claim,
        },
        "volumeMode": "Filesystem",
        "mountOptions": [*options, _READ_ONLY] if grant.read_only else options,
        grant.type: dict(grant.source),
    }
    if grant.affinity:
        spec["nodeAffinity"] = dict(grant.affinity)
    marks = {labels.SHARED_DIGEST: grant.digest}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": grant.volume, "labels": _host_labels(grant), "annotations": marks},
        "spec": spec,
    }


def host_claim(grant: Grant) -> Obj:
    """The claim of that volume. It requests one byte, because shared data does not count against the tenant's quota."""
    spec: Obj = {
        "accessModes": _modes(grant),
        "storageClassName": "",
        "volumeName": grant.volume,
        "resources": {"requests": {"storage": "1"}},
    }
    meta = {"name": grant.claim, "namespace": names.work_namespace(grant.tenant), "labels": _host_labels(grant)}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def plane_volume_name(claim: str, namespace: str) -> str:
    """The name of the volume that a plane shows for one claim."""
    return f"{claim}.{namespace}"


def plane_volume(grant: Grant, namespace: str) -> Obj:
    """The volume that the tenant sees."""
    name = plane_volume_name(grant.claim, namespace)
    spec: Obj = {
        "capacity": {"storage": grant.capacity},
        "accessModes": _modes(grant),
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": grant.claim},
        "volumeMode": "Filesystem",
        "csi": {"driver": DRIVER, "volumeHandle": name, "readOnly": grant.read_only},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": _plane_meta(grant, name), "spec": spec}


def plane_claim(grant: Grant, namespace: str) -> Obj:
    """The claim that the tenant's pods name."""
    spec: Obj = {
        "accessModes": _modes(grant),
        "storageClassName": "",
        "volumeName": plane_volume_name(grant.claim, namespace),
        "resources": {"requests": {"storage": grant.capacity}},
    }
    meta = _plane_meta(grant, grant.claim) | {"namespace": namespace, "annotations": {"kubernetes.io/description": _NOTE}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def bound_status(grant: Grant) -> Obj:
    """The status of that claim; the plane runs no volume binder that would write it."""
    return {"phase": "Bound", "accessModes": _modes(grant), "capacity": {"storage": grant.capacity}}


def _modes(grant: Grant) -> list[str]:
    return ["ReadOnlyMany"] if grant.read_only else ["ReadWriteMany"]


def _host_labels(grant: Grant) -> dict[str, str]:
    return {**labels.made_for(grant.tenant), labels.SHARED_VOLUME: grant.name}


def _plane_meta(grant: Grant, name: str) -> Obj:
    # The platform's label keeps the syncer from mirroring it: the host's claim exists already.
    return {"name": name, "labels": {labels.PLATFORM: "true", labels.SHARED_VOLUME: grant.name}}
