"""Which requests the console answers: those of the one browser session that its link opened, from its own page. Pure.

    Host      a name of this machine: a page elsewhere whose name resolves to 127.0.0.1 (DNS rebinding) has another one
    method    GET or HEAD: nothing is ever written
    Origin, Sec-Fetch-Site   of the console itself, where the browser sends them: no other page reads it or makes it work
    cookie    given once, for the token of the link; another process of the machine does not have it

Values are compared in constant time.
"""

import hmac
from dataclasses import dataclass
from typing import Final

_NAMES: Final = frozenset({"localhost", "127.0.0.1"})
_METHODS: Final = frozenset({"GET", "HEAD"})
_OWN_SITES: Final = frozenset({"", "same-origin", "none"})
ENTER: Final = "/enter"
_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says about itself; empty where it has no such header."""

    method: str
    path: str
    host: str
    origin: str
    site: str
    cookie: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer without content."""

    status: int
    message: str


def refusal(asked: Asked, secret: str) -> Refusal | None:
    """Why a request is not answered; None if it is. `secret` is the value of the session's cookie."""
    if not _is_here(asked.host):
        return Refusal(
            421, "the console answers to localhost and 127.0.0.1 only; open the link that `bulkhead console` printed"
        )
    if asked.method not in _METHODS:
        return Refusal(405, "the console only reads: the method must be GET")
    foreign = _foreign(asked)
    if foreign is not None or asked.path == ENTER or is_same(asked.cookie, secret):
        return foreign
    return Refusal(403, "this browser has no session; run `bulkhead console` and open the link that it prints")


def _foreign(asked: Asked) -> Refusal | None:
    """Why a request is another page's; None if it is not."""
    if asked.origin and asked.origin != f"http://{asked.host}":
        return Refusal(403, "the console does not answer pages of other origins")
    if asked.site not in _OWN_SITES:
        return Refusal(403, "the console does not answer other sites; copy its link into the browser's address bar")
    return None


def is_same(given: str, wanted: str) -> bool:
    """Whether two secrets are equal; an empty one equals nothing."""
    return bool(wanted) and hmac.compare_digest(given.encode(), wanted.encode())


def _is_here(host: str) -> bool:
    """Whether a Host header names this machine, with any port: an ssh tunnel may lead from another one."""
    name, colon, port = host.lower().partition(":")
    return name in _NAMES and (not colon or (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _MAX_PORT))
