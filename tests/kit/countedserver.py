"""A server that counts what comes, and calls to it, for tests of kept connections. Real sockets; a test makes each answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from bulkhead.kube import request
from bulkhead.kube.calls import Calls
from bulkhead.kube.connection import Answer, Bounds
from tests.kit import hostileserver as hostile
from tests.kit.hostileserver import http

BOUNDS = Bounds(100_000, 1_000)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class CountedServer:
    """Counts connections and requests."""

    def __init__(self) -> None:
        self.connections: set[int] = set()
        self.heads: list[bytes] = []
        self.most = 0

    @contextlib.asynccontextmanager
    async def serving(self, answer: hostile.Answer) -> AsyncIterator[Calls]:
        active = 0

        async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
            nonlocal active
            self.connections.add(writer.get_extra_info("peername")[1])
            self.heads.append(head)
            active += 1
            self.most = max(self.most, active)
            try:
                await answer(reader, writer, head)
            finally:
                active -= 1

        async with hostile.serving(counted) as config:
            made = Calls(request.Server.parse(config.server, secure=False, tls_name=None), None, limit=4)
            try:
                yield made
            finally:
                made.close()

    async def closing_second(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        """Answer with the path, and close the connection under the second request."""
        if len(self.heads) == 2:
            writer.transport.abort()
        else:
            await echo(reader, writer, head)


async def get(made: Calls, path: str = "/x", **headers: str) -> Answer:
    async with asyncio.timeout(60):
        return await made.ask("GET", path, headers, None, BOUNDS)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    """Answer with the path."""
    writer.write(http("200 OK", head.split(b" ")[1]))
