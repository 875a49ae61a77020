"""JSON Web Tokens for slurmrestd: HS256 over the tenant's own key, short-lived, renewed long before they end.

A token is for one Slurm user. Nothing is stored: who has the key makes tokens, and a new key ends them all.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

LIFETIME = timedelta(minutes=5)
_USER = "slurm"


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A token and when it ends. It has no text form, so that it cannot end up in a log."""

    text: str
    ends: datetime


def mint(key: bytes, user: str, now: datetime, lifetime: timedelta = LIFETIME) -> Token:
    """A token for a user from now on."""
    ends = now + lifetime
    claims = {"sun": user, "iat": int(now.timestamp()), "exp": int(ends.timestamp())}
    head = _encoded({"alg": "HS256", "typ": "JWT"})
    signed = f"{head}.{_encoded(claims)}"
    signature = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    return Token(f"{signed}.{_text(signature)}", ends)


class TokenSource:
    """Keeps one token fresh: it is renewed when half of its life is over, so a clock that is off a little harms nobody."""

    def __init__(self, key: bytes, now: Callable[[], datetime], *, user: str = _USER, lifetime: timedelta = LIFETIME) -> None:
        self._key = key
        self._now = now
        self._user = user
        self._lifetime = lifetime
        self._held: Token | None = None

    def token(self) -> str:
        """A token that is good for a while yet."""
        now = self._now()
        if self._held is None or self._held.ends - now < self._lifetime / 2 or self._held.ends - now > self._lifetime:
            self._held = mint(self._key, self._user, now, self._lifetime)
        return self._held.text

    def renew(self) -> None:
        """Forget the token: the server did not want it."""
        self._held = None


def _encoded(value: object) -> str:
    return _text(json.dumps(value, separators=(",", ":"), sort_keys=True).encode())


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
