"""How much memory streams hold that all wait: of a real process, with TLS on both sides and floods from both ends."""

import asyncio
import contextlib
import re
import ssl
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from syncer.kubelet.server import STREAMS
from tests.kit.pki import Authority
from tests.kit.servers import die_with_parent

KIB: Final = 1024
MIB: Final = 1 << 20
# Of one direction of one stream, beside what its connections are themselves. The most that a syncer may have is 256 MiB.
MOST_OF_LOGS: Final = 384 * KIB
MOST_OF_SESSIONS: Final = 768 * KIB
WEBSOCKET: Final = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n"
LOG: Final = "GET /containerLogs/ns/web/main?follow=true HTTP/1.1\r\nHost: x\r\n\r\n"
EXEC: Final = f"GET /exec/ns/web/main?command=cat&input=1&output=1 HTTP/1.1\r\nHost: x\r\n{WEBSOCKET}\r\n"
# So often in a row nothing more is taken before the streams count as waiting.
LOOKS: Final = 5


async def flood(writer: asyncio.StreamWriter, taken: list[int]) -> None:
    """Write without an end; notes how much was taken."""
    part = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
    with contextlib.suppress(OSError):
        while True:
            writer.write(part)
            await writer.drain()
            taken[0] += len(part)


@dataclass
class Upstream:
    """The host's API server: each log and each session is a flood."""

    taken: list[int] = field(default_factory=lambda: [0])
    open: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if b"upgrade: websocket" in head.lower():
                writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
            self.open += 1
            await flood(writer, self.taken)


@dataclass
class Bench:
    port: int
    pid: int
    upstream: Upstream
    tls: ssl.SSLContext
    sent: list[int] = field(default_factory=lambda: [0])
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)
    # Connections that are kept, and read no more.
    kept: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    def held(self) -> int:
        """The memory of the process that is its own, in bytes."""
        found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found
        return int(found[1]) * KIB

    async def waiting(self) -> int:
        """Wait until neither end can write more; the memory then."""
        seen: list[tuple[int, int]] = []
        async with asyncio.timeout(60):
            while len(seen) < LOOKS or len(set(seen[-LOOKS:])) > 1:
                await asyncio.sleep(0.1)
                seen.append((self.upstream.taken[0], self.sent[0]))
        return self.held()

    async def streams(self, head: str, number: int, *, floods: bool) -> None:
        for _ in range(number):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
            writer.write(head.encode())
            await writer.drain()
            async with asyncio.timeout(30):
                assert (await reader.readuntil(b"\r\n")).split(b" ")[1] in {b"200", b"101"}
            self.kept.append((reader, writer))
            if floods:
                self.tasks.append(asyncio.create_task(flood(writer, self.sent)))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    serving, kubelet, proxy = (Authority(name) for name in ("serving", "kubelet", "front-proxy"))
    cert, key = serving.issue("shim", addresses=("127.0.0.1",))
    for name, content in (
        ("shim.crt", cert), ("shim.key", key), ("shim-client-ca.crt", kubelet.pem), ("shim-proxy-ca.crt", proxy.pem),
        ("serving.pem", serving.pem), ("host.pem", b"".join(serving.issue("host", addresses=("127.0.0.1",)))),
        ("apiserver.pem", b"".join(kubelet.issue("apiserver"))),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
    host_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    host_tls.load_cert_chain(tmp_path / "host.pem")
    tls = ssl.create_default_context(cadata=serving.pem.decode())
    tls.load_cert_chain(tmp_path / "apiserver.pem")
    upstream = Upstream()
    server = await asyncio.start_server(upstream.answer, "127.0.0.1", 0, ssl=host_tls)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.syncer.kubelet.waiting", str(tmp_path), str(server.sockets[0].getsockname()[1])),
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    assert process.stdout is not None
    made = Bench(int(await process.stdout.readline()), process.pid, upstream, tls)
    try:
        yield made
    finally:
        process.kill()
        await process.wait()
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        server.close()


@pytest.mark.parametrize(
    ("head", "floods", "most"), [(LOG, False, MOST_OF_LOGS), (EXEC, True, MOST_OF_SESSIONS)], ids=["logs", "sessions"]
)
async def test_as_many_streams_as_there_may_be_that_all_wait_hold_little(
    bench: Bench, head: str, floods: bool, most: int
) -> None:
    """The first streams make what a process makes once; each one more is what counts."""
    first = STREAMS // 4
    await bench.streams(head, first, floods=floods)
    before = await bench.waiting()
    await bench.streams(head, STREAMS - first, floods=floods)
    after = await bench.waiting()
    assert bench.upstream.open == STREAMS
    each = (after - before) / (STREAMS - first)
    assert each < most, f"{each / KIB:.0f} KiB for each stream, {after / MIB:.0f} MiB in all"
