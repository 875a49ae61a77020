"""The server that requests go to, and the head of each, written out. Pure.

    https://host:6443/prefix ──> Server ──> request(method, path, headers) ──> bytes, or ProtocolError

No part of a request can end its line. A request is not sent if its method is not one word, its path is not plain ASCII, or a
header is not one printable line.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from bulkhead.kube.errors import ProtocolError

_METHOD: Final = re.compile(r"[A-Z]+")
_PLAIN: Final = re.compile(r"[\x21-\x7e]+")
_HEADER: Final = re.compile(r"[\t\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class Server:
    """Where an API server is: what to connect to, and what it is called in requests and in its certificate."""

    host: str
    port: int
    netloc: str
    prefix: str
    tls_name: str | None  # None without TLS

    @classmethod
    def parse(cls, url: str, *, secure: bool, tls_name: str | None) -> Self:
        """The server of a URL; credentials in it are ignored."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        return cls(
            host=host,
            port=parts.port or (443 if secure else 80),
            netloc=parts.netloc.rpartition("@")[2],
            prefix=parts.path.rstrip("/"),
            tls_name=(tls_name or host) if secure else None,
        )

    def request(self, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes | None = None) -> bytes:
        """A whole request on an already quoted path."""
        target = f"{self.prefix}{path}"
        lines = [f"{name}: {value}" for name, value in headers]
        plain = _METHOD.fullmatch(method) and _PLAIN.fullmatch(target)
        if not plain or not all(_HEADER.fullmatch(line) for line in lines):
            raise ProtocolError("the request was not sent: method, path and each header must be one printable line")
        if body is not None or method != "GET":
            lines.append(f"Content-Length: {len(body or b'')}")
        return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {self.netloc}", *lines, "", ""]).encode() + (body or b"")
