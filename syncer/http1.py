"""As much HTTP/1.1 as the probes and the tenant's kubelet need: one request head, bounded in size and time.

Never reads a body, never keeps a connection for a second request and never guesses: a head that is not plain is refused.
Ambiguity is how request smuggling begins, so percent-escapes in the path, doubled headers that matter, and bodies are all
refused here, before any route is chosen.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

HEAD_LIMIT: Final = 64 * 1024
HEAD_SECONDS: Final = 10.0
_HEADERS_LIMIT: Final = 100
_QUERY_LIMIT: Final = 512
_METHODS: Final = frozenset({"GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"})
# Headers that may come in several lines, besides what an API server says of its caller (`X-Remote-*`).
_LISTS: Final = frozenset({"x-stream-protocol-version", "sec-websocket-protocol", "x-forwarded-for", "via"})
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
TEXT: Final = "text/plain; charset=utf-8"
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_REASONS: Final = {
    101: "Switching Protocols",
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout",
    429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error", 502: "Bad Gateway",
    503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip


class BadRequestError(Exception):
    """The request cannot be served; `status` is the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """One request head: the raw path, the decoded query in order, headers by lower-case name."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]

    def wants_upgrade(self) -> bool:
        """Whether the caller asks to switch protocols."""
        return "upgrade" in self.headers.get("connection", "").lower() and "upgrade" in self.headers


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read one head; None when the peer closed without asking anything."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except TimeoutError as error:
        raise BadRequestError(408, "request head: not complete in time") from error
    except asyncio.LimitOverrunError as error:
        raise BadRequestError(431, "request head: too long") from error
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise BadRequestError(400, "request head: cut off") from error
    return parse_head(head)


def parse_head(head: bytes) -> Request:
    """Parse a whole request head, strictly."""
    try:
        lines = head.decode("ascii").split("\r\n")
    except UnicodeDecodeError as error:
        raise BadRequestError(400, "request head: not ASCII") from error
    if any(ord(char) < 32 and char != "\t" for line in lines for char in line):
        raise BadRequestError(400, "request head: control character")
    start = lines[0].split(" ")
    if len(start) != 3 or start[0] not in _METHODS or start[2] != "HTTP/1.1" or not start[1].startswith("/"):
        raise BadRequestError(400, "request line: not `METHOD /path HTTP/1.1`")
    path, _, query = start[1].partition("?")
    if "%" in path or ";" in path or "//" in path or "#" in start[1] or {"..", "."} & set(path.split("/")):
        raise BadRequestError(400, "request path: not plain")
    headers = _headers(lines[1:])
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise BadRequestError(400, "request body: none is taken")
    return Request(start[0], path, _query(query), headers)


def _query(text: str) -> tuple[tuple[str, str], ...]:
    try:
        return tuple(
            parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_QUERY_LIMIT, errors="strict")
        )
    except (ValueError, UnicodeDecodeError) as error:
        raise BadRequestError(400, "request query: broken") from error


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        if not line:
            continue
        name, colon, value = line.partition(":")
        if not colon or not name or not set(name) <= _TOKEN:
            raise BadRequestError(400, "request header: broken")
        lowered = name.lower()
        # Lists may be split over several lines; everything that could change a meaning may not.
        if lowered in headers and (lowered in _LISTS or lowered.startswith("x-remote-")):
            headers[lowered] += f", {value.strip()}"
        elif lowered in headers:
            raise BadRequestError(400, f"request header: {lowered} twice")
        else:
            headers[lowered] = value.strip()
        if len(headers) > _HEADERS_LIMIT:
            raise BadRequestError(431, "request head: too many headers")
    return headers


def response_head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of an answer."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def response(status: int, body: bytes, content_type: str = TEXT) -> bytes:
    """A whole answer, after which the connection closes."""
    headers = {"Content-Type": content_type, "Content-Length": str(len(body)), "X-Content-Type-Options": "nosniff"}
    return response_head(status, [*headers.items(), ("Connection", "close")]) + body


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection without waiting long for a peer that does not read."""
    writer.close()
    try:
        async with asyncio.timeout(5):
            await writer.wait_closed()
    except (TimeoutError, OSError):
        writer.transport.abort()
