"""What an identity provider answers: its discovery document and its keys, read with suspicion. Pure.

    bytes of discovery ──> keys_address() ──> bytes of keys ──> read_keys() ──> public keys alone, in one order, within bounds

Whatever is wrong is a `Fault`, whose text says the cause and what an admin can do.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from bulkhead.api.providers import Source
from bulkhead.api.untrusted import mapping, mappings, text

KEY_SET_BYTES: Final = 256 * 1024
_MOST_KEYS: Final = 32
_FIELD_CHARACTERS: Final = 2048
_LEAST_RSA_BYTES: Final = 256
# What a key consists of, by its type: never the parts of a private one, nor a key that both sides share.
_PARTS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y")}
_CURVES: Final = frozenset({"P-256", "P-384", "P-521"})
_SHOWN_CHARACTERS: Final = 120


class Fault(Exception):  # noqa: N818 - what is wrong with a provider
    """A provider cannot be used as it answers."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of a source: its last keys, and why it has no newer ones."""

    keys: str = ""
    trouble: str = ""


def keys_address(raw: bytes, source: Source) -> str:
    """Where the keys are, of a discovery document that is the provider's own."""
    document = _document(raw, "a discovery document")
    if not _is_address(source.url):
        raise Fault(f"{_short(source.url)} is not an https address; correct the issuer's url in the class")
    named = text(document.get("issuer"))
    if named != source.url:
        raise Fault(f"it calls itself {_short(named)}, and so do its tokens; set the issuer's url in the class to exactly that")
    address = text(document.get("jwks_uri"))
    if not _is_address(address):
        raise Fault(f"its discovery document names no https address for its keys, but {_short(address)}; correct it there")
    return address


def _is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def read_keys(raw: bytes) -> str:
    """The public keys that tokens can be signed with, as a JSON Web Key Set; the same text for the same keys."""
    listed = mappings(_document(raw, "a set of keys").get("keys"))
    if len(listed) > _MOST_KEYS:
        raise Fault(f"it has {len(listed)} keys, more than {_MOST_KEYS}; remove old ones there")
    found = [key for given in listed if (key := _key(given)) is not None]
    if not found:
        raise Fault("it has no key for signatures of RSA (2048 bits or more) or ECDSA; give it one")
    return json.dumps({"keys": sorted(found, key=lambda key: json.dumps(key, sort_keys=True))}, sort_keys=True)


def _key(given: Any) -> dict[str, str] | None:
    kind = text(mapping(given).get("kty"))
    if kind not in _PARTS or given.get("use", "sig") != "sig":
        return None
    names = ("kty", *_PARTS[kind], *(name for name in ("kid", "alg") if given.get(name)))
    key = {name: text(given.get(name)) for name in names}
    if any(not 0 < len(value) <= _FIELD_CHARACTERS for value in key.values()):
        return None
    fits = key["crv"] in _CURVES if kind == "EC" else _length(key["n"]) >= _LEAST_RSA_BYTES
    return key | {"use": "sig"} if fits else None


def _length(number: str) -> int:
    try:
        return len(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4)).lstrip(b"\0"))
    except (ValueError, binascii.Error):
        return 0


def _document(raw: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Fault(f"what it answers is not {what}; check the issuer's url and discoveryURL in the class")
    return found


def _short(value: str) -> str:
    return repr(value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}…") if value else "nothing"
