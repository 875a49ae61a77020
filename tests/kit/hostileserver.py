"""A small server that answers as no API server should: plain HTTP on loopback, one behaviour for each path prefix."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from bulkhead.kube.kubeconfig import KubeConfig

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]


def fixed(data: bytes, *, times: int = 1) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        for _ in range(times):
            writer.write(data)
            await writer.drain()

    return answer


def http(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def endless(first: bytes, more: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(first)
        while True:
            writer.write(more)
            await writer.drain()

    return answer


def slow(data: bytes, gap: float = 0.05) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        for position in range(len(data)):
            writer.write(data[position : position + 1])
            await writer.drain()
            await asyncio.sleep(gap)

    return answer


def slow_pieces(data: bytes, size: int = 65_536) -> Answer:
    """All of it in pieces; in between, all other tasks get a turn."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        for position in range(0, len(data), size):
            writer.write(data[position : position + size])
            await writer.drain()
            await asyncio.sleep(0.01)

    return answer


def silent(data: bytes = b"") -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(data)
        await writer.drain()
        await reader.read()

    return answer


def closing(data: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(data)
        writer.close()

    return answer


@contextlib.asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[KubeConfig]:
    """Serve one behaviour on every path."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                await answer(reader, writer, await reader.readuntil(b"\r\n\r\n"))
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield KubeConfig(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", token="secret")
    finally:
        server.close()
