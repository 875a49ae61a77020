"""The snapshot API on a server of the tests, and the steps that its tests share.

Its controller and drivers are not here: a test writes what they would write. The definitions are our own, with the project's
group, version, names and fields.
"""

import contextlib
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    PERSISTENT_VOLUME_CLAIMS,
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
)
from controller.inside.objects import snapshots
from tests.kit.crds import served
from tests.kit.syncerbed import SyncerBed, until

SNAPSHOT_KINDS = (VOLUME_SNAPSHOTS, VOLUME_SNAPSHOT_CLASSES)
OFFER: dict[str, Any] = {"allowedSnapshotClasses": ["daily"]}
READY: Obj = {"readyToUse": True, "creationTime": "2026-01-02T03:04:05Z", "restoreSize": "2Gi"}
NAME = "volumesnapshots.snapshot.storage.k8s.io"
KIND = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot"}


async def serve_snapshots(*clients: Client) -> None:
    """Create both definitions if they do not exist, and wait until they are served."""
    for client in clients:
        for wanted in snapshots.definitions():
            with contextlib.suppress(AlreadyExists):
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, wanted)
    for client in clients:
        await served(client, *SNAPSHOT_KINDS)


async def remove_snapshots(client: Client) -> None:
    """Remove the API, with all of its objects."""
    for definition in snapshots.definitions():
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
    await served(client, *SNAPSHOT_KINDS, there=False)


def snapshot_class(name: str, **more: object) -> Obj:
    return {"metadata": {"name": name}, "driver": "disk.example.org", "deletionPolicy": "Delete"} | more


async def take(bed: SyncerBed, name: str, meta: Obj | None = None, **spec: Any) -> Obj:
    wanted = {"source": {"persistentVolumeClaimName": "data"}} | spec
    body = KIND | {"metadata": {"name": name, "namespace": bed.space} | (meta or {}), "spec": wanted}
    return await bed.plane.create(VOLUME_SNAPSHOTS, body)


async def restore(bed: SyncerBed, name: str, snapshot: str, size: str = "2Gi") -> Obj:
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "dataSource": source}
    return await bed.plane.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec}, bed.space)


async def controller_says(bed: SyncerBed, name: str, status: Obj) -> None:
    """Write what the host's snapshot controller would write."""
    host = bed.host_name("VolumeSnapshot", name)
    await bed.host.patch(VOLUME_SNAPSHOTS, host, {"status": status}, bed.work, subresource="status")


async def status(bed: SyncerBed, name: str) -> Obj:
    found = await bed.plane.get(VOLUME_SNAPSHOTS, name, bed.space)
    return dict(found.get("status") or {})


async def says(bed: SyncerBed, name: str, wanted: Obj) -> None:
    async def same() -> bool:
        return await status(bed, name) == wanted

    await until(same, f"status {wanted} in the plane")


async def blocked(bed: SyncerBed, name: str, *texts: str) -> Obj:
    async def found() -> Obj | None:
        said = await status(bed, name)
        message = (said.get("error") or {}).get("message", "")
        return said if all(text in message for text in texts) and message else None

    said: Obj = await until(found, f"status.error with {texts}")
    return said
