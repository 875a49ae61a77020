"""A token for slurmrestd as Slurm's auth/jwt reads it: HS256 over header and claims, the user in the claim `sun`. Pure.

The command line signs tokens for users, the controller signs its own. A token is what `scontrol token` would give; it is valid
until `exp`, or until the key is replaced.
"""

import base64
import hashlib
import hmac
import json

_HEADER = {"alg": "HS256", "typ": "JWT"}


def sign(key: bytes, user: str, *, issued: int, expires: int) -> str:
    """The token of a user, valid between two moments."""
    claims = {"exp": expires, "iat": issued, "sun": user}
    body = b".".join(_part(json.dumps(item, separators=(",", ":")).encode()) for item in (_HEADER, claims))
    return (body + b"." + _part(hmac.digest(key, body, hashlib.sha256))).decode("ascii")


def _part(data: bytes) -> bytes:
    """Base64 for URLs without padding, as JSON Web Tokens have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")
