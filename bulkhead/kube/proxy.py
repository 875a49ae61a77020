"""Bytes between a caller and the API server: followed logs, and upgraded connections for exec, attach, port-forward.

Never looks into the bytes and never buffers more than one chunk per direction. Upgrades (websocket `v5.channel.k8s.io`,
SPDY/3.1) use a connection of their own, so that not one byte passes through an HTTP parser after the switch.

    open_stream(path)  ──> ByteStream      status 2xx, async for chunk
    open_upgrade(path) ──> RawConnection   101 head + reader + writer ──> splice() with the caller's own pair
"""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from bulkhead.kube.connection import Stream
from bulkhead.kube.errors import ApiError, ProtocolError, TooLarge, from_response
from bulkhead.kube.keepalive import keep_alive
from bulkhead.kube.narrow import keep_little
from bulkhead.kube.transport import Transport, mapped

CHUNK_BYTES = 64 * 1024
_HEAD_LIMIT_BYTES = 64 * 1024
_ERROR_BODY_BYTES = 64 * 1024
_ERROR_ANSWER_SECONDS = 5.0
LINGER_SECONDS = 5.0
# Only what negotiates the upgrade is passed on; credentials of the caller never are.
_PASSED = frozenset(
    {
        "upgrade",
        "sec-websocket-key",
        "sec-websocket-version",
        "sec-websocket-protocol",
        "sec-websocket-extensions",
        "x-stream-protocol-version",
    }
)


@dataclass(frozen=True, slots=True)
class ByteStream:
    """A long answer: its status, its headers, and its bytes as they arrive."""

    status: int
    headers: Mapping[str, str]
    answer: Stream

    async def chunks(self, *, idle: float | None = None) -> AsyncIterator[bytes]:
        """Yield chunks; with `idle`, a stream that is silent for so long is a Timeout."""
        while True:
            with mapped("stream", idle or 0):
                async with asyncio.timeout(idle):
                    chunk = await self.answer.readany()
            if not chunk:
                return
            yield chunk


