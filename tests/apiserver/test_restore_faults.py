"""What a snapshot and its reading survive: a bucket that is slow or answers 503, and a store that is full."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.snapshots import contents, reading
from bulkhead.snapshots.target import Target
from controller.plane.sections import Storage
from controller.plane.spec import API_SERVER
from tests.kit import storecopy
from tests.kit.bucket import Bucket, bucket
from tests.kit.planeprocess import ETCD, PlaneProcesses
from tests.kit.restoring import restored
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
SPEC = plane_spec(tenant="red", identity="99999999-8888-7777-6666-555555555555")
BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with bucket(tmp_path_factory.mktemp("s3")) as made:
        yield made


@contextlib.contextmanager
def running(folder: Path, quota_mib: int = 512) -> Iterator[PlaneProcesses]:
    plane = PlaneProcesses(folder, replace(SPEC, storage=Storage(quota_mib=quota_mib)))
    try:
        plane.start(ETCD, API_SERVER)
        plane.wait()
        yield plane
    finally:
        plane.stop()


@dataclass
class Busy:
    """A bucket's port: it answers the first connections with 503, and is slow for all others."""

    refuses: int
    seconds: float
    target: int
    connections: int = 0
    refused: int = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.connections <= self.refuses:
            self.refused += 1
            await reader.read(1 << 16)
            writer.write(BUSY)
            await writer.drain()
            writer.close()
            return
        await asyncio.sleep(self.seconds)
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(self._copy(reader, there_writer), self._copy(there_reader, writer), return_exceptions=True)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def behind(endpoint: Bucket, *, refuses: int, seconds: float) -> AsyncIterator[tuple[Busy, Target]]:
    busy = Busy(refuses, seconds, endpoint.port)
    server = await asyncio.start_server(busy.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield busy, endpoint.target(prefix="faults", endpoint=f"http://127.0.0.1:{port}")
    server.close()


async def test_a_bucket_that_is_slow_and_answers_503_delays_and_spoils_nothing(tmp_path: Path, endpoint: Bucket) -> None:
    with running(tmp_path / "plane") as plane:
        async with behind(endpoint, refuses=2, seconds=0.5) as (busy, target):
            made = await storecopy.taken(plane, target, "slow")
            store = b"".join([chunk async for chunk in reading.store(target, made, [storecopy.KEY])])
            assert (await reading.plane(target, made, [storecopy.KEY])).secrets
            assert busy.refused > 0
    assert len(store) == made.parts["etcd.age"].plain


async def fill_up(client: Client) -> None:
    for number in range(200):
        meta = {"name": f"many-{number}", "namespace": "default"}
        await client.create(kinds.CONFIG_MAPS, {"metadata": meta, "data": {"a": "x" * 500_000}})


async def test_a_store_that_is_full_is_copied_and_its_copy_can_be_emptied(tmp_path: Path) -> None:
    with running(tmp_path / "plane", quota_mib=16) as plane:
        async with Client(plane.admin, user_agent="tests", field_manager="tests") as client:
            with pytest.raises(KubeError, match="space"):
                await fill_up(client)
        target = storecopy.in_folder(tmp_path / "backups")
        made = await storecopy.taken(plane, target, "full")
        store = b"".join([chunk async for chunk in reading.store(target, made, [storecopy.KEY])])
        bundle = await reading.plane(target, made, [storecopy.KEY])
    known = contents.uids(store, ("configmaps",))["configmaps"]
    assert len([name for name in known if name.startswith("default/many-")]) > 5
    # The quota of the plane may have grown since.
    again = restored(tmp_path / "again", replace(SPEC, storage=Storage(quota_mib=512)), store, bundle)
    try:
        again.start(ETCD, API_SERVER)
        again.wait()
        async with Client(again.admin, user_agent="tests", field_manager="tests") as client:
            # The alarm is part of the data: deletions work, and the controller opens the store after them (0049).
            await client.delete(kinds.CONFIG_MAPS, "many-0", "default")
            names = {obj["metadata"]["name"] for obj in (await client.list(kinds.CONFIG_MAPS, "default")).items}
            assert ("many-0" in names, "many-1" in names) == (False, True)
    finally:
        again.stop()
