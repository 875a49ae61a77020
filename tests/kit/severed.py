"""The way to an API server that a test can cut: connections break, and new ones are refused, until it is whole again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import urlsplit

from bulkhead.kube.kubeconfig import KubeConfig


class Way:
    """Passes bytes to one server."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._open: set[asyncio.StreamWriter] = set()
        self.whole = True

    def cut(self) -> None:
        """Break every connection, and let no other one through."""
        self.whole = False
        for writer in tuple(self._open):
            writer.transport.abort()

    def mend(self) -> None:
        """Let connections through again."""
        self.whole = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        if not self.whole:
            writer.transport.abort()
            return
        with contextlib.suppress(OSError):
            theirs, ours = await asyncio.open_connection(*self._to)
            self._open |= {writer, ours}
            ways = {asyncio.create_task(_copy(reader, ours)), asyncio.create_task(_copy(theirs, writer))}
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                self._open -= {writer, ours}
                ours.transport.abort()
        writer.transport.abort()


@contextlib.asynccontextmanager
async def severable(config: KubeConfig) -> AsyncIterator[tuple[Way, KubeConfig]]:
    """The way to this server, and the configuration of a client that takes it."""
    parts = urlsplit(config.server)
    way = Way(parts.hostname or "", parts.port or 443)
    server = await asyncio.start_server(way.serve, "127.0.0.1", 0)
    try:
        yield way, replace(config, server=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    finally:
        server.close()
        way.cut()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
