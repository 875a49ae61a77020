"""What this machine asks an identity provider: its discovery document, and its token and device endpoints.

    Issuer (a kubeconfig's or flags' words) ──> discover() ──> Endpoints ──> post() ──> one JSON object

A provider is trusted only as far as its role requires: HTTPS only, no redirects, limits on time and size of each answer. Its
texts reach a terminal as plain lines. The API server that gets a token judges whether it is genuine.
"""

import base64
import binascii
import hashlib
import json
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from bulkhead.api.untrusted import sequence
from bulkhead.proxies import proxy_of_environment
from workstation.cli.failures import CliError
from workstation.cli.output import plain

_SECONDS: Final = 10.0
_ANSWER_LIMIT_BYTES: Final = 256 * 1024
_MAX_TEXT_CHARACTERS: Final = 300
_WANTED: Final = ("email", "profile", "groups", "offline_access")
_HEADERS: Final = {"Accept": "application/json", "User-Agent": "bulkhead-cli"}


class ProviderAwayError(CliError):
    """The provider cannot be reached or has a trouble of its own: the same request may succeed in a while."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """An identity provider, and the client that this command is registered as there."""

    url: str
    client: str
    discovery_url: str = ""
    certificate_authority: str = ""  # PEM; empty for this machine's CAs
    scopes: tuple[str, ...] = ()  # in addition to those for names and groups that the provider offers

    @property
    def discovery(self) -> str:
        """The address of the provider's discovery document."""
        return self.discovery_url or f"{self.url.rstrip('/')}/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where to sign in; `device` is empty if the provider does not offer it."""

    authorization: str
    token: str
    device: str
    scope: str
    proves: bool  # whether it supports PKCE with S256


class SignInRefusedError(CliError):
    """The provider answered with an OAuth error; `error` is its code."""

    def __init__(self, issuer: Issuer, code: str, description: str) -> None:
        detail = f": {plain(description, _MAX_TEXT_CHARACTERS)}" if description else ""
        super().__init__(
            f"{issuer.url} refused: {plain(code, 60)}{detail}",
            next_step=f"ask the provider's admins whether client {plain(issuer.client, 60)} may sign in this way",
        )
        self.error = code


async def discover(issuer: Issuer) -> Endpoints:
    """The endpoints at which this provider's users sign in."""
    found = await _ask(issuer, "GET", checked(issuer, "its discovery document", issuer.discovery))
    if found.get("issuer") != issuer.url:
        raise CliError(
            f"{issuer.discovery} belongs to issuer {plain(found.get('issuer'), _MAX_TEXT_CHARACTERS)!r}, not {issuer.url!r}",
            next_step="correct the issuer's URL; it must match exactly",
        )
    device = found.get("device_authorization_endpoint")
    return Endpoints(
        authorization=checked(issuer, "authorization_endpoint", found.get("authorization_endpoint")),
        token=checked(issuer, "token_endpoint", found.get("token_endpoint")),
        device=checked(issuer, "device_authorization_endpoint", device) if device else "",
        scope=_scope(issuer, found.get("scopes_supported")),
        proves="S256" in sequence(found.get("code_challenge_methods_supported")),
    )


def proof() -> tuple[str, dict[str, str]]:
    """A PKCE verifier, which is sent when the tokens are fetched, and its challenge for the request before (RFC 7636)."""
    verifier = secrets.token_urlsafe(32)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    return verifier, {"code_challenge": challenge, "code_challenge_method": "S256"}


async def post(issuer: Issuer, address: str, form: Mapping[str, str]) -> dict[str, Any]:
    """An endpoint's answer. Raises SignInRefusedError for an OAuth error."""
    found = await _ask(issuer, "POST", address, {**form, "client_id": issuer.client})
    if "error" in found:
        raise SignInRefusedError(issuer, str(found["error"]), str(found.get("error_description") or ""))
    return found


def checked(issuer: Issuer, what: str, address: object) -> str:
    """The address, if it may be requested or shown to the user. Raises CliError otherwise."""
    text = address if isinstance(address, str) else ""
    try:
        parts = urlsplit(text)
        good = parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        good = False
    if not good or not text.isascii() or not text.isprintable() or " " in text or len(text) > 2000:
        raise CliError(
            f"{plain(issuer.url, _MAX_TEXT_CHARACTERS)}: {what} must be an https address, not {plain(text, 100)!r}",
            next_step="correct the issuer",
        )
    return text


def authority_of(data: str) -> str:
    """The PEM text of an argument in base64."""
    try:
        return base64.b64decode(data, validate=True).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise CliError("--issuer-ca-data must be PEM in base64", next_step="fetch the kubeconfig again") from error


def _scope(issuer: Issuer, offered: object) -> str:
    """The scopes to request. Providers refuse unknown scopes, so only those that the provider lists are requested."""
    known = offered if isinstance(offered, list) else ["email", "profile"]
    return " ".join(dict.fromkeys(("openid", *(scope for scope in _WANTED if scope in known), *issuer.scopes)))


async def _ask(issuer: Issuer, method: str, address: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    from bulkhead import exchange  # noqa: PLC0415 -- slow to load, and a login with a certificate asks no provider

    host = urlsplit(address).netloc
    try:
        tls = _trust(issuer.certificate_authority)
        proxy = proxy_of_environment(address)
        async with exchange.asked(
            method, address, tls=tls, seconds=_SECONDS, headers=_HEADERS, form=form, proxy=proxy
        ) as answer:
            found = _object(await exchange.body(answer, most=_ANSWER_LIMIT_BYTES))
            if found is None and answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise ProviderAwayError(f"{host} answers {answer.status_code}", next_step="try again, or ask its admins")
            # OAuth errors come with status 400 or 401; their field `error` tells them from others.
            if found is None or (answer.status_code != 200 and "error" not in found):
                raise CliError(
                    f"{host} answers {answer.status_code} without a JSON object", next_step="check the issuer's address"
                )
            return found
    except (exchange.UntrustedError, ssl.SSLError) as error:
        raise CliError(
            f"the certificate of {host} is not trusted: {plain(error, _MAX_TEXT_CHARACTERS)}",
            next_step="check this machine's clock; give the CA certificate with --issuer-ca FILE, or set "
            "certificateAuthority in the class and hand out a new file",
        ) from error
    except exchange.LateError as error:
        late = f"{host} did not answer within {_SECONDS:g} s"
        raise ProviderAwayError(late, next_step="try again, or ask its admins") from error
    except exchange.TooLongError as error:
        raise CliError("the identity provider's answer is too long", next_step="check the issuer's address") from error
    except exchange.ExchangeError as error:
        raise ProviderAwayError(
            f"identity provider {host} cannot be reached: {plain(error, _MAX_TEXT_CHARACTERS)}",
            next_step="check its address, and the network or proxy",
        ) from error


def _trust(authorities: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authorities or None)
    except TypeError as error:  # not ASCII
        raise ssl.SSLError("the CA certificate has characters that PEM does not allow") from error
    except ValueError as error:
        raise ssl.SSLError(f"the CA certificate is not PEM ({error})") from error


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
