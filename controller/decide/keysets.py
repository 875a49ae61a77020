"""An identity provider's answers: its discovery document and its keys, read as hostile input. Pure.

    bytes of discovery ──> keys_address() ──> bytes of keys ──> read_keys() ──> only public keys, in one order, within bounds

Whatever is wrong raises `Fault`, whose text has the cause and what an admin can do.
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
_MAX_KEYS: Final = 32
_FIELD_CHARACTERS: Final = 2048
_MIN_RSA_BYTES: Final = 256
# The members of a key, by its type: never those of a private key, and no symmetric keys.
_PARTS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y")}
_CURVES: Final = frozenset({"P-256", "P-384", "P-521"})
_SHOWN_CHARACTERS: Final = 120


class Fault(Exception):  # noqa: N818 - what is wrong with a provider
    """A provider cannot be used, because of its answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known about a source: its last keys, and why it has no newer ones."""

    keys: str = ""
    trouble: str = ""


def keys_address(raw: bytes, source: Source) -> str:
    """The address of the keys in a discovery document. Raises Fault if the document is not the provider's own."""
    document = _document(raw, "a discovery document")
    if not _is_address(source.url):
        raise Fault(f"{_short(source.url)} is not an https address; correct the issuer's url in the class")
    named = text(document.get("issuer"))
    if named != source.url:
        raise Fault(f"its issuer is {_short(named)}, also in its tokens; set the issuer's url in the class to exactly that")
    address = text(document.get("jwks_uri"))
    if not _is_address(address):
        raise Fault(f"its discovery document must have an https address for its keys, not {_short(address)}; correct it there")
    return address


def _is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        plain = value.isascii() and value.isprintable()
        return plain and parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def read_keys(raw: bytes) -> str:
    """The public keys that tokens can be signed with, as a JSON Web Key Set; the same text for the same keys."""
    listed = mappings(_document(raw, "a set of keys").get("keys"))
    if len(listed) > _MAX_KEYS:
        raise Fault(f"it must have at most {_MAX_KEYS} keys, not {len(listed)}; remove old ones at the provider")
    found = [key for given in listed if (key := _key(given)) is not None]
    if not found:
        raise Fault("it has no key for RSA (2048 bits or more) or ECDSA signatures; add one at the provider")
    return json.dumps({"keys": sorted(found, key=lambda key: json.dumps(key, sort_keys=True))}, sort_keys=True)


def _key(given: Any) -> dict[str, str] | None:
    kind = text(mapping(given).get("kty"))
    if kind not in _PARTS or given.get("use", "sig") != "sig":
        return None
    names = ("kty", *_PARTS[kind], *(name for name in ("kid", "alg") if given.get(name)))
    key = {name: text(given.get(name)) for name in names}
    if any(not 0 < len(value) <= _FIELD_CHARACTERS for value in key.values()):
        return None
    fits = key["crv"] in _CURVES if kind == "EC" else _length(key["n"]) >= _MIN_RSA_BYTES
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
        raise Fault(f"its answer is not {what}; check the issuer's url and discoveryURL in the class")
    return found


def _short(value: str) -> str:
    return repr(value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}…") if value else "nothing"
