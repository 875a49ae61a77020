"""One bounded exchange with a registry: every answer has a limit in bytes and in time.

Any server may answer as a registry. Its answer is read up to a limit, and an exchange that takes too long is cut off by closing
its socket. This module follows no redirects and knows no credentials; `registry` decides on both. It goes through the proxy of
the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`), as docker does, but never to the machine itself.
"""

import base64
import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Self
from urllib.parse import SplitResult, unquote, urlsplit

from bulkhead.proxies import proxy_of_environment

MOST_DOCUMENT: Final = 4 << 20
_ERROR_LIMIT_BYTES: Final = 64 << 10
_CONNECT_SECONDS: Final = 15.0
_SECONDS: Final = 90.0
_LEAST_RATE: Final = 20_000  # bytes a second; a slower transfer is cut off
_CHUNK: Final = 64 << 10


class RegistryError(Exception):
    """A registry did not do what was requested; the text names the registry and the reason."""


class BrokenError(RegistryError):
    """The exchange failed: no connection, no end, or malformed HTTP. It may be tried again."""


class TrustError(RegistryError):
    """A certificate is not trusted, or the given CA file is not usable. Nothing was sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


def trust(ca_file: Path | None) -> ssl.SSLContext:
    """The TLS context, which trusts the given CA, or the system's."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise TrustError(f"{ca_file}: must be a CA certificate in PEM: {error}") from error


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL. Raises RegistryError if it is not an HTTP URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise RegistryError(f"not a URL: {url[:200]!r}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        raise RegistryError(f"not a URL of a registry: {url[:200]!r}")
    return parts.scheme, parts.hostname, port


class ProxyError(RegistryError):
    """The environment names a proxy that cannot be used. Nothing was sent."""


def _proxy(where: tuple[str, str, int]) -> SplitResult | None:
    """The proxy of the environment for an origin; None for a direct connection."""
    scheme, host, port = where
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    address = "" if _is_here(host) else proxy_of_environment(f"{scheme}://{place}")
    if not address:
        return None
    try:
        proxy = urlsplit(address)
        usable = proxy.scheme == "http" and proxy.hostname and (proxy.port or 80)
    except ValueError:
        usable = None
    if not usable:
        # It may have a password in it.
        raise ProxyError(f"{host}:{port}: {scheme.upper()}_PROXY must name an HTTP proxy, such as http://proxy:3128")
    return proxy


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    known = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(known.encode()).decode()}"}


def _connected(where: tuple[str, str, int], proxy: SplitResult | None, context: ssl.SSLContext) -> http.client.HTTPConnection:
    scheme, host, port = where
    there = (host, port) if proxy is None else (proxy.hostname or "", proxy.port or 80)
    if scheme == "https":
        made: http.client.HTTPConnection = http.client.HTTPSConnection(*there, timeout=_CONNECT_SECONDS, context=context)
        if proxy is not None:
            made.set_tunnel(host, port, _authorization(proxy))
    else:
        made = http.client.HTTPConnection(*there, timeout=_CONNECT_SECONDS)
    try:
        made.connect()
    except (OSError, http.client.HTTPException) as error:
        if proxy is None or isinstance(error, ssl.SSLError):
            raise
        # http.client ends a refused tunnel with an OSError without a number.
        raise BrokenError(f"the proxy {there[0]}:{there[1]} does not lead there: {error}") from error
    return made


class Transport:
    """Keeps one connection for each origin; a context manager that closes them."""

    def __init__(self, context: ssl.SSLContext, *, seconds: float = _SECONDS) -> None:
        self._context = context
        self._seconds = seconds
        self._open: dict[tuple[str, str, int], http.client.HTTPConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"", *, most: int = MOST_DOCUMENT
    ) -> Answer:
        """Send one request and read its whole answer."""
        where = origin(url)
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not target.isascii() or any(char <= " " for char in target):
            raise RegistryError(f"not a URL of a registry: {url[:200]!r}")
        sent = _sent(method, headers, body)
        if where[0] == "http" and (proxy := _proxy(where)):
            # A proxy without a tunnel is asked for the whole URL.
            target, sent = f"{parts.scheme}://{parts.netloc}{target}", {**sent, **_authorization(proxy)}
        request = _Request(method, target, sent, body)
        try:
            connection, known = self._connection(where)
            try:
                return self._once(connection, request, most)
            except (http.client.RemoteDisconnected, ConnectionError):
                if not known or method == "PATCH":
                    raise
            # A kept connection may have been closed in the meantime; only a chunk must not arrive twice.
            self._drop(where)
            return self._once(self._connection(where)[0], request, most)
        except ssl.SSLCertVerificationError as error:
            self._drop(where)
            raise TrustError(f"{where[1]}:{where[2]}: its certificate is not trusted: {error.verify_message}") from error
        except (OSError, UnicodeError, http.client.HTTPException, BrokenError) as error:
            self._drop(where)
            raise BrokenError(f"{where[1]}:{where[2]}: {error or type(error).__name__}") from error

    def _connection(self, where: tuple[str, str, int]) -> tuple[http.client.HTTPConnection, bool]:
        if found := self._open.get(where):
            return found, True
        made = _connected(where, _proxy(where), self._context)
        made.sock.settimeout(self._seconds)
        self._open[where] = made
        return made, False

    def _drop(self, where: tuple[str, str, int]) -> None:
        if connection := self._open.pop(where, None):
            connection.close()

    def _once(self, connection: http.client.HTTPConnection, request: _Request, most: int) -> Answer:
        limit = self._seconds + (len(request.body) + most) / _LEAST_RATE
        with _cut_after(connection.sock, limit):
            connection.request(request.method, request.target, body=request.body or None, headers=request.headers)
            response = connection.getresponse()
            bound = most if response.status < 400 else _ERROR_LIMIT_BYTES
            content = _read(response, bound, time.monotonic() + limit)
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, content)


def _sent(method: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
    length = {"Content-Length": str(len(body))} if body or method in {"POST", "PUT", "PATCH"} else {}
    return {"User-Agent": "bulkhead", **length, **headers}


@contextlib.contextmanager
def _cut_after(sock: socket.socket, seconds: float) -> Iterator[None]:
    """Close the socket when the time is over, because an answer may arrive byte by byte without end."""

    def cut() -> None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _read(response: http.client.HTTPResponse, most: int, until: float) -> bytes:
    found = bytearray()
    while chunk := response.read1(_CHUNK):
        found += chunk
        if len(found) > most:
            raise BrokenError(f"an answer of more than {most} bytes")
        if time.monotonic() > until:
            raise BrokenError("an answer that does not end")
    if response.length:
        raise BrokenError("an answer that broke off")
    response.close()  # after read1 the answer is still open at its end, and the connection would accept no other request
    return bytes(found)
