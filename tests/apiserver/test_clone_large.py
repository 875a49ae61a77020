"""The store of a clone that is large, or was full: made the clone's own by the program alone, without a plane on it."""

import asyncio
import base64
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.snapshots import contents
from bulkhead.snapshots.cloning import CloneError, Own
from controller.plane.sections import Storage
from controller.plane.spec import API_SERVER, PlaneSpec
from controller.restores.owning import OwningError, Tools, own
from tests.kit.planeprocess import ETCD, PlaneProcesses
from tests.kit.ports import free_port
from tests.kit.servers import binary
from tests.kit.storecopy import store_of
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
SLICE: Final = "10.112.64.0/22"
CLUSTER: Final = "33333333-2222-3333-4444-555555555555"
KEY: Final = base64.b64encode(b"x" * 32).decode()
RED: Final = plane_spec(tenant="red")


@contextlib.asynccontextmanager
async def running(folder: Path, spec: PlaneSpec) -> AsyncIterator[tuple[PlaneProcesses, Client]]:
    plane = PlaneProcesses(folder, spec)
    try:
        plane.start(ETCD, API_SERVER)
        await asyncio.to_thread(plane.wait)
        async with Client(plane.admin, user_agent="tests", field_manager="tests") as client:
            yield plane, client
    finally:
        plane.stop()


def tools() -> Tools:
    return Tools(str(binary("etcd")), str(binary("etcdutl")), free_port(), free_port())


def made(plane: PlaneProcesses) -> Own:
    return Own(SLICE, RED.service_slice, CLUSTER, key=KEY, former_key=plane.keys.encryption_key, slurm=False)


async def fill(client: Client, count: int, size: int) -> None:
    places = asyncio.Semaphore(8)

    async def one(number: int) -> None:
        data = base64.b64encode(os.urandom(size)).decode()
        kind = kinds.SECRETS if number % 2 else kinds.CONFIG_MAPS
        async with places:
            await client.create(kind, {"metadata": {"name": f"n{number}", "namespace": "default"}, "data": {"a": data}})

    await asyncio.gather(*(one(number) for number in range(count)))


async def test_a_store_that_was_full_becomes_a_clone(tmp_path: Path) -> None:
    async with running(tmp_path / "red", plane_spec(tenant="red", storage=Storage(quota_mib=16))) as (plane, client):
        with pytest.raises(KubeError, match="space"):
            await fill(client, 100, 512 * 1024)
        file = tmp_path / "etcd.db"
        file.write_bytes(await store_of(plane))
    found = await asyncio.to_thread(own, file, tmp_path / "own", made(plane), tools())
    assert list(contents.latest(found.read_bytes(), ("secrets/default/",)))


async def test_a_large_store_becomes_a_clone_and_a_broken_one_does_not(tmp_path: Path) -> None:
    """`BULKHEAD_CLONE_MIB=100 pytest -s` prints the figure of docs/backup.md."""
    mebibytes = int(os.environ.get("BULKHEAD_CLONE_MIB", "4"))
    async with running(tmp_path / "red", RED) as (plane, client):
        await fill(client, mebibytes * 48, 16 * 1024)
        file = tmp_path / "etcd.db"
        file.write_bytes(await store_of(plane))
    began = time.monotonic()
    found = await asyncio.to_thread(own, file, tmp_path / "own", made(plane), tools())
    took = time.monotonic() - began
    print(f"{file.stat().st_size / 2**20:.0f} MiB became a clone's own in {took:.1f} s")  # noqa: T201 - the figure
    assert len(list(contents.latest(found.read_bytes(), ("secrets/default/",)))) == mebibytes * 24
    # The key of another plane: nothing is made.
    with pytest.raises(CloneError, match="cannot be decrypted"):
        own(file, tmp_path / "own", Own(SLICE, RED.service_slice, CLUSTER, key=KEY, former_key=KEY, slurm=False), tools())
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(OwningError, match="etcdutl ended with 1"):
        own(file, tmp_path / "own", made(plane), tools())
