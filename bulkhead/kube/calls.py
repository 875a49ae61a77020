"""Connections to one API server: a few that are kept for short calls, and one of its own for each stream (0016).

Never follows a redirect, never uses a proxy, and asks again in one case only: a kept connection turns out to be closed, before
any answer to a GET. A connection on which anything was odd, late or cancelled is closed and not used again, so no answer ever
reaches another call than its own.

    ask ───> a free place ──> a kept connection, or a new one ──> Answer ──> kept again; on any error closed
    open ──> one that has just answered, or a new one ──> Stream ──> closed
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

from bulkhead.kube.connection import UNREAD_BYTES, Answer, Bounds, Connection, Stream
from bulkhead.kube.keepalive import keep_alive
from bulkhead.kube.narrow import NARROW_UNREAD_BYTES, keep_little
from bulkhead.kube.request import Server

_CONNECT_SECONDS: Final = 10.0
# API servers close idle connections after minutes; giving ours up first avoids writes into a closed one.
_IDLE_CONNECTION_SECONDS: Final = 30.0
# A watch follows its list at once, and saves a handshake on its connection, which works. One that idled for longer may
# lead to a server that has vanished.
_JUST_ANSWERED_SECONDS: Final = 1.0


class Calls:
    """The connections to one API server: `ask` makes a short call, `open` begins a stream. Belongs to one event loop."""

    def __init__(self, server: Server, tls: ssl.SSLContext | None, *, limit: int) -> None:
        self._server = server
        self._tls = tls
        self._places = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._epoch = 0  # how often the credentials have changed
        self._sweeping: asyncio.TimerHandle | None = None

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, bounds: Bounds) -> Answer:
        """Make one call on an already quoted path. The caller keeps the deadline; errors as of `Connection.whole`."""
        request = self._server.request(method, path, headers.items(), body)
        async with self._places:
            kept = self._kept()
            if kept is not None:
                try:
                    return await self._whole(kept, request, bounds)
                except ConnectionError:
                    # The server closed it while it idled. A second try is safe where the call changes nothing (RFC 9110).
                    if method != "GET" or not kept.silent:
                        raise
            return await self._whole(await self._connect(), request, bounds)

    async def _whole(self, connection: Connection, request: bytes, bounds: Bounds) -> Answer:
        try:
            answer = await connection.whole(request, bounds)
        except BaseException:
            connection.abort()
            raise
        if connection.usable and connection.epoch == self._epoch:
            self._keep(connection)
        else:
            connection.abort()
        return answer

    async def open(self, path: str, headers: Mapping[str, str], body: bytes | None = None, *, narrow: bool = False) -> Stream:
        """Begin a long answer on a connection that no call gets again, by POST if there is a `body`; the caller closes it.

        A `narrow` one keeps little of what the caller has not taken; its connection begins so, and serves nothing else.
        """
        request = self._server.request("GET" if body is None else "POST", path, headers.items(), body)
        kept = self._just_answered() if body is None and not narrow else None
        if kept is not None:
            try:
                return await self._begun(kept, request)
            except ConnectionError:
                if not kept.silent:
                    raise
        return await self._begun(await self._connect(narrow=narrow), request)

    async def _begun(self, connection: Connection, request: bytes) -> Stream:
        try:
            return await connection.begin(request)
        except BaseException:
            connection.abort()
            raise

    def renew(self) -> None:
        """The next calls open new connections, with what TLS shows of the caller then. What is under way goes on."""
        self._epoch += 1
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def close(self) -> None:
        """Close every connection; calls and streams that are under way fail."""
        self._idle.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in tuple(self._open):
            connection.abort()

    def _keep(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.since = loop.time()
        self._idle.append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_IDLE_CONNECTION_SECONDS, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what has idled: a connection under TLS holds about a third of a MiB, and some callers ask every few minutes."""
        self._sweeping = None
        oldest = loop.time() - _IDLE_CONNECTION_SECONDS
        idle, self._idle = self._idle, []
        for connection in idle:
            if connection.usable and connection.since > oldest:
                self._idle.append(connection)
            else:
                connection.abort()
        if self._idle:
            self._sweeping = loop.call_later(_IDLE_CONNECTION_SECONDS, self._sweep, loop)

    def _kept(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - _IDLE_CONNECTION_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.since > oldest:
                return connection
            connection.abort()
        return None

    def _just_answered(self) -> Connection | None:
        """The connection that answered last, if that was a moment ago; calls no longer get it."""
        oldest = asyncio.get_running_loop().time() - _JUST_ANSWERED_SECONDS
        if self._idle and self._idle[-1].usable and self._idle[-1].since > oldest:
            return self._idle.pop()
        return None

    async def _connect(self, *, narrow: bool = False) -> Connection:
        # TLS may show the caller as it was when the connection began to be made.
        loop, server, epoch = asyncio.get_running_loop(), self._server, self._epoch
        async with asyncio.timeout(_CONNECT_SECONDS):
            transport, connection = await loop.create_connection(
                lambda: Connection(self._open, NARROW_UNREAD_BYTES if narrow else UNREAD_BYTES),
                server.host,
                server.port,
                ssl=self._tls,
                server_hostname=server.tls_name,
            )
        connection.epoch = epoch
        keep_alive(transport)
        if narrow:
            keep_little(transport)
        return connection