@dataclass(frozen=True, slots=True)
class RawConnection:
    """A connection after `101 Switching Protocols`."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    head: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def close(self) -> None:
        """Close at once; what was not flushed is lost."""
        await _shut(self.writer)


@contextlib.asynccontextmanager
async def open_stream(
    transport: Transport, path: str, params: Mapping[str, str] | None, *, narrow: bool = False
) -> AsyncIterator[ByteStream]:
    """Open a long answer; an error status is raised as the ApiError that it is."""
    async with transport.stream(path, params, accept="*/*", narrow=narrow) as answer:
        yield ByteStream(answer.status, answer.headers, answer)


async def open_upgrade(
    transport: Transport,
    path: str,
    params: Iterable[tuple[str, str]],
    headers: Iterable[tuple[str, str]],
    *,
    method: str,
    narrow: bool = False,
) -> RawConnection:
    """Ask for an upgrade with the transport's own credentials; a `narrow` connection keeps little of what has to wait.

    Any answer but 101 closes the connection and raises an ApiError with the server's status and message.
    """
    server, query = transport.server(), urlencode(list(params))
    ours = {name: value for name, value in transport.headers().items() if name != "Accept-Encoding"}
    passed = ((name, value) for name, value in headers if name.lower() in _PASSED)
    request = server.request(method, f"{path}?{query}" if query else path, [("Connection", "Upgrade"), *ours.items(), *passed])
    with mapped(f"upgrade {path}", transport.timeout):
        async with asyncio.timeout(transport.timeout):
            reader, writer = await asyncio.open_connection(
                server.host, server.port, ssl=transport.tls, server_hostname=server.tls_name, limit=_HEAD_LIMIT_BYTES
            )
            keep_alive(writer.transport)
            if narrow:
                keep_little(writer.transport)
            try:
                writer.write(request)
                await writer.drain()
                return await _answer(reader, writer)
            except BaseException:
                writer.transport.abort()
                raise


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> RawConnection:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise TooLarge(f"upgrade answer: head longer than {_HEAD_LIMIT_BYTES} bytes") from error
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("closed before the answer to an upgrade was whole") from error
    status, reason, headers = _parse(head)
    if status == 101:
        return RawConnection(status, reason, headers, head, reader, writer)
    raise await _refusal(reader, status, headers)


def _parse(head: bytes) -> tuple[int, str, tuple[tuple[str, str], ...]]:
    lines = head.decode("latin-1").split("\r\n")
    start = lines[0].split(" ", 2)
    if len(start) < 2 or not start[0].startswith("HTTP/1.") or not re.fullmatch("[0-9]{3}", start[1]):
        raise ProtocolError("upgrade answer: no HTTP/1 status line")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return int(start[1]), start[2] if len(start) > 2 else "", tuple((name.strip(), value.strip()) for name, _, value in pairs)


async def _refusal(reader: asyncio.StreamReader, status: int, headers: tuple[tuple[str, str], ...]) -> ApiError:
    """Read as much of the refusal as is worth telling, and no longer than a few seconds."""
    named = {name.lower(): value for name, value in headers}
    length = named.get("content-length", "")
    body = b""
    with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        async with asyncio.timeout(_ERROR_ANSWER_SECONDS):
            if length.isdigit():
                body = await reader.readexactly(min(int(length), _ERROR_BODY_BYTES))
            elif "chunked" in named.get("transfer-encoding", ""):
                # The first chunk is enough: a Status that is longer is not worth reading.
                size = int((await reader.readuntil(b"\n")).split(b";")[0].strip(), 16)
                body = await reader.readexactly(max(0, min(size, _ERROR_BODY_BYTES)))
    return from_response(status, body, named)


async def splice(
    left: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    right: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    *,
    idle: float | None = None,
    linger: float = LINGER_SECONDS,
    may_pass: Callable[[int], Awaitable[None]] | None = None,
    piece: int = CHUNK_BYTES,
) -> None:
    """Copy both ways until both are done, then close both; at most `piece` bytes at once.

    When one side ends, its end is passed on where the transport can half-close (TLS cannot); the other direction then goes
    on until it ends or nothing moved for `linger` seconds. With `idle`, both are closed when nothing moved for so long.
    Writers are drained after every piece, so a slow reader slows its writer down and nothing piles up here. `may_pass` is
    awaited before each piece is passed on; it has to return within `idle` and `linger`.
    """
    activity = asyncio.Event()
    allowed = may_pass or _at_once
    pumps = [
        asyncio.ensure_future(_pump(left[0], right[1], activity, allowed, piece)),
        asyncio.ensure_future(_pump(right[0], left[1], activity, allowed, piece)),
    ]
    try:
        await _until_done(pumps, activity, idle)
        await _until_done([pump for pump in pumps if not pump.done()], activity, linger)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)
        await asyncio.wait([asyncio.ensure_future(_shut(left[1])), asyncio.ensure_future(_shut(right[1]))])


async def _until_done(pumps: "Sequence[asyncio.Future[None]]", activity: asyncio.Event, idle: float | None) -> None:
    """Return when one of the pumps ended, or when nothing moved for `idle` seconds."""
    while pumps:
        activity.clear()
        done, _ = await asyncio.wait(pumps, timeout=idle, return_when=asyncio.FIRST_COMPLETED)
        if done or not activity.is_set():
            return


async def _at_once(_size: int) -> None:
    """Nothing has to be waited for."""


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    activity: asyncio.Event,
    may_pass: Callable[[int], Awaitable[None]],
    most: int,
) -> None:
    try:
        while chunk := await reader.read(most):
            activity.set()
            await may_pass(len(chunk))
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except (ConnectionError, ssl.SSLError, TimeoutError, OSError):
        # A peer that vanished ends its direction, no more; the other side is closed by `splice`.
        return


async def _shut(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        async with asyncio.timeout(_ERROR_ANSWER_SECONDS):
            await writer.wait_closed()
    except (TimeoutError, OSError, ssl.SSLError):
        writer.transport.abort()
