"""Whole tenants for long tests: a plane of its own (etcd and kube-apiserver), and the syncer as a process, on a given host."""

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from tests.apiserver.syncerprocess import probe, running_syncer, tail, write_files
from tests.kit.ports import free_port
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import SECONDS, SyncerBed, until


@dataclass(frozen=True, slots=True)
class Tenancy:
    """One tenant and everything that is its own."""

    bed: SyncerBed
    plane: ApiServer
    process: asyncio.subprocess.Process
    port: int
    log: Path

    async def metric(self, name: str) -> float:
        """The sum over all labels of one of the syncer's metrics."""
        return summed((await probe(self.port, "/metrics"))[1], name)

    async def host_pods(self, count: int, seconds: float = SECONDS) -> dict[str, Obj]:
        """Wait until the tenant has so many host pods; by UID."""

        async def there() -> bool:
            self.alive()
            return len(await self.bed.host_pods()) == count

        await until(there, f"{count} host pods of {self.bed.tenant}", seconds)
        return {each["metadata"]["uid"]: each for each in await self.bed.host_pods()}

    def alive(self) -> None:
        """The syncer's process has not ended."""
        assert self.process.returncode is None, tail(self.log)


def summed(text: str, name: str) -> float:
    """The sum over all labels of a metric in Prometheus' text."""
    return sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE))


@contextlib.asynccontextmanager
async def tenancies(count: int, host: ApiServer, folder: Path) -> AsyncIterator[list[Tenancy]]:
    """So many tenants on one host, their planes started side by side."""
    planes = [ApiServer(f"plane-{number}", folder / f"plane-{number}") for number in range(count)]
    try:
        for plane in planes:
            plane.start()
        async with contextlib.AsyncExitStack() as stack:
            host_client = await stack.enter_async_context(Client(host.admin, user_agent="tests", field_manager="tests"))
            made = []
            for plane in planes:
                await asyncio.to_thread(plane.wait, 300)
                made.append(await _tenancy(stack, host_client, host, plane))
            yield made
    finally:
        for plane in planes:
            plane.stop()


async def _tenancy(stack: contextlib.AsyncExitStack, host_client: Client, host: ApiServer, plane: ApiServer) -> Tenancy:
    plane_client = await stack.enter_async_context(Client(plane.admin, user_agent="tests", field_manager="tests"))
    bed = SyncerBed(host_client, plane_client)
    await bed.prepare()
    files, port = plane.folder / "syncer", free_port()
    files.mkdir()
    arguments = write_files(files, bed, plane.admin, host.admin, free_port())
    process = await stack.enter_async_context(running_syncer(arguments, port, files / "log"))
    return Tenancy(bed, plane, process, port, files / "log")


def backup(server: ApiServer, into: Path) -> None:
    """A copy of all that a server has stored; it is away for as long as that takes."""
    server.stop()
    shutil.copytree(server.folder / "etcd", into)
    server.start()
    server.wait()


def restore(server: ApiServer, copy: Path) -> None:
    """Put a stopped server back on an older copy, and start it."""
    shutil.rmtree(server.folder / "etcd")
    shutil.copytree(copy, server.folder / "etcd")
    server.start()
    server.wait()
