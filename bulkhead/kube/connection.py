"""One HTTP/1.1 connection: a request out, its answer in, whole or piece by piece.

The parser is httptools (llhttp); here is only the connection around it, which knows nothing of Kubernetes. Never retries,
inflates nothing, and trusts no answer: head, trailers and body have bounds, an answer without a request ends the
connection, and a reader that is slow makes the server wait.

    whole() ──> request written at once ──> parser ──> Answer          the connection may be used again, if it says so itself
    begin() ──> request written at once ──> parser ──> Stream ──> readany(), readany(), ... b"" at the end
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, cast

import httptools

from bulkhead.kube.errors import ProtocolError, TooLarge

HEAD_LIMIT_BYTES: Final = 64 * 1024
# Parts of a body are kept in pieces of this size: one buffer that grows is copied as it grows, and is there twice then.
_PIECE_BYTES: Final = 64 * 1024
# Bytes of a stream that wait for their reader; more stay with the server.
UNREAD_BYTES: Final = 256 * 1024
# Each part of a body costs a call, however small it is: beyond the first ones they have to be of some size.
_LEAST_PART_BYTES: Final = 64
_PARTS_OF_ANY_SIZE: Final = 2048


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read whole; names of headers are in lower case."""

    status: int
    data: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most bytes of an answer's body, where it is a success and where it is anything else."""

    success: int
    other: int
    # Called with each part of the body before it is kept; what it raises ends the answer.
    charge: Callable[[int], None] | None = None

    def of(self, status: int) -> int:
        """The bound for a status."""
        return self.success if status < 300 else self.other


@dataclass(slots=True)
class _Reading:
    """An answer that is being read."""

    bounds: Bounds | None  # None: piece by piece
    began: asyncio.Future[None]
    done: asyncio.Future[None]
    parser: httptools.HttpResponseParser = field(init=False)
    status: int = 0
    framing: int = 0  # bytes that came since the last ones of the body: head, trailers, sizes of chunks
    size: int = 0  # of the body
    parts: int = 0  # in which it came
    pieces: list[bytes] = field(default_factory=list)
    last: bytearray = field(default_factory=bytearray)
    headers: dict[str, str] = field(default_factory=dict)
    until_closed: bool = False
    news: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        """Parse some more."""
        self.framing += len(data)
        self.parser.feed_data(data)
        if self.framing > HEAD_LIMIT_BYTES:
            raise ProtocolError(f"the head of the answer, or what follows its body, is longer than {HEAD_LIMIT_BYTES} bytes")

    def add(self, part: bytes) -> None:
        """Keep a part of the body."""
        self.framing = 0
        self.size += len(part)
        if self.bounds is not None:
            self._bound(self.bounds, len(part))
        self.last += part
        if len(self.last) >= _PIECE_BYTES:
            self.pieces.append(bytes(self.last))
            self.last.clear()

    def _bound(self, bounds: Bounds, size: int) -> None:
        self.parts += 1
        if self.size > bounds.of(self.status):
            raise TooLarge(f"answer longer than {bounds.of(self.status)} bytes")
        if self.parts > _PARTS_OF_ANY_SIZE and self.parts * _LEAST_PART_BYTES > self.size:
            raise TooLarge(f"answer in {self.parts} parts for {self.size} bytes")
        if bounds.charge is not None:
            bounds.charge(size)

    def take(self) -> bytes:
        """All that is there of the body, which is kept no longer."""
        found = b"".join((*self.pieces, self.last)) if self.pieces else bytes(self.last)
        self.pieces.clear()
        self.last.clear()
        self.size = 0
        return found

    def drop(self) -> None:
        """Keep nothing of it: half an answer is of no use, and the connection may be held for a while."""
        self.pieces.clear()
        self.last.clear()
        self.size = 0

    def end(self, error: Exception | None = None) -> None:
        """The answer is whole, or will never be."""
        if error is not None and self.bounds is not None and not self.done.done():
            self.drop()
        for future in (self.began, self.done):
            if not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
                    # Raised where it is awaited; it need not be.
                    future.exception()
        self.wake()

    def wake(self) -> None:
        """Wake the reader of a stream: there is something."""
        if self.news is not None and not self.news.done():
            self.news.set_result(None)


class Stream:
    """An answer that is read piece by piece; names of headers are in lower case."""

    def __init__(self, connection: "Connection", reading: _Reading) -> None:
        self._connection = connection
        self._reading = reading
        self.status = reading.status
        self.headers: Mapping[str, str] = MappingProxyType(reading.headers)

    async def readany(self) -> bytes:
        """What has come, as soon as there is anything; empty at the end. The caller keeps the deadline.

        A server that had to wait goes on when the caller asks for more than it was given, so that the caller's part and what
        waits for it are not both there.
        """
        reading = self._reading
        while not reading.size:
            if reading.done.done():
                reading.done.result()
                return b""
            self._connection.go_on()
            reading.news = asyncio.get_running_loop().create_future()
            await reading.news
        return reading.take()

    def close(self) -> None:
        """Close the connection; the rest is of no use."""
        self._connection.abort()


