"""An ID token for kubectl: from the cache, by refresh token, or by signing in.

    a cached, valid token ──> it
    else refresh token ──> token endpoint ──> cached; without an ID token as if there were no refresh token
    else browser (or device code) ──> the user signs in ──> cached

The API server judges tokens. Here only those claims are checked without which a token is not worth keeping: its audience, its
issuer, when it expires, and whether it answers this sign-in.
"""

import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any, Final

from workstation.cli import eventloop
from workstation.cli.credentials import browser, cache, device
from workstation.cli.credentials.arguments import SignIn
from workstation.cli.credentials.provider import Endpoints, Issuer, SignInRefusedError, discover, post
from workstation.cli.failures import CliError
from workstation.cli.output import plain

_EARLY_SECONDS: Final = 30
_FRESH_SECONDS: Final = 60
_TOKEN: Final = 64 * 1024
_LATEST: Final = 1e11


class UnusableTokenError(CliError):
    """The provider gave no ID token, or one that is not worth keeping."""


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """The cached tokens of a user who signed in; times in seconds since 1970."""

    token: str
    refresh: str
    issued: float
    ends: float

    @property
    def is_good(self) -> bool:
        """Whether the token remains valid for long enough to be used."""
        return time.time() + _EARLY_SECONDS < self.ends


def for_plugin(issuer: Issuer, tenant: str, way: SignIn) -> Tokens:
    """The token for a process that asks by `exec`; if that process just got this one, a new one if possible."""
    entry = entry_of(issuer, tenant)
    with entry.locked():
        document = entry.read()
        kept = _kept(document)
        again = cache.asked_again(document)
        # If a plane refuses a token that was just issued, the user does not have to sign in once more.
        old = again and kept is not None and not (not kept.refresh and kept.issued + _FRESH_SECONDS > time.time())
        found = kept if kept is not None and kept.is_good and not old else eventloop.run(_next(issuer, kept, way))
        entry.write(cache.given(_document(found, tenant)))
        return found


def current(issuer: Issuer, tenant: str, way: SignIn) -> Tokens:
    """The token for a user who logs in."""
    entry = entry_of(issuer, tenant)
    with entry.locked():
        kept = _kept(entry.read())
        found = kept if kept is not None and kept.is_good else eventloop.run(_next(issuer, kept, way))
        entry.write(_document(found, tenant))
        return found


def entry_of(issuer: Issuer, tenant: str) -> cache.Entry:
    """The cache entry. A token of one provider or client is never given to another."""
    authority = hashlib.sha256(issuer.certificate_authority.encode()).hexdigest()
    return cache.entry("token", tenant, issuer.url, issuer.client, issuer.discovery_url, authority, *issuer.scopes)


async def _next(issuer: Issuer, kept: Tokens | None, way: SignIn) -> Tokens:
    endpoints = await discover(issuer)
    if kept is not None and kept.refresh:
        form = {"grant_type": "refresh_token", "refresh_token": kept.refresh, "scope": endpoints.scope}
        try:
            return _read(issuer, await post(issuer, endpoints.token, form), refresh=kept.refresh)
        except (SignInRefusedError, UnusableTokenError):
            # It was withdrawn or has expired, or brings no ID token, which is left to providers (OpenID Connect Core, 12.2).
            pass
    if _by_device(issuer, endpoints, way):
        return _read(issuer, await device.sign_in(issuer, endpoints))
    answer, nonce = await browser.sign_in(issuer, endpoints, way.redirect_port)
    return _read(issuer, answer, nonce=nonce)


def _by_device(issuer: Issuer, endpoints: Endpoints, way: SignIn) -> bool:
    if way.device and not endpoints.device:
        raise CliError(f"{plain(issuer.url)} offers no sign-in on another device", next_step="leave out --device")
    return bool(way.device or (endpoints.device and not way.browser and not browser.available()))


def _read(issuer: Issuer, answer: dict[str, Any], *, nonce: str = "", refresh: str = "") -> Tokens:
    token = answer.get("id_token")
    claims = claims_of(token) if isinstance(token, str) and len(token) <= _TOKEN else {}
    audience = claims.get("aud")
    ends = claims.get("exp")
    trouble = ""
    if not claims or not isinstance(ends, int | float):
        trouble = "no readable ID token"
    elif claims.get("iss") != issuer.url:
        trouble = "a token of another issuer"
    elif issuer.client not in (audience if isinstance(audience, list) else [audience]):
        trouble = "a token for another client"
    elif nonce and not hmac.compare_digest(str(claims.get("nonce")).encode(), nonce.encode()):
        trouble = "a token of another sign-in"
    elif not ends < _LATEST:
        trouble = "a token that never expires"
    elif ends <= time.time():
        trouble = "an expired token; compare the clocks"
    if trouble or not isinstance(ends, int | float):
        raise UnusableTokenError(f"{issuer.url} gave {trouble}", next_step="ask the provider's admins; nothing was kept")
    renewed = answer.get("refresh_token")
    return Tokens(str(token), renewed if isinstance(renewed, str) else refresh, time.time(), float(ends))


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a token, unverified; empty if it is malformed."""
    try:
        body = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, IndexError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _document(found: Tokens, tenant: str) -> dict[str, Any]:
    return {"tenant": tenant, "token": found.token, "refresh": found.refresh, "issued": found.issued, "ends": found.ends}


def _kept(document: dict[str, Any]) -> Tokens | None:
    try:
        return Tokens(str(document["token"]), str(document["refresh"]), float(document["issued"]), float(document["ends"]))
    except (KeyError, TypeError, ValueError):
        return None
