"""A server that answers one small request on each connection, and holds few connections: for probes, and for what is public.

It reads no body and keeps no connection, so a client that holds one open uses one place. Answers that are not read are bounded.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from syncer import http1
from syncer.unread import Unread

_CONNECTIONS: Final = 32
_HANDSHAKE_SECONDS: Final = 10.0
_READ_SECONDS: Final = 30.0
_FULL: Final = http1.response(503, b"too many answers are asked for and not read; read them, and ask again\n")

Respond = Callable[[http1.Request], Awaitable[bytes]]  # ──> the whole response


class OneRequestServer:
    """Asks `respond` for the answer to each request; beyond 32 connections at once the next ones are cut."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._open = 0
        self._unread = Unread()

    async def serve(self, address: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Serve until cancelled."""
        server = await asyncio.start_server(
            self._answer,
            address,
            port,
            ssl=tls,
            limit=http1.HEAD_LIMIT,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if tls else None,
        )
        async with server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= _CONNECTIONS:
            writer.transport.abort()
            return
        self._open += 1
        try:
            request = await http1.read_request(reader)
            if request is not None:
                answer = await self._respond(request)
                await self._unread.send(writer, _FULL if self._unread.is_full(len(answer)) else answer, _READ_SECONDS)
        except http1.BadRequestError as error:
            writer.write(http1.response(error.status, str(error).encode()))
        except OSError:
            return
        finally:
            self._open -= 1
            await http1.close(writer)
