"""Signing in on another device: this machine shows an address and a code, and polls until the user is done (RFC 8628).

device endpoint ──> a code for the user, a code for us ──> token endpoint, repeatedly ──> tokens
"""

import asyncio
import sys
import time
from typing import Any, Final

from workstation.cli.credentials.provider import Endpoints, Issuer, ProviderAwayError, SignInRefusedError, checked, post, proof
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import plain

PATIENCE: Final = 300.0
_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_PAUSES: Final = (1.0, 30.0)  # least and most seconds between two requests, whatever the provider asks for
_SLOWER: Final = 5.0
_MOST_SLOWER: Final = 32  # times


async def sign_in(issuer: Issuer, endpoints: Endpoints) -> dict[str, Any]:
    """The provider's answer with the tokens."""
    # Providers that require PKCE in the browser may require it here too (Keycloak); others ignore fields that they do not know.
    verifier, challenge = proof() if endpoints.proves else ("", {})
    begun = await post(issuer, endpoints.device, {"scope": endpoints.scope, **challenge})
    code, shown = begun.get("device_code"), begun.get("user_code")
    if not isinstance(code, str) or not isinstance(shown, str):
        raise CliError(f"{issuer.url} gave no code for another device", next_step="sign in with a browser here: --browser")
    address = checked(issuer, "verification_uri", begun.get("verification_uri") or begun.get("verification_url"))
    whole = begun.get("verification_uri_complete")
    sys.stderr.write(f"sign in on any device:\n\n  {address}\n  code: {plain(shown, 60)}\n\n")
    if whole:
        sys.stderr.write(
            f"or open this address, which contains the code:\n\n  {checked(issuer, 'verification_uri_complete', whole)}\n\n"
        )
    sys.stderr.flush()
    form = {"grant_type": _GRANT, "device_code": code} | ({"code_verifier": verifier} if verifier else {})
    seconds = min(PATIENCE, _number(begun.get("expires_in"), PATIENCE))
    return await _tokens(issuer, endpoints.token, form, pause=_number(begun.get("interval"), _SLOWER), seconds=seconds)


async def _tokens(issuer: Issuer, address: str, form: dict[str, str], *, pause: float, seconds: float) -> dict[str, Any]:
    """The tokens, once the user is done. A provider that is away is asked less often until the code expires (RFC 8628, 3.5)."""
    deadline = time.monotonic() + seconds
    away: ProviderAwayError | None = None
    slower = 1
    while time.monotonic() < deadline:
        await asyncio.sleep(min(max(pause * slower, _PAUSES[0]), _PAUSES[1]))
        try:
            return await post(issuer, address, form)
        except SignInRefusedError as error:
            if error.error == "expired_token":
                away = None
                break
            if error.error not in ("authorization_pending", "slow_down"):
                raise
            pause += _SLOWER if error.error == "slow_down" else 0
            away, slower = None, 1
        except ProviderAwayError as error:
            if away is None:
                sys.stderr.write(f"{error.cause}; trying again until the code expires\n")
            away, slower = error, min(slower * 2, _MOST_SLOWER)
    raise away or CliError("you did not sign in with that code in time", next_step="try again", code=Exit.TIMEOUT)


def _number(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e6 else otherwise
