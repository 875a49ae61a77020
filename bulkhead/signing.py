"""Texts that the controller signs: it recognises them after they have left the host, and notices if they were changed.

    text ──> Ring.sign(purpose) ──> {"text", "key", "signature"} as JSON ──> stored anywhere ──> Ring.verify(purpose) ──> text

Ed25519. A signature covers the purpose and the text, so a text of one purpose never passes as another's. Of several keys the
first signs, and all verify. Pure: keys are passed in, and this module draws none.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_ID_HEX: Final = 16
_FIELDS: Final = frozenset({"text", "key", "signature"})
LONGEST: Final = 64 * 1024  # characters of an envelope


class SignatureError(ValueError):
    """A text is not what one of the known keys signed for this purpose; the message says why."""


class UnknownKeyError(SignatureError):
    """A text names a key that is not known here."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A text, and the key that signed it."""

    text: str
    key: str


class Ring:
    """Keys: the one that signs, and those whose earlier signatures still count."""

    def __init__(self, signing: Ed25519PrivateKey | None, trusted: Iterable[Ed25519PublicKey] = ()) -> None:
        self._signing = signing
        own = (signing.public_key(),) if signing is not None else ()
        self._trusted = {key_id(public): public for public in (*trusted, *own)}
        self.current = key_id(signing.public_key()) if signing is not None else ""

    @property
    def known(self) -> frozenset[str]:
        """The keys whose signatures count."""
        return frozenset(self._trusted)

    def sign(self, purpose: str, text: str) -> str:
        """The text with a signature of the current key. Raises SignatureError if this ring only verifies."""
        if self._signing is None:
            raise SignatureError("no key to sign with")
        signature = self._signing.sign(_signed(purpose, text))
        envelope = {"text": text, "key": self.current, "signature": base64.b64encode(signature).decode()}
        return json.dumps(envelope, sort_keys=True, separators=(",", ":"))

    def verify(self, purpose: str, envelope: str) -> Verified:
        """The text of an envelope. Raises SignatureError."""
        text, key, signature = _opened(envelope)
        public = self._trusted.get(key)
        if public is None:
            known = ", ".join(sorted(self._trusted)) or "none"
            raise UnknownKeyError(f"it is signed with key {key[:64]!r}, which is not known here (known: {known})")
        try:
            public.verify(signature, _signed(purpose, text))
        except InvalidSignature as error:
            raise SignatureError(
                f"its signature of key {key} does not fit: it was changed, or made for another purpose"
            ) from error
        return Verified(text, key)


def key_id(public: Ed25519PublicKey) -> str:
    """A key's name: the beginning of the SHA-256 of its public half."""
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:_ID_HEX]


def private_key(pem: bytes) -> Ed25519PrivateKey:
    """A private key from PEM. Raises SignatureError."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignatureError("the private key cannot be read: it must be PEM") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError("the private key is not an Ed25519 key")
    return key


def public_key(pem: bytes) -> Ed25519PublicKey:
    """A public key from PEM. Raises SignatureError."""
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignatureError("a public key cannot be read: it must be PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError("a public key is not an Ed25519 key")
    return key


def private_pem(key: Ed25519PrivateKey) -> bytes:
    """A private key as PEM."""
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def public_pem(key: Ed25519PublicKey) -> bytes:
    """A public key as PEM."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _signed(purpose: str, text: str) -> bytes:
    raw = purpose.encode()
    # The length comes first: no purpose can run on into a text.
    return len(raw).to_bytes(4, "big") + raw + text.encode()


def _opened(envelope: str) -> tuple[str, str, bytes]:
    if len(envelope) > LONGEST:
        raise SignatureError(f"it is longer than {LONGEST} characters")
    try:
        found = json.loads(envelope)
    except (ValueError, RecursionError) as error:
        raise SignatureError("it is not JSON") from error
    if not isinstance(found, dict) or found.keys() != _FIELDS or not all(isinstance(value, str) for value in found.values()):
        raise SignatureError("it is not a signed text: it must have text, key and signature, and nothing else")
    try:
        signature = base64.b64decode(found["signature"], validate=True)
        found["text"].encode()
    except (ValueError, binascii.Error) as error:
        raise SignatureError("its signature is not base64, or its text is not Unicode") from error
    return found["text"], found["key"], signature
