"""Whether a receiver of audit trails can be used: certificates and credentials with which an API server starts. Pure.

An API server does not start with CAs that it cannot read, or with a certificate without its key. So neither is ever rendered.
"""

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from bulkhead.api.untrusted import mapping
from controller.plane.auditreceiver import CERTIFICATE, TOKEN

TYPE: Final = "bulkhead.dev/audit-receiver"
_AUTHORITIES_BYTES: Final = 16 << 10
_FORMS: Final = f"{TOKEN}, or {' and '.join(CERTIFICATE)}"


class ReceiverUnusableError(ValueError):
    """A receiver that cannot be used; the text says what is wrong with it."""


def check_authorities(text: str) -> None:
    """Raises ReceiverUnusableError if there is no certificate, or one that cannot be read."""
    try:
        x509.load_pem_x509_certificates(text.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ReceiverUnusableError(f"has no certificate that can be read ({str(error)[:100]})") from error


def credential_of(secret: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The files of a Secret, with their content in base64. Raises ReceiverUnusableError if one is missing or unusable."""
    if secret.get("type") != TYPE:
        raise ReceiverUnusableError(f"it must be of type {TYPE}, not {secret.get('type')}, which could be shared with tenants")
    data = mapping(secret.get("data"))
    files = {name: str(data[name]) for name in (TOKEN, *CERTIFICATE) if name in data}
    if set(files) not in ({TOKEN}, set(CERTIFICATE)):
        raise ReceiverUnusableError(f"it must have {_FORMS}, not {', '.join(sorted(map(str, data))[:8]) or 'nothing'}")
    plain = {name: _plain(name, value) for name, value in files.items()}
    if TOKEN in plain:
        _check_token(plain[TOKEN])
    else:
        _check_pair(*(plain[name] for name in CERTIFICATE))
    return tuple(files.items())


def _plain(name: str, value: str) -> bytes:
    try:
        found = b64decode(value, validate=True)
    except ValueError as error:
        raise ReceiverUnusableError(f"its {name} must be base64") from error
    if len(found) > _AUTHORITIES_BYTES:
        raise ReceiverUnusableError(f"its {name} must have at most {_AUTHORITIES_BYTES} bytes, not {len(found)}")
    return found


def _check_token(token: bytes) -> None:
    # The API server strips what surrounds the token; the token itself becomes an HTTP header.
    if not token.strip() or not all(0x21 <= byte <= 0x7E for byte in token.strip()):
        raise ReceiverUnusableError(f"its {TOKEN} is empty, or has spaces or characters that no header can have")


def _check_pair(certificate: bytes, key: bytes) -> None:
    try:
        public = x509.load_pem_x509_certificates(certificate)[0].public_key()
        private = load_pem_private_key(key, password=None).public_key()
        forms = {key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) for key in (public, private)}
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ReceiverUnusableError(f"its {' or '.join(CERTIFICATE)} cannot be read, or the key has a password") from error
    if len(forms) > 1:
        raise ReceiverUnusableError(f"its {CERTIFICATE[1]} is not the key of its {CERTIFICATE[0]}")
