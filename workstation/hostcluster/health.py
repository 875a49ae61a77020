"""Checks whether one component is healthy. Every check has a deadline."""

import asyncio
import ssl

from bulkhead.exchange import ExchangeError, LateError, asked, body
from workstation.hostcluster.component import AliveHealth, CommandHealth, Component, HttpHealth, SocketHealth

_SECONDS = 5.0
_ANSWER_LIMIT_BYTES = 1 << 20


def _tls(check: HttpHealth) -> ssl.SSLContext:
    if check.ca is None:
        # A probe of our own child on the loopback, whose certificate it created itself. The default context would read the
        # machine's 140 authorities first, 48 ms of CPU for each check.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    context = ssl.create_default_context(cafile=str(check.ca))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if check.cert is not None:
        context.load_cert_chain(check.cert, check.key)
    return context


async def http(check: HttpHealth) -> str:
    """Empty if the URL answers 200; otherwise what is wrong."""
    tls = _tls(check) if check.url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        async with asked("GET", check.url, tls=tls, seconds=_SECONDS) as answer:
            if answer.status_code == 200:
                return ""
            lines = (await body(answer, most=_ANSWER_LIMIT_BYTES)).decode(errors="replace").splitlines()
            failed = [line for line in lines if line.startswith("[-]")]
            return f"{check.url} answers {answer.status_code} {' '.join(failed)}".strip()
    except LateError:
        return f"{check.url} does not answer within {_SECONDS:.0f} s"
    except ExchangeError as error:
        return f"{check.url}: {error}"


async def _command(check: CommandHealth) -> str:
    process = await asyncio.create_subprocess_exec(
        *check.argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_SECONDS * 2):
            _, errors = await process.communicate()
    except TimeoutError:
        return f"`{check.argv[0]}` does not end"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return "" if process.returncode == 0 else errors.decode(errors="replace").strip()[-300:] or f"status {process.returncode}"


async def _socket(check: SocketHealth) -> str:
    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_unix_connection(check.path)
    except (TimeoutError, OSError) as error:
        return f"{check.path}: {error}"
    writer.close()
    return ""


async def ask(component: Component, alive_seconds: float) -> str:
    """Empty if the component is healthy; otherwise what is wrong, also with the check itself."""
    try:
        return await _asked(component, alive_seconds)
    except OSError as error:  # such as a certificate that is renewed at this moment, without its key, or a program that is gone
        return f"it cannot be checked: {error}"


async def _asked(component: Component, alive_seconds: float) -> str:
    match component.health:
        case HttpHealth() as check:
            return await http(check)
        case CommandHealth() as check:
            return await _command(check)
        case SocketHealth() as check:
            return await _socket(check)
        case AliveHealth(seconds):
            return "" if alive_seconds >= seconds else f"has lived for {alive_seconds:.1f} of {seconds:.0f} s"
