"""The provisioner against a real API server, with the scheduler and the binder played by the test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from tests.kit.background import background
from tests.kit.syncerbed import until
from workstation.hostcluster.addons.objects import storage_classes
from workstation.hostcluster.component import NODE_NAME
from workstation.hostcluster.storage.provisioner import Provisioner
from workstation.hostcluster.storage.volumes import IMMEDIATE_CLASS, PROVISIONER, volume_node


@pytest.fixture
async def folder(host_client: Client, tmp_path: Path) -> AsyncIterator[Path]:
    for each in storage_classes():
        await host_client.apply(STORAGE_CLASSES, each)
    async with background(Provisioner(host_client, {NODE_NAME: tmp_path / "volumes"}).run()):
        yield tmp_path / "volumes"


async def claim(client: Client, namespace: str, name: str, node: str | None, of_class: str = "local") -> Obj:
    notes = {"volume.kubernetes.io/storage-provisioner": PROVISIONER}
    if node:
        notes["volume.kubernetes.io/selected-node"] = node
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": of_class}
    metadata = {"namespace": namespace, "name": name, "annotations": notes}
    return await client.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": spec})


async def volume_of(client: Client, made: Obj) -> Obj | None:
    try:
        return await client.get(PERSISTENT_VOLUMES, f"pvc-{made['metadata']['uid']}")
    except NotFound:
        return None


async def test_a_claim_is_served_once_it_has_a_node_and_cleaned_up_once_released(
    host_client: Client, namespace: str, folder: Path
) -> None:
    waiting = await claim(host_client, namespace, "waiting", None)
    served = await claim(host_client, namespace, "served", NODE_NAME)
    volume = await until(lambda: volume_of(host_client, served), "a volume for the claim")
    path = folder / volume["metadata"]["name"]
    assert (path.stat().st_mode & 0o777) == 0o777
    assert await volume_of(host_client, waiting) is None

    (path / "file").write_text("content")
    await host_client.patch(PERSISTENT_VOLUMES, path.name, {"status": {"phase": "Released"}}, subresource="status")
    # No controller manager takes the protecting finalizer away here.
    await host_client.patch(PERSISTENT_VOLUMES, path.name, {"metadata": {"finalizers": None}})

    async def gone() -> bool:
        return await volume_of(host_client, served) is None and not path.exists()

    await until(gone, "the volume and its folder to go")


async def test_a_claim_of_the_immediate_class_is_served_at_once(host_client: Client, namespace: str, folder: Path) -> None:
    served = await claim(host_client, namespace, "at-once", None, IMMEDIATE_CLASS)
    volume = await until(lambda: volume_of(host_client, served), "a volume for the claim")
    assert volume_node(volume) == NODE_NAME
    assert (folder / volume["metadata"]["name"]).is_dir()


async def test_a_volume_on_a_simulated_node_has_no_folder(host_client: Client, namespace: str, folder: Path) -> None:
    served = await claim(host_client, namespace, "simulated", "gpu-sim-0")
    volume = await until(lambda: volume_of(host_client, served), "a volume for the claim")
    assert not (folder / volume["metadata"]["name"]).exists()


async def test_a_forged_volume_costs_no_folder(host_client: Client, namespace: str, folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}
    forged = {
        "metadata": {"name": f"forged-{namespace}", "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "local",
            "local": {"path": str(precious)},
            "nodeAffinity": affinity,
        },
    }
    await host_client.create(PERSISTENT_VOLUMES, forged)
    await host_client.patch(PERSISTENT_VOLUMES, f"forged-{namespace}", {"status": {"phase": "Released"}}, subresource="status")
    # A claim that is served afterwards shows that the forged volume was reconciled.
    served = await claim(host_client, namespace, "after", NODE_NAME)
    await until(lambda: volume_of(host_client, served), "a volume for the claim")
    assert precious.exists()
    assert (await host_client.get(PERSISTENT_VOLUMES, f"forged-{namespace}"))["spec"]["local"]["path"] == str(precious)
