"""One bounded HTTP exchange with a server that is no API server: an identity provider, or a component's health check.

    async with asked("GET", address, tls=tls, seconds=10) as answer:
        answer.status_code
        await body(answer, most=256 * 1024)

httpx speaks HTTP. This module sets the limits: one deadline for the whole exchange, a most of bytes for a body, which stays
compressed if it comes so, no redirect, and no proxy but a given one. Each failure is one of the errors below.
API servers are asked by `bulkhead.kube`, which is several times faster.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

import httpx

# What comes compressed could be any length once it is not.
_HEADERS: Final = {"Accept-Encoding": "identity"}


class ExchangeError(Exception):
    """The server cannot be reached, or does not speak HTTP; the text is the cause."""


class UntrustedError(ExchangeError):
    """The server's certificate does not hold, or TLS fails in another way; the text is the cause."""


class UnknownNameError(ExchangeError):
    """DNS does not know the server's name."""


class LateError(ExchangeError):
    """The exchange took longer than its deadline."""


class TooLongError(ExchangeError):
    """The body is longer than its bound."""


@contextlib.asynccontextmanager
async def asked(
    method: str,
    address: str,
    *,
    tls: ssl.SSLContext,
    seconds: float,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    proxy: str = "",
) -> AsyncIterator[httpx.Response]:
    """The head of an answer, whose body is still to be read by `body`.

    `tls` verifies the server, and a proxy that speaks TLS. `seconds` is the deadline for everything up to the end of the
    `async with`. `form` is sent as an HTML form is. `proxy` is the URL of an HTTP proxy; empty for a direct connection.
    Raises an `ExchangeError` of one of the kinds above.
    """
    try:
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(
                verify=tls,
                proxy=_proxy(proxy, tls),
                headers={**_HEADERS, **(headers or {})},
                timeout=None,  # noqa: S113 - the deadline stands one line above
                trust_env=False,
            ) as client,
            client.stream(method, address, data=form) as answer,
        ):
            yield answer
    except TimeoutError as error:
        raise LateError(f"no answer within {seconds:g} s") from error
    # ImportError: a proxy of a kind that httpx needs another package for.
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ImportError) as error:
        raise _failure(error) from error


async def body(answer: httpx.Response, *, most: int) -> bytes:
    """The body as it came; `TooLongError` beyond `most` bytes."""
    data = bytearray()
    async for part in answer.aiter_raw():
        data += part
        if len(data) > most:
            raise TooLongError(f"more than {most // 1024} KiB")
    return bytes(data)


def _proxy(address: str, tls: ssl.SSLContext) -> httpx.Proxy | None:
    if not address:
        return None
    return httpx.Proxy(address, ssl_context=tls if address.lower().startswith("https:") else None)


def _failure(error: BaseException) -> ExchangeError:
    causes = [each for each in _causes(error) if isinstance(each, OSError)]
    cause = next((each for each in causes if isinstance(each, ssl.SSLError | socket.gaierror)), causes[-1] if causes else error)
    why = (getattr(cause, "verify_message", None) or getattr(cause, "strerror", None) or str(cause))[:200]
    why = why or type(cause).__name__
    if isinstance(cause, ssl.SSLError) and isinstance(error, httpx.ConnectError):
        return UntrustedError(why)
    if isinstance(cause, socket.gaierror):
        return UnknownNameError(why)
    return ExchangeError(why)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what it came from, and so on; of several attempts to connect the first."""
    while error is not None:
        yield error
        error = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__
