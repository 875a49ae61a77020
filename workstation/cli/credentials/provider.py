"""What this machine asks an identity provider: its discovery document, and its token and device endpoints.

    Issuer (a kubeconfig's or flags' words) ──> discover() ──> Endpoints ──> post() ──> one JSON object

A provider is not trusted beyond what it is for: HTTPS alone, no redirect, an end to every answer in time and size, and its
texts reach a terminal as plain lines. Whether a token is genuine is the business of the API server that it is shown to.
"""

import base64
import binascii
import hashlib
import json
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from bulkhead.api.untrusted import sequence
from workstation.cli.failures import CliError
from workstation.cli.output import plain

_SECONDS: Final = 10.0
_BYTES: Final = 256 * 1024
_TEXT: Final = 300
_WANTED: Final = ("email", "profile", "groups", "offline_access")
_HEADERS: Final = {"Accept": "application/json", "User-Agent": "bulkhead-cli"}


@dataclass(frozen=True, slots=True)
class Issuer:
    """An identity provider, and the client that this command is to it."""

    url: str
    client: str
    discovery_url: str = ""
    certificate_authority: str = ""  # PEM; empty for those of this machine
    scopes: tuple[str, ...] = ()  # besides those that it offers and names and groups come by

    @property
    def discovery(self) -> str:
        """The address of its discovery document."""
        return self.discovery_url or f"{self.url.rstrip('/')}/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where to sign in; `device` is empty where that is not offered."""

    authorization: str
    token: str
    device: str
    scope: str
    proves: bool  # whether it knows proofs of who asked (PKCE, S256)


class SignInRefusedError(CliError):
    """The provider answered with an error of OAuth: `code` is its name there."""

    def __init__(self, issuer: Issuer, code: str, description: str) -> None:
        said = f": {plain(description, _TEXT)}" if description else ""
        super().__init__(
            f"{issuer.url} refused: {plain(code, 60)}{said}",
            next_step=f"ask who runs it whether client {plain(issuer.client, 60)} may sign in this way",
        )
        self.error = code


async def discover(issuer: Issuer) -> Endpoints:
    """Where this provider's people sign in."""
    found = await _ask(issuer, "GET", checked(issuer, "its discovery document", issuer.discovery))
    if found.get("issuer") != issuer.url:
        raise CliError(
            f"{issuer.discovery} speaks for {plain(found.get('issuer'), _TEXT)!r}, not for {issuer.url!r}",
            next_step="correct the issuer's address, to the letter",
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
    """A secret for whoever comes for the tokens, and what is said of it when they are asked for (PKCE, RFC 7636)."""
    verifier = secrets.token_urlsafe(32)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    return verifier, {"code_challenge": challenge, "code_challenge_method": "S256"}


async def post(issuer: Issuer, address: str, form: Mapping[str, str]) -> dict[str, Any]:
    """What an endpoint answers; an error of OAuth is a `SignInRefusedError`."""
    found = await _ask(issuer, "POST", address, {**form, "client_id": issuer.client})
    if "error" in found:
        raise SignInRefusedError(issuer, str(found["error"]), str(found.get("error_description") or ""))
    return found


def checked(issuer: Issuer, what: str, address: object) -> str:
    """An address that may be asked, or shown to a person."""
    text = address if isinstance(address, str) else ""
    try:
        parts = urlsplit(text)
        good = parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        good = False
    if not good or not text.isascii() or not text.isprintable() or " " in text or len(text) > 2000:
        raise CliError(
            f"{plain(issuer.url, _TEXT)}: {what} is no https address: {plain(text, 100)!r}", next_step="correct the issuer"
        )
    return text


def authority_of(data: str) -> str:
    """The PEM of an argument in base64."""
    try:
        return base64.b64decode(data, validate=True).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise CliError("--issuer-ca-data is no PEM in base64", next_step="fetch the kubeconfig again") from error


def _scope(issuer: Issuer, offered: object) -> str:
    """Providers refuse scopes that they do not know, so only those that it says to know are asked for."""
    known = offered if isinstance(offered, list) else ["email", "profile"]
    return " ".join(dict.fromkeys(("openid", *(each for each in _WANTED if each in known), *issuer.scopes)))


async def _ask(issuer: Issuer, method: str, address: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    from bulkhead import exchange  # noqa: PLC0415 -- slow to load, and who logs in by a certificate asks no provider

    host = urlsplit(address).netloc
    try:
        tls = _trust(issuer.certificate_authority)
        proxy = exchange.proxy_of_environment(address)
        async with exchange.asked(
            method, address, tls=tls, seconds=_SECONDS, headers=_HEADERS, form=form, proxy=proxy
        ) as answer:
            found = _object(await exchange.body(answer, most=_BYTES))
            # Errors of OAuth come with 400 or 401, and are told from others by their field.
            if found is None or (answer.status_code != 200 and "error" not in found):
                raise CliError(
                    f"{host} answers {answer.status_code} and no JSON object", next_step="check the issuer's address"
                )
            return found
    except (exchange.UntrustedError, ssl.SSLError) as error:
        raise CliError(
            f"the certificate of {host} is not trusted: {plain(error, _TEXT)}",
            next_step="compare this machine's clock; give the authority's certificate with --issuer-ca FILE, or set "
            "certificateAuthority in the class and hand out a new file",
        ) from error
    except exchange.LateError as error:
        raise CliError(f"{host} does not answer within {_SECONDS:g} s", next_step="try again, or ask who runs it") from error
    except exchange.TooLongError as error:
        raise CliError("the identity provider's answer has no end", next_step="check the issuer's address") from error
    except exchange.ExchangeError as error:
        raise CliError(
            f"identity provider {host} cannot be reached: {plain(error, _TEXT)}",
            next_step="check its address, and the network or proxy",
        ) from error


def _trust(authorities: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authorities or None)
    except TypeError as error:  # not ASCII
        raise ssl.SSLError("the authority's certificate has letters that PEM has not") from error
    except ValueError as error:
        raise ssl.SSLError(f"the authority's certificate is no PEM ({error})") from error


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
