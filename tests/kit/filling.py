"""The program that fills a plane's volume, as a process beside a plane's processes, on the volume of these."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from bulkhead.snapshots import sending
from bulkhead.snapshots.sending import Greeting
from controller.plane import restoring
from controller.plane.etcd import DATA_PATH
from controller.plane.sections import Restoring
from controller.plane.spec import ETCD_PEER_PORT
from tests.kit.planeprocess import ETCD, PlaneProcesses
from tests.kit.ports import free_port
from tests.kit.servers import binary, die_with_parent
from tests.kit.syncerbed import until

_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Filling:
    """One such process."""

    plane: PlaneProcesses
    order: Restoring
    etcdutl: str = field(default_factory=lambda: str(binary("etcdutl")))
    port: int = field(default_factory=free_port)
    ready: int = field(default_factory=free_port)
    etcd_ports: tuple[int, int] = field(default_factory=lambda: (free_port(), free_port()))
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def keys(self) -> Path:
        """The folder with the keys that the pod of a clone has."""
        return self.plane.folder / "clone-keys"

    @property
    def volume(self) -> Path:
        return self.plane.folder / ETCD

    def start(self) -> None:
        """Start it, or start it again."""
        moved = {
            DATA_PATH: str(self.volume),
            f":{ETCD_PEER_PORT}": f":{self.plane.ports[ETCD_PEER_PORT]}",
            f"--port={restoring.PORT}": f"--port={self.port}",
            f"--ready-port={restoring.READY_PORT}": f"--ready-port={self.ready}",
            f"--etcd-port={restoring.ETCD_PORT}": f"--etcd-port={self.etcd_ports[0]}",
            f"--etcd-peer-port={restoring.ETCD_PEER_PORT}": f"--etcd-peer-port={self.etcd_ports[1]}",
            f"--keys={restoring.KEYS_PATH}": f"--keys={self.keys}",
        }
        flags = restoring.arguments(self.plane.spec, self.order, "plane-0")
        for before, after in moved.items():
            flags = [flag.replace(before, after) for flag in flags]
        flags += [f"--etcdutl={self.etcdutl}", f"--etcd={binary('etcd')}", "--ready-address=127.0.0.1"]
        with (self.plane.folder / "fill.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "controller.restores.fill", *flags],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ.get("PATH", "")},
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- started from the one thread there is
            )

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(20)
            self.process = None

    async def greet(self) -> tuple[Greeting, asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and read what it says first."""

        async def connected() -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
            try:
                return await asyncio.open_connection("127.0.0.1", self.port)
            except ConnectionError:
                return None

        reader, writer = await until(connected, "the filling process to listen")
        return await sending.greeted(reader, self.order.restore, self.order.size), reader, writer

    async def send(self, chunks: AsyncIterator[bytes]) -> None:
        greeting, reader, writer = await self.greet()
        assert not greeting.filled
        try:
            await sending.send(reader, writer, chunks)
        finally:
            writer.close()

    async def filled(self) -> None:
        """Wait until the port opens that a kubelet probes."""

        async def opened() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.ready)
            except ConnectionError:
                return False
            writer.close()
            return True

        await until(opened, "the volume to be filled")
