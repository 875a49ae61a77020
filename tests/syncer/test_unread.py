"""Answers that nothing reads, of the servers that answer one request on each connection."""

import asyncio

from syncer import http1
from syncer.onerequest import OneRequestServer
from syncer.unread import UNREAD_BYTES, Unread
from tests.kit.background import background
from tests.kit.ports import free_port

PAGE = http1.response(200, b"x" * (UNREAD_BYTES - 4096), http1.METRICS)
ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def opened(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(60):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
            else:
                writer.write(ASK)
                return reader, writer


async def test_callers_that_do_not_read_fill_no_memory() -> None:
    asked = asyncio.Semaphore(0)

    async def respond(_: http1.Request) -> bytes:
        asked.release()
        return PAGE

    server, port = OneRequestServer(respond), free_port()
    async with background(server.serve("127.0.0.1", port)), asyncio.timeout(120):
        _, idle = await opened(port)
        await asked.acquire()
        for _ in range(3):
            reader, writer = await opened(port)
            assert (await reader.read()).startswith(b"HTTP/1.1 503")
            writer.close()
        assert server._unread.waiting == len(PAGE)
        idle.transport.abort()
        while server._unread.waiting:  # noqa: ASYNC110 - what is waited for is the state of the server under test
            await asyncio.sleep(0.01)
        reader, writer = await opened(port)
        assert await reader.read() == PAGE, "the control: whole, to a caller that reads"
        writer.close()


async def test_a_caller_that_reads_nothing_in_time_loses_its_connection() -> None:
    unread, done = Unread(), asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await unread.send(writer, PAGE, 0.1)
        done.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, asyncio.timeout(60):
        _, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        await done.wait()
        assert unread.waiting == 0
        writer.transport.abort()
