"""The snapshot API on a server of the tests. Its controller and drivers are not here: a test writes what they would.

The definitions are our own, with the project's group, version, names and fields.
"""

import asyncio
import contextlib
import time

from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotServed
from bulkhead.kube.objects import Obj
from bulkhead.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOTS
from controller import snapshotcrds

SECONDS = 30.0


async def serve_snapshots(*clients: Client) -> None:
    """Make both definitions where they are not, and wait until they are served."""
    for client in clients:
        for wanted in snapshotcrds.definitions():
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
    for definition in snapshotcrds.definitions():
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
    await served(client, there=False)


def snapshot_class(name: str, **more: object) -> Obj:
    return {"metadata": {"name": name}, "driver": "disk.example.org", "deletionPolicy": "Delete"} | more
