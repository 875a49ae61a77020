"""The snapshot API on a server of the tests, and the steps that its tests share.

Its controller and drivers are not here: a test writes what they would. The definitions are our own, with the project's group,
version, names and fields.
"""

import asyncio
import contextlib
import time
from typing import Any

from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotServed
from bulkhead.kube.objects import Obj
from bulkhead.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    PERSISTENT_VOLUME_CLAIMS,
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
)
from controller.inside.objects import snapshots
from tests.apiserver.bed import Bed, until

SECONDS = 30.0
OFFER: dict[str, Any] = {"allowedSnapshotClasses": ["daily"]}
READY: Obj = {"readyToUse": True, "creationTime": "2026-01-02T03:04:05Z", "restoreSize": "2Gi"}
NAME = "volumesnapshots.snapshot.storage.k8s.io"
KIND = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot"}


async def serve_snapshots(*clients: Client) -> None:
    """Make both definitions where they are not, and wait until they are served."""
    for client in clients:
        for wanted in snapshots.definitions():
            with contextlib.suppress(AlreadyExists):
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, wanted)
    for client in clients:
        await served(client)


async def served(client: Client, *, there: bool = True) -> None:
    """Wait until the API is served, or is not."""
    deadline = time.monotonic() + SECONDS
    for r in (VOLUME_SNAPSHOTS, VOLUME_SNAPSHOT_CLASSES):
        while True:
            try:
                await client.list(r)
            except NotServed:
                if not there:
                    break
            else:
                if there:
                    break
            assert time.monotonic() < deadline, f"{r.plural} served: {there}, not in time"
            await asyncio.sleep(0.05)


async def remove_snapshots(client: Client) -> None:
    """Take the API away, with all objects in it."""
    for definition in snapshots.definitions():
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
    await served(client, there=False)


def snapshot_class(name: str, **more: object) -> Obj:
    return {"metadata": {"name": name}, "driver": "disk.example.org", "deletionPolicy": "Delete"} | more


async def take(bed: Bed, name: str, meta: Obj | None = None, **spec: Any) -> Obj:
    wanted = {"source": {"persistentVolumeClaimName": "data"}} | spec
    body = KIND | {"metadata": {"name": name, "namespace": bed.space} | (meta or {}), "spec": wanted}
    return await bed.plane.create(VOLUME_SNAPSHOTS, body)


async def restore(bed: Bed, name: str, snapshot: str, size: str = "2Gi") -> Obj:
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "dataSource": source}
    return await bed.plane.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec}, bed.space)


async def controller_says(bed: Bed, name: str, status: Obj) -> None:
    """What the host's snapshot controller would write."""
    host = bed.host_name("VolumeSnapshot", name)
    await bed.host.patch(VOLUME_SNAPSHOTS, host, {"status": status}, bed.work, subresource="status")


async def status(bed: Bed, name: str) -> Obj:
    found = await bed.plane.get(VOLUME_SNAPSHOTS, name, bed.space)
    return dict(found.get("status") or {})


async def says(bed: Bed, name: str, wanted: Obj) -> None:
    async def same() -> bool:
        return await status(bed, name) == wanted

    await until(same, f"status {wanted} in the plane")


async def blocked(bed: Bed, name: str, *texts: str, seconds: float = 20.0) -> Obj:
    async def found() -> Obj | None:
        said = await status(bed, name)
        message = (said.get("error") or {}).get("message", "")
        return said if all(text in message for text in texts) and message else None

    said: Obj = await until(found, f"status.error with {texts}", seconds)
    return said
