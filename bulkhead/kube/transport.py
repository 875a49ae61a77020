"""HTTP under the client: sessions, deadlines, bounds, one kind of error.

Never follows a redirect, never uses a proxy from the environment, keeps no cookie, inflates nothing, retries nothing.
Two connection pools: short calls share a bounded one, watches and streams have one without a limit, so that a hundred
idle watches never keep a write waiting.

    verbs ──> request() ──> pace ──> bounded pool ──> bounded body ──> bytes or KubeError
    watch ──> stream()  ────────────> own connection ──> chunks, one by one
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from bulkhead.kube.errors import ConfigError, KubeError, ProtocolError, Timeout, TooLarge, from_response, unreachable
from bulkhead.kube.kubeconfig import Authorization, KubeConfig

_CONNECT_SECONDS = 10.0
_ERROR_BODY = 256 * 1024
_READ_BUFFER = 256 * 1024
_CALL_CONNECTIONS = 32
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read whole."""

    status: int
    data: bytes
    headers: Mapping[str, str]


class Pace:
    """A token bucket over time: callers wait their turn instead of failing."""

    def __init__(self, rate: float, burst: int) -> None:
        self._gap = 1.0 / rate
        self._slack = self._gap * max(0, burst - 1)
        self._next = 0.0

    async def wait(self) -> None:
        """Return when this caller may go."""
        now = asyncio.get_running_loop().time()
        turn = max(self._next, now - self._slack)
        self._next = turn + self._gap
        if turn > now:
            await asyncio.sleep(turn - now)


class Transport:
    """Connections to one API server under one identity."""

    def __init__(self, config: KubeConfig, *, user_agent: str, timeout: float, max_body: int, pace: Pace | None = None) -> None:
        self.config = config
        self.timeout = timeout
        self.max_body = max_body
        self.user_agent = user_agent
        self.authorization = Authorization(config)
        self.tls: ssl.SSLContext | None = None
        self._pace = pace
        self._calls: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self.tls = self.config.ssl_context()
        self._calls = self._session(_CALL_CONNECTIONS)
        self._streams = self._session(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (self._calls, self._streams):
            if session is not None:
                await session.close()
        self._calls = self._streams = None

    def _session(self, limit: int) -> aiohttp.ClientSession:
        # API servers close idle connections after minutes; giving ours up first avoids writes into a closed one.
        connector = aiohttp.TCPConnector(limit=limit, ssl=self.tls or True, keepalive_timeout=30.0)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=_READ_BUFFER,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
        )

    def headers(self) -> dict[str, str]:
        """Headers of every request: who we are, and no compression (its result could be of any size)."""
        headers = {"User-Agent": self.user_agent, "Accept-Encoding": "identity"}
        bearer = self.authorization.header()
        if bearer is not None:
            headers["Authorization"] = bearer
        return headers

    def url(self, path: str, params: Mapping[str, str] | None = None) -> URL:
        """Absolute URL of an already quoted path."""
        query = f"?{urlencode(params)}" if params else ""
        return URL(f"{self.config.server}{path}{query}", encoded=True)

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
    ) -> bytes:
        """Make one call and return its body; every failure is a KubeError."""
        answer = await self.exchange(
            method,
            path,
            params=params,
            body=body,
            headers={"Accept": accept} | ({} if body is None else {"Content-Type": content_type}),
            timeout=timeout,
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
    ) -> Answer:
        """Make one call and return its answer whatever its status; for what lies behind a proxy of the API server."""
        if self._calls is None:
            raise ConfigError("client not open: use it as an async context manager")
        limit = self.timeout if timeout is None else timeout
        with mapped(f"{method} {path}", limit):
            async with asyncio.timeout(limit):
                if self._pace is not None:
                    await self._pace.wait()
                async with self._calls.request(
                    method,
                    self.url(path, params),
                    data=body,
                    headers=self.headers() | dict(headers or {}),
                    allow_redirects=False,
                    server_hostname=self.config.tls_server_name,
                ) as response:
                    bound = (max_body or self.max_body) if response.status < 300 else _ERROR_BODY
                    data = await _read(response, bound)
                    if response.status < 400:
                        _check(response, data)
                    return Answer(response.status, data, response.headers)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str] | None = None, *, accept: str = JSON
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a long answer; the caller reads chunks and keeps its own deadline on them."""
        if self._streams is None:
            raise ConfigError("client not open: use it as an async context manager")
        headers = self.headers() | {"Accept": accept}
        with mapped(f"GET {path}", self.timeout):
            async with asyncio.timeout(self.timeout):
                response = await self._streams.get(
                    self.url(path, params),
                    headers=headers,
                    allow_redirects=False,
                    server_hostname=self.config.tls_server_name,
                )
                try:
                    if response.status >= 300 or response.headers.get("Content-Encoding", "identity") != "identity":
                        _check(response, await _read(response, _ERROR_BODY))
                except BaseException:
                    response.close()
                    raise
        try:
            # Not mapped: errors of the body are the caller's own.
            yield response
        finally:
            # close, not release: the rest of a stream is of no use and must not be waited for.
            response.close()


async def _read(response: aiohttp.ClientResponse, bound: int) -> bytes:
    length = response.content_length
    if length is not None and length > bound:
        raise TooLarge(f"answer of {length} bytes: more than {bound}")
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > bound:
            raise TooLarge(f"answer longer than {bound} bytes")
        parts.append(part)
    return b"".join(parts)


def _check(response: aiohttp.ClientResponse, data: bytes) -> None:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ProtocolError("answer is compressed although we asked for none")
    if 300 <= response.status < 400:
        raise ProtocolError(f"redirect refused: HTTP {response.status}")
    if response.status >= 400:
        raise from_response(response.status, data, response.headers)


@contextlib.contextmanager
def mapped(call: str, limit: float) -> Iterator[None]:
    """Turn whatever a network call raises into this package's errors."""
    try:
        yield
    except KubeError:
        raise
    except TimeoutError as error:
        raise Timeout(f"{call}: no answer within {limit:g} s") from error
    except aiohttp.ClientResponseError as error:
        # The parser's complaints about a broken HTTP head arrive as response errors.
        raise ProtocolError(f"{call}: broken HTTP: {type(error).__name__}") from error
    except (aiohttp.ClientError, ConnectionError, ssl.SSLError, OSError) as error:
        raise unreachable(f"{call}: {type(error).__name__}: {error}"[:500]) from error
