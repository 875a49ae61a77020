"""Draws the keys with which the controller signs, and turns a Secret's files into a ring and back.

signing.key   the private key that signs
<id>.pub      the public half of each key that ever signed: of older keys only this is left
"""

from collections.abc import Mapping
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bulkhead.signing import Ring, key_id, private_key, private_pem, public_key, public_pem

PRIVATE: Final = "signing.key"
PUBLIC_SUFFIX: Final = ".pub"


def new_files() -> dict[str, bytes]:
    """The files of a new key; beside those of older keys they replace the private one."""
    key = Ed25519PrivateKey.generate()
    return {PRIVATE: private_pem(key), f"{key_id(key.public_key())}{PUBLIC_SUFFIX}": public_pem(key.public_key())}


def ring_of(files: Mapping[str, bytes]) -> Ring:
    """The keys of a Secret's files. Raises SignatureError."""
    trusted = [public_key(files[name]) for name in sorted(files) if name.endswith(PUBLIC_SUFFIX)]
    return Ring(private_key(files.get(PRIVATE, b"")), trusted)