class Connection(asyncio.Protocol):
    """A connection as the parser and asyncio call it: writes one request at a time, and hands over its answer."""

    def __init__(self, known: set["Connection"], unread: int = UNREAD_BYTES) -> None:
        """`unread`: how many bytes of a stream may wait for their reader."""
        self._known = known
        self._unread = unread
        self._transport: asyncio.Transport | None = None
        self._reading: _Reading | None = None
        self._paused = False
        self.usable = False
        self.since = 0.0
        self.epoch = 0

    @property
    def silent(self) -> bool:
        """Whether the server has not begun to answer the last request."""
        return self._reading is None or not (self._reading.status or self._reading.framing)

    async def whole(self, request: bytes, bounds: Bounds) -> Answer:
        """Ask, and read the answer whole.

        Raises:
            TooLarge: the answer is larger than its bound.
            ProtocolError: the answer is not HTTP.
            OSError: the connection was closed before the answer was whole.

        """
        reading = self._ask(request, bounds)
        await reading.done
        return Answer(reading.status, reading.take(), MappingProxyType(reading.headers))

    async def begin(self, request: bytes) -> Stream:
        """Ask, and read the head of the answer; errors as of `whole`."""
        reading = self._ask(request, None)
        await reading.began
        return Stream(self, reading)

    def go_on(self) -> None:
        """The reader has taken what there was."""
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once."""
        self.usable = False
        if self._reading is not None and self._reading.done.cancelled():
            # Its caller was cancelled: what was read so far is not needed.
            self._reading.drop()
        if self._transport is not None:
            self._transport.abort()

    def _ask(self, request: bytes, bounds: Bounds | None) -> _Reading:
        self._reading = None
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the server closed the connection")
        loop = asyncio.get_running_loop()
        reading = _Reading(bounds, loop.create_future(), loop.create_future())
        reading.parser = httptools.HttpResponseParser(self)
        self._reading = reading
        self._transport.write(request)
        return reading

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop: connected."""
        self._transport = cast("asyncio.Transport", transport)
        self.usable = True
        self._known.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: either side has closed the connection."""
        self.usable = False
        self._known.discard(self)
        reading = self._reading
        if reading is None or reading.done.done():
            return
        if reading.until_closed and exc is None:
            reading.end()
        else:
            reading.end(exc or ConnectionResetError("the server closed the connection before its answer was whole"))

    def data_received(self, data: bytes) -> None:
        """The loop: bytes came."""
        reading = self._reading
        if reading is None or reading.done.done():
            # An answer without a request: what comes next would be taken for the answer to another request.
            self.abort()
            return
        try:
            reading.feed(data)
        except (ProtocolError, TooLarge) as error:
            self._fail(error)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            self._fail(cause if isinstance(cause, ProtocolError | TooLarge) else ProtocolError("broken HTTP"))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ProtocolError(f"broken HTTP: {type(error).__name__}"))
        else:
            reading.wake()
            full = reading.bounds is None and reading.size > self._unread
            if full and self._transport is not None and not self._paused:
                self._paused = True
                self._transport.pause_reading()

    def on_message_begin(self) -> None:
        """The parser: an answer begins."""
        if self._reading is None or self._reading.done.done():
            raise ProtocolError("an answer without a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser: a header, or a trailer."""
        if self._reading is not None:
            self._reading.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The parser: the head is whole."""
        reading = self._reading
        if reading is None:
            return
        status = reading.parser.get_status_code()
        if status < 200:
            # An answer that only says that another one follows.
            reading.headers.clear()
            return
        reading.status = status
        length = reading.headers.get("content-length")
        reading.until_closed = length is None and "transfer-encoding" not in reading.headers
        bound = reading.bounds.of(status) if reading.bounds is not None else None
        if bound is not None and length is not None and length.isdigit() and int(length) > bound:
            raise TooLarge(f"answer of {length} bytes: more than {bound}")
        if not reading.began.done():
            reading.began.set_result(None)

    def on_body(self, part: bytes) -> None:
        """The parser: a part of the body."""
        if self._reading is not None:
            self._reading.add(part)

    def on_message_complete(self) -> None:
        """The parser: the answer is whole."""
        reading = self._reading
        if reading is not None and reading.status:
            self.usable = self.usable and reading.parser.should_keep_alive()
            reading.end()

    def _fail(self, error: Exception) -> None:
        if self._reading is not None:
            self._reading.end(error)
        self.abort()
