"""Signing in with a browser: authorization code with PKCE, redirected to a listener on this machine's loopback address.

    listener on 127.0.0.1 and ::1 ──> address for the browser (state, nonce, challenge) ──> the person signs in
    ──> the browser is sent to http://localhost:PORT/?code&state ──> code + verifier to the token endpoint ──> tokens

Any process on this machine can connect to the listener. A request without the right state is refused and changes nothing, and
the code is worthless without the verifier. The page that the browser shows repeats nothing of the request.
"""

import asyncio
import contextlib
import errno
import hmac
import os
import secrets
import socket
import subprocess
import sys
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from workstation.cli.credentials.provider import Endpoints, Issuer, SignInRefusedError, post, proof
from workstation.cli.failures import CliError, Exit

PATIENCE: Final = 300.0  # seconds for a person to sign in
_REQUEST_SECONDS: Final = 5.0
_REQUEST_BYTES: Final = 16 * 1024
_TRIES: Final = 20
_PAGE: Final = (
    "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{text}"
)
# Opens a page without writing to stdout, which is kept for the credential.
_OPEN: Final = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


def available() -> bool:
    """Whether this machine probably has a browser that its user can see."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


async def sign_in(issuer: Issuer, endpoints: Endpoints, port: int) -> tuple[dict[str, Any], str]:
    """The provider's answer with the tokens, and the nonce that they must contain; `port` 0 for any."""
    state, nonce = (secrets.token_urlsafe(32) for _ in range(2))
    verifier, challenge = proof()
    answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    async with contextlib.AsyncExitStack() as stack:
        sockets = _listen(port)
        for listening in sockets:
            stack.callback(listening.close)
            server = await asyncio.start_server(_Visits(state, answer).serve, sock=listening, limit=_REQUEST_BYTES)
            stack.push_async_callback(_closed, server)
        redirect = f"http://localhost:{sockets[0].getsockname()[1]}/"
        query = {
            "response_type": "code",
            "client_id": issuer.client,
            "redirect_uri": redirect,
            "scope": endpoints.scope,
            "state": state,
            "nonce": nonce,
            **challenge,
        }
        joint = "&" if urlsplit(endpoints.authorization).query else "?"
        _show(f"{endpoints.authorization}{joint}{urlencode(query)}")
        came = await _arrival(answer)
    if came.get("iss", issuer.url) != issuer.url:
        raise CliError("the answer came from another identity provider", next_step="sign in again: bulkhead login")
    if "code" not in came:
        raise SignInRefusedError(issuer, came.get("error") or "no code", came.get("error_description") or "")
    form = {"grant_type": "authorization_code", "code": came["code"], "redirect_uri": redirect, "code_verifier": verifier}
    return await post(issuer, endpoints.token, form), nonce


class _Visits:
    """Serves requests until one has the right state."""

    def __init__(self, state: str, answer: "asyncio.Future[dict[str, str]]") -> None:
        self._state = state
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        with contextlib.suppress(OSError, TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._judge(head)
                writer.write(_PAGE.format(status=status, length=len(text), text=text).encode())
                await writer.drain()
        writer.close()

    def _judge(self, head: bytes) -> tuple[str, str]:
        words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
        try:
            parts = urlsplit(words[1] if words[0] == "GET" and len(words) == 3 else "")
            fields = parse_qs(parts.query, max_num_fields=20)
        except ValueError:
            return "400 Bad Request", "This request is not an answer of an identity provider.\n"
        came = {name: values[0] for name, values in fields.items() if len(values) == 1}
        if not hmac.compare_digest(came.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", "This request does not answer the login that waits here.\n"
        if not self._answer.done():
            self._answer.set_result(came)
        return "200 OK", "You may close this page: the command line continues.\n"


async def _arrival(answer: "asyncio.Future[dict[str, str]]") -> dict[str, str]:
    try:
        async with asyncio.timeout(PATIENCE):
            return await answer
    except TimeoutError as error:
        raise CliError(
            f"you did not sign in within {PATIENCE:g} s",
            next_step="try again, or on another device: --device",
            code=Exit.TIMEOUT,
        ) from error


async def _closed(server: asyncio.Server) -> None:
    # Its page is still on the way to the browser.
    await asyncio.sleep(0)
    server.close()


def _show(address: str) -> None:
    sys.stderr.write(f"sign in with your browser:\n\n  {address}\n\n")
    sys.stderr.flush()
    show_page(address)


def show_page(address: str) -> None:
    """Open a page in the user's browser, if this machine has one; the command does not wait for it."""
    if available():
        with contextlib.suppress(OSError):
            nowhere = subprocess.DEVNULL
            subprocess.Popen([sys.executable, "-c", _OPEN, address], stdin=nowhere, stdout=nowhere, stderr=nowhere)


def _listen(port: int) -> list[socket.socket]:
    """Sockets at both addresses that `localhost` may mean, on one port: no other process may hold one of them."""
    for _ in range(_TRIES):
        first = _bound(socket.AF_INET, "127.0.0.1", port)
        if first is None:
            break
        try:
            second = _bound(socket.AF_INET6, "::1", first.getsockname()[1])
        except OSError:
            return [first]  # no IPv6 here
        if second is not None:
            return [first, second]
        first.close()
    raise CliError(
        f"port {port} of this machine is in use" if port else "no port of this machine is free for the browser's redirect",
        next_step="end the other login, or sign in on another device: --device",
    )


def _bound(family: socket.AddressFamily, address: str, port: int) -> socket.socket | None:
    """The socket, or None if another process has the port. Raises OSError if the address does not exist."""
    made = socket.socket(family)
    try:
        made.bind((address, port))
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return made
