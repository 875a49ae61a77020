"""Issues the controller's token for a tenant's slurmrestd: signed with the tenant's own key, short-lived, renewed early.

Nothing is stored: the key is enough to sign another token, and a new key invalidates every one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bulkhead.api.slurmtoken import sign

TOKEN_LIFE = timedelta(minutes=5)
_USER = "slurm"


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A token and when it ends. It has no text form, so that it cannot end up in a log."""

    text: str
    ends: datetime


def mint(key: bytes, user: str, now: datetime, lifetime: timedelta = TOKEN_LIFE) -> Token:
    """A token for a user from now on."""
    ends = now + lifetime
    return Token(sign(key, user, issued=int(now.timestamp()), expires=int(ends.timestamp())), ends)


class TokenSource:
    """Keeps one token valid: it is renewed after half of its lifetime, so that slightly wrong clocks do no harm."""

    def __init__(self, key: bytes, now: Callable[[], datetime], *, user: str = _USER, lifetime: timedelta = TOKEN_LIFE) -> None:
        self._key = key
        self._now = now
        self._user = user
        self._lifetime = lifetime
        self._held: Token | None = None

    def token(self) -> str:
        """A token that stays valid for at least half of its lifetime."""
        now = self._now()
        if self._held is None or self._held.ends - now < self._lifetime / 2 or self._held.ends - now > self._lifetime:
            self._held = mint(self._key, self._user, now, self._lifetime)
        return self._held.text

    def renew(self) -> None:
        """Forget the token: the server refused it."""
        self._held = None
