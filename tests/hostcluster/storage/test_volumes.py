"""What a claim or a volume needs, without disk and API."""

from pathlib import Path
from typing import Any

import pytest

from workstation.hostcluster.storage.volumes import PROVISIONER, folder_to_remove, volume_for, volume_node, wants_volume

FOLDER = Path("/data/volumes")
FOLDERS = {"real": FOLDER, "second": Path("/data/nodes/second/volumes")}
WAITING = {"reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer"}
RETAINED = WAITING | {"reclaimPolicy": "Retain"}
IMMEDIATE = WAITING | {"volumeBindingMode": "Immediate"}
CLAIM: dict[str, Any] = {
    "metadata": {
        "namespace": "bh-red",
        "name": "data-plane-0",
        "uid": "u-1",
        "annotations": {
            "volume.kubernetes.io/selected-node": "bulkhead-host",
            "volume.kubernetes.io/storage-provisioner": PROVISIONER,
        },
    },
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "local"},
}


def changed(obj: dict[str, Any], **parts: dict[str, Any]) -> dict[str, Any]:
    return obj | {name: {**obj.get(name, {}), **part} for name, part in parts.items()}


def volume(**parts: dict[str, Any]) -> dict[str, Any]:
    made = volume_for(CLAIM, WAITING, FOLDERS)
    assert made is not None
    return changed(made | {"status": {"phase": "Released"}}, **parts)


def test_a_claim_gets_a_volume_on_its_node() -> None:
    made = volume_for(CLAIM, RETAINED, FOLDERS)
    assert made is not None
    assert made["metadata"]["name"] == "pvc-u-1"
    assert made["spec"]["local"] == {"path": "/data/volumes/pvc-u-1"}
    assert made["spec"]["claimRef"]["uid"] == "u-1"
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume_node(made) == "bulkhead-host"


@pytest.mark.parametrize(
    "parts",
    [
        {"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": PROVISIONER}}},
        {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "bulkhead-host"}}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"spec": {"volumeName": "bound"}},
        {"spec": {"volumeMode": "Block"}},
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
    ],
    ids=["no node yet", "another provisioner", "being deleted", "bound", "block", "selector"],
)
def test_claims_that_get_none(parts: dict[str, Any]) -> None:
    assert volume_for(changed(CLAIM, **parts), WAITING, FOLDERS) is None


def test_a_claim_that_waits_for_no_pod_gets_a_volume_on_the_real_node() -> None:
    claim = changed(CLAIM, metadata={"annotations": {"volume.kubernetes.io/storage-provisioner": PROVISIONER}})
    made = volume_for(claim, IMMEDIATE, FOLDERS)
    assert made is not None
    assert volume_node(made) == "real"
    bound = changed(claim, spec={"volumeName": "bound"})
    assert not wants_volume(bound)
    assert volume_for(bound, IMMEDIATE, FOLDERS) is None


def test_a_released_volume_loses_its_folder() -> None:
    assert folder_to_remove(volume(), FOLDERS) == FOLDER / "pvc-u-1"


@pytest.mark.parametrize(
    "parts",
    [
        {"status": {"phase": "Bound"}},
        {"spec": {"persistentVolumeReclaimPolicy": "Retain"}},
        {"spec": {"local": {"path": "/etc"}}},
        {"spec": {"claimRef": {"uid": "u-2"}}},
        {"spec": {"claimRef": {"uid": "../.."}}},
        {"metadata": {"annotations": {}}},
        {"metadata": {"name": "pvc-other"}},
    ],
    ids=["in use", "retained", "foreign path", "foreign claim", "climbing claim", "not ours", "foreign name"],
)
def test_folders_that_stay(parts: dict[str, Any]) -> None:
    assert folder_to_remove(volume(**parts), FOLDERS) is None
