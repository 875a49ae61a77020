"""One watch: a stream of lines, split and bounded by us, metadata decoded, bodies left alone.

Never reconnects and never retries: it ends when the server ends it, and raises for everything else. `informer` decides
what to do then.

    chunks ──> LineSplitter (bound) ──> envelope {type, object: Raw} ──> Meta ──> WatchEvent
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube.codec import decode_meta, decode_obj, decode_with
from bulkhead.kube.errors import ProtocolError, TooLarge, from_status
from bulkhead.kube.objects import Key, Meta
from bulkhead.kube.transport import JSON, Transport, mapped

MOST_LINE_BYTES = 8 * 1024 * 1024
# Where etcd reports progress, servers send a bookmark about every minute; a longer silence may be a dead socket.
WATCH_SILENCE_SECONDS = 70.0
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_line = msgspec.json.Decoder(_Line)


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event: ADDED, MODIFIED, DELETED or BOOKMARK, with the body still encoded."""

    type: str
    meta: Meta
    raw: bytes | msgspec.Raw

    @property
    def key(self) -> Key:
        """Namespace and name of the object."""
        return self.meta.key

    def object(self) -> Obj:
        """Decode the body."""
        return decode_obj(self.raw)


class LineSplitter:
    """Cut chunks into lines; a line that never ends is TooLarge, not memory."""

    def __init__(self, max_line: int = MOST_LINE_BYTES) -> None:
        self._max = max_line
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk and return the lines that it completes, empty ones left out."""
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            self._rest += chunk
            self._bound(len(self._rest))
            return []
        lines = head.split(b"\n")
        if self._rest:
            self._rest += lines[0]
            lines[0] = bytes(self._rest)
        self._rest = bytearray(tail)
        self._bound(len(tail))
        for line in lines:
            self._bound(len(line))
        return [line for line in lines if line]

    def _bound(self, size: int) -> None:
        if size > self._max:
            raise TooLarge(f"watch line longer than {self._max} bytes")


def default_timeout() -> int:
    """Seconds that we ask the server to keep a watch: spread, so that they do not all end at once."""
    return random.randint(300, 600)  # noqa: S311 -- spreading load, not secrets


async def watch_events(
    transport: Transport,
    path: str,
    params: dict[str, str],
    *,
    accept: str = JSON,
    max_line: int = MOST_LINE_BYTES,
    inactivity: float = WATCH_SILENCE_SECONDS,
) -> AsyncGenerator[WatchEvent, None]:
    """Yield events until the server ends the watch."""
    splitter = LineSplitter(max_line)
    async with transport.stream(path, params, accept=accept) as answer:
        while True:
            with mapped(f"watch {path}", inactivity):
                async with asyncio.timeout(inactivity):
                    chunk = await answer.readany()
            if not chunk:
                return
            for line in splitter.feed(chunk):
                yield parse_line(line)


def parse_line(line: bytes) -> WatchEvent:
    """Decode one line; an ERROR event becomes the error that it reports."""
    parsed = decode_with(_line, line)
    if parsed.type == "ERROR":
        raise from_status(decode_obj(parsed.object))
    if parsed.type not in _TYPES:
        raise ProtocolError(f"unknown watch event: {parsed.type[:40]!r}")
    return WatchEvent(parsed.type, decode_meta(parsed.object), parsed.object)
