"""The keys of one Slurm cluster, as data: how they are kept, rotated and handed to the daemons.

Pure: random bytes and the time come from the caller (`controller.slurm.keygen`). auth/slurm knows several keys at once, one of
which signs. A rotation has two halves, so that it stops no job: `staged` gives every daemon the new key to verify with, and
once all have it `promoted` lets it sign, while the old one verifies until it expires.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from bulkhead.api.objects import Obj
from controller.slurm.spec import TOKEN_KEY, VOUCHING_KEY

SHORTEST_KEY_BYTES: Final = 32
KEPT_KEYS: Final = 3  # the signing key and those that still verify

_PASSWORD: Final = "database-password"  # noqa: S105 - the name of a field
_PASSWORD_MARK: Final = "database-password-mark"  # noqa: S105 - the name of a field
_SSH: Final = "ssh_host_ed25519_key"


class BadKeysError(ValueError):
    """Kept key material cannot be used; the text says what is wrong with it and never what it is."""


@dataclass(frozen=True, slots=True)
class AuthKey:
    """One key of auth/slurm."""

    kid: str
    secret: bytes
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class SlurmKeys:
    """All keys of a cluster; `auth` begins with the one that signs."""

    auth: tuple[AuthKey, ...]
    jwt: bytes
    database_password: str
    ssh_host_key: str
    ssh_host_key_public: str
    # Another one for each password of the database, which MariaDB reads only at its start; older clusters have none.
    password_mark: str = ""

    def jwks(self) -> str:
        """The file slurm.jwks."""
        keys = [_entry(key, signs=index == 0) for index, key in enumerate(self.auth)]
        return json.dumps({"keys": keys}, indent=1, sort_keys=True) + "\n"


def staged(keys: SlurmKeys, fresh: AuthKey) -> SlurmKeys:
    """First half of a rotation: every daemon can verify with the new key before any daemon signs with it; one at a time."""
    if waiting(keys) is not None:
        return keys
    first, *others = keys.auth
    return replace(keys, auth=(first, replace(fresh, expires=None), *others[: KEPT_KEYS - 2]))


def waiting(keys: SlurmKeys) -> AuthKey | None:
    """The key that is staged and signs nothing yet."""
    return next((key for key in keys.auth[1:] if key.expires is None), None)


def promoted(keys: SlurmKeys, *, now: int, overlap: int) -> SlurmKeys:
    """Second half: the staged key signs, and the one before still verifies for `overlap` seconds."""
    fresh = waiting(keys)
    if fresh is None:
        return keys
    others = [key for key in keys.auth if key.kid != fresh.kid]
    older = [key if key.expires is not None else replace(key, expires=now + overlap) for key in others]
    return replace(keys, auth=(fresh, *older[: KEPT_KEYS - 1]))


def retired(keys: SlurmKeys, *, now: int) -> SlurmKeys:
    """The keys without those that have expired; the one that signs always stays."""
    first, *older = keys.auth
    return replace(keys, auth=(first, *(key for key in older if key.expires is None or key.expires > now)))


def to_data(keys: SlurmKeys) -> dict[str, str]:
    """The `data` of the Secret that keeps the keys on the host."""
    raw = {
        VOUCHING_KEY: keys.jwks().encode(),
        TOKEN_KEY: keys.jwt,
        _PASSWORD: keys.database_password.encode(),
        _SSH: keys.ssh_host_key.encode(),
        f"{_SSH}.pub": keys.ssh_host_key_public.encode(),
    }
    if keys.password_mark:
        raw[_PASSWORD_MARK] = keys.password_mark.encode()
    return {name: base64.b64encode(value).decode() for name, value in raw.items()}


def from_data(data: Mapping[str, str]) -> SlurmKeys:
    """The keys from a Secret's `data`; raises `BadKeysError` when they cannot be used."""
    try:
        names = (VOUCHING_KEY, TOKEN_KEY, _PASSWORD, _SSH, f"{_SSH}.pub")
        raw = {name: base64.b64decode(data[name], validate=True) for name in names}
        mark = base64.b64decode(data.get(_PASSWORD_MARK) or "", validate=True).decode("ascii")
        entries = json.loads(raw[VOUCHING_KEY])["keys"]
        auth = tuple(_parsed(entry) for entry in sorted(entries, key=lambda entry: entry.get("use") != "default"))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadKeysError(f"Slurm keys: unreadable: {type(error).__name__}") from error
    if not auth or any(len(key.secret) < SHORTEST_KEY_BYTES for key in auth) or len(raw[TOKEN_KEY]) < SHORTEST_KEY_BYTES:
        raise BadKeysError(f"Slurm keys: a key is missing or shorter than {SHORTEST_KEY_BYTES} bytes")
    return SlurmKeys(
        auth=auth,
        jwt=raw[TOKEN_KEY],
        database_password=raw[_PASSWORD].decode(),
        ssh_host_key=raw[_SSH].decode(),
        ssh_host_key_public=raw[f"{_SSH}.pub"].decode(),
        password_mark=mark,
    )


def _entry(key: AuthKey, *, signs: bool) -> Obj:
    made: Obj = {"alg": "HS256", "kty": "oct", "kid": key.kid, "k": base64.b64encode(key.secret).decode()}
    if signs:
        return made | {"use": "default"}
    return made if key.expires is None else made | {"exp": key.expires}


def _parsed(entry: Mapping[str, object]) -> AuthKey:
    expires = entry.get("exp")
    return AuthKey(
        kid=str(entry["kid"]),
        secret=base64.b64decode(str(entry["k"]), validate=True),
        expires=int(str(expires)) if expires is not None else None,
    )
