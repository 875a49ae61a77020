"""Decides what a claim or a volume needs. Pure: reads objects, touches neither disk nor API.

A claim of class `local` is served once the scheduler has chosen a node (WaitForFirstConsumer), a claim of class
`local-immediate` at once and on the first node. A volume is removed only if it is Released, its policy is Delete, and its path
is the one that this provisioner would have assigned. An annotation alone never leads to the removal of a folder, because any
user who may create volumes can write it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bulkhead.api.claimnotes import SELECTED_NODE

PROVISIONER = "bulkhead.dev/local"
CLASS = "local"
IMMEDIATE_CLASS = "local-immediate"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


def volume_name(claim_uid: str) -> str:
    """The volume of a claim."""
    return f"pvc-{claim_uid}"


def _wanted_provisioner(claim: dict[str, Any]) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    return str(annotations.get("volume.kubernetes.io/storage-provisioner") or "")


def wants_volume(claim: dict[str, Any]) -> bool:
    """Whether a claim is for this provisioner, and still without a volume."""
    spec, metadata = claim["spec"], claim["metadata"]
    if spec.get("volumeName") or metadata.get("deletionTimestamp") or _wanted_provisioner(claim) != PROVISIONER:
        return False
    return not spec.get("selector") and spec.get("volumeMode", "Filesystem") == "Filesystem"


def volume_for(claim: dict[str, Any], storage_class: dict[str, Any], folders: Mapping[str, Path]) -> dict[str, Any] | None:
    """The volume to create for a claim of a class, or None if there is nothing to do yet.

    `folders` are those of the real nodes. A volume of a simulated node gets a path in the first node's, which nothing opens.
    """
    here = next(iter(folders))
    spec, metadata = claim["spec"], claim["metadata"]
    node = (metadata.get("annotations") or {}).get(SELECTED_NODE)
    if storage_class.get("volumeBindingMode") == "Immediate":
        node = node or here
    if not node or not wants_volume(claim):
        return None
    name = volume_name(metadata["uid"])
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": "Filesystem",
            "storageClassName": spec.get("storageClassName", ""),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "local": {"path": str(folders.get(node, folders[here]) / name)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }


def volume_node(volume: dict[str, Any]) -> str:
    """The node of a volume of this provisioner."""
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return str(terms[0]["matchExpressions"][0]["values"][0])


def folder_to_remove(volume: dict[str, Any], folders: Mapping[str, Path]) -> Path | None:
    """The folder of a volume that should be removed, or None."""
    spec, metadata = volume["spec"], volume["metadata"]
    if (metadata.get("annotations") or {}).get(_PROVISIONED_BY) != PROVISIONER:
        return None
    if spec.get("persistentVolumeReclaimPolicy") != "Delete" or (volume.get("status") or {}).get("phase") != "Released":
        return None
    name, path = volume_name((spec.get("claimRef") or {}).get("uid", "")), (spec.get("local") or {}).get("path")
    if name != metadata["name"]:
        return None
    return next((folder / name for folder in folders.values() if path == str(folder / name)), None)
