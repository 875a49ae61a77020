"""The proxy that delays connections: every piece arrives late, in order and whole, and the end of a connection arrives too."""

import asyncio
import socket
import time
from pathlib import Path

import pytest

from e2e.chaos.faults import proxy

DELAY = 0.15


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(1 << 16):
        writer.write(piece)
        await writer.drain()
    writer.close()


async def _through(log: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, float]:
    """What an echo server sends back through the proxy, and the seconds until its first byte."""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    address, port = server.sockets[0].getsockname()
    monkeypatch.setattr(proxy, "_destination", lambda _: (address, port))
    between = await asyncio.start_server(proxy.Proxy(0, DELAY, log).serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*between.sockets[0].getsockname())
    begin = time.monotonic()
    writer.write(b"first ")
    got = await reader.read(6)
    took = time.monotonic() - begin
    writer.write(b"second")
    writer.write_eof()
    got += await reader.read()
    writer.close()
    between.close()
    server.close()
    return got, took


def test_pieces_arrive_late_and_whole_and_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "passed"
    got, took = asyncio.run(asyncio.wait_for(_through(log, monkeypatch), 20))
    assert got == b"first second"
    assert took >= 2 * DELAY
    pieces, size = (int(word) for word in log.read_text().split())
    assert pieces >= 4
    assert size == 2 * len(b"first second")


def test_a_connection_to_nowhere_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = unused.getsockname()
    monkeypatch.setattr(proxy, "_destination", lambda _: address)

    async def ends() -> bytes:
        between = await asyncio.start_server(proxy.Proxy(0, DELAY, tmp_path / "passed").serve, "127.0.0.1", 0)
        reader, _ = await asyncio.open_connection(*between.sockets[0].getsockname())
        return await asyncio.wait_for(reader.read(), 10)

    assert asyncio.run(ends()) == b""
