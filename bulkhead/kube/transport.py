"""HTTP under the client: identity, deadlines, bounds, one kind of error.

Never follows a redirect, never uses a proxy from the environment, keeps no cookie, inflates nothing, repeats nothing that
changes anything. Short calls share a bounded pool, each watch and stream has a connection of its own, so that a hundred idle
watches never keep a write waiting (`calls`).

    verbs ──> request() ──> pace ──> bounded pool ──> bounded body ──> bytes or KubeError
    watch ──> stream()  ────────────> own connection ──> chunks, one by one
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

from bulkhead.kube.calls import Calls
from bulkhead.kube.connection import Answer, Bounds, Stream
from bulkhead.kube.errors import ConfigError, KubeError, ProtocolError, Timeout, TooLarge, from_response, unreachable
from bulkhead.kube.kubeconfig import Authorization, KubeConfig
from bulkhead.kube.request import Server

_ERROR_BODY_BYTES = 256 * 1024
_LEAST_ERROR_BODY_BYTES = 16 * 1024  # where less is taken of a success: what a Status says should be heard
CALL_CONNECTIONS = 32
JSON = "application/json"


class Transport:
    """Connections to one API server under one identity."""

    def __init__(
        self,
        config: KubeConfig,
        *,
        user_agent: str,
        timeout: float,
        max_body: int,
        connections: int = CALL_CONNECTIONS,
    ) -> None:
        self.config = config
        self._connections = connections
        self.timeout = timeout
        self.max_body = max_body
        self.user_agent = user_agent
        self.authorization = Authorization(config)
        # Told the `Date` of every answer to a call.
        self.on_date: Callable[[str], None] = _nothing
        # Told that the server, or what lies behind its proxy, refused the credentials. The answer goes to the caller as it is.
        self.on_unauthorized: Callable[[], None] = _go_on
        self.tls: ssl.SSLContext | None = None
        self._calls: Calls | None = None

    async def __aenter__(self) -> Self:
        self.tls = self.config.ssl_context()
        self._calls = Calls(self.server(), self.tls, limit=self._connections)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._calls is not None:
            self._calls.close()
        self._calls = None

    def renew(self, config: KubeConfig) -> None:
        """Use the credentials of another config for the same server; what is under way goes on with the former ones."""
        if self.tls is not None:
            config.present(self.tls)
        self.authorization = Authorization(config)
        if self._calls is not None:
            self._calls.renew()

    def server(self) -> Server:
        """Where requests go."""
        return Server.parse(self.config.server, secure=self.tls is not None, tls_name=self.config.tls_server_name)

    def headers(self) -> dict[str, str]:
        """Headers of every request: the user agent, and no compression (its result could be of any size)."""
        headers = {"User-Agent": self.user_agent, "Accept-Encoding": "identity"}
        bearer = self.authorization.header()
        if bearer is not None:
            headers["Authorization"] = bearer
        return headers

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 -- the deadline covers waiting for our turn as well
        max_body: int | None = None,
        charge: Callable[[int], None] | None = None,
    ) -> bytes:
        """Make one call and return its body; every failure is a KubeError."""
        answer = await self.exchange(
            method,
            path,
            params=params,
            body=body,
            headers={"Accept": accept} | ({} if body is None else {"Content-Type": content_type}),
            timeout=timeout,
            max_body=max_body,
            charge=charge,
        )
        if answer.status >= 400:
            raise from_response(answer.status, answer.data, answer.headers)
        return answer.data

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 -- the deadline covers waiting for our turn as well
        max_body: int | None = None,
        charge: Callable[[int], None] | None = None,
    ) -> Answer:
        """Make one call and return its answer whatever its status; for what lies behind a proxy of the API server.

        `charge` is called for every part of the answer before it is kept, and ends the call with the KubeError that it raises.
        """
        if self._calls is None:
            raise ConfigError("client not open: use it as an async context manager")
        limit = self.timeout if timeout is None else timeout
        with mapped(f"{method} {path}", limit):
            async with asyncio.timeout(limit):
                named = self.headers() | dict(headers or {})
                most = max_body or self.max_body
                bounds = Bounds(most, min(_ERROR_BODY_BYTES, max(most, _LEAST_ERROR_BODY_BYTES)), charge)
                answer = await self._calls.ask(method, _target(path, params), named, body, bounds)
                self.on_date(answer.headers.get("date", ""))
                self._heed(answer.status)
                if answer.status < 400:
                    _check(answer.status, answer.headers, answer.data)
                return answer

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        body: bytes | None = None,
        narrow: bool = False,
    ) -> AsyncIterator[Stream]:
        """Open a long answer, by POST if there is a `body`; the caller reads chunks and keeps its own deadline on them.

        A `narrow` one keeps little of what the caller has not taken.
        """
        if self._calls is None:
            raise ConfigError("client not open: use it as an async context manager")
        method = "GET" if body is None else "POST"
        headers = self.headers() | {"Accept": accept} | ({} if body is None else {"Content-Type": JSON})
        with mapped(f"{method} {path}", self.timeout):
            async with asyncio.timeout(self.timeout):
                answer = await self._calls.open(_target(path, params), headers, body, narrow=narrow)
                self._heed(answer.status)
                try:
                    if answer.status >= 300 or answer.headers.get("content-encoding", "identity") != "identity":
                        _check(answer.status, answer.headers, await _read(answer, _ERROR_BODY_BYTES))
                except BaseException:
                    answer.close()
                    raise
        try:
            # Not mapped: errors of the body are the caller's own.
            yield answer
        finally:
            answer.close()

    def _heed(self, status: int) -> None:
        if status == 401:
            self.on_unauthorized()


def _go_on() -> None:
    """Keep credentials that were refused."""


def _nothing(date: str) -> None:
    """Ignore the time that a server reports."""


def _target(path: str, params: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(params)}" if params else path


async def _read(answer: Stream, bound: int) -> bytes:
    data = bytearray()
    while part := await answer.readany():
        data += part
        if len(data) > bound:
            raise TooLarge(f"answer longer than {bound} bytes")
    return bytes(data)


def _check(status: int, headers: Mapping[str, str], data: bytes) -> None:
    if headers.get("content-encoding", "identity") != "identity":
        raise ProtocolError("answer is compressed although we asked for none")
    if 300 <= status < 400:
        raise ProtocolError(f"redirect refused: HTTP {status}")
    if status >= 400:
        raise from_response(status, data, headers)


@contextlib.contextmanager
def mapped(call: str, limit: float) -> Iterator[None]:
    """Turn whatever a network call raises into this package's errors."""
    try:
        yield
    except KubeError:
        raise
    except UnicodeError as error:
        # The name of the server cannot be one: a label of it is empty or too long (RFC 1035).
        raise unreachable(f"{call}: {error}"[:500]) from error
    except OSError as error:
        if isinstance(error, TimeoutError) and error.errno is None:
            raise Timeout(f"{call}: no answer within {limit:g} s") from error
        # Among them the kernel's own timeout, of a peer that has vanished (`keepalive`).
        # Connections and TLS: all of their errors are of this one.
        raise unreachable(f"{call}: {type(error).__name__}: {error}"[:500]) from error
