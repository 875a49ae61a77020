"""Creates keys, signs certificates and reads them back. EC P-256 throughout; nothing is written anywhere.

Leaves have exactly one extended key usage (etcd's members both) and names only as SANs. They start five minutes in the past, so
that a clock that is behind still accepts them. A leaf never outlives its CA.
"""

import base64
import os
from collections.abc import Callable, Hashable
from datetime import datetime
from ipaddress import ip_address
from typing import Any, TypeVar, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.plane.pki import AUTHORITY_LIFE, BACKDATE, CertFacts, CertSpec, Pair, Usage

T = TypeVar("T")
_USAGES = {
    Usage.SERVER: [ExtendedKeyUsageOID.SERVER_AUTH],
    Usage.CLIENT: [ExtendedKeyUsageOID.CLIENT_AUTH],
    Usage.BOTH: [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
}


def new_authority(name: str, now: datetime) -> Pair:
    """A self-signed CA that may sign leaves, but no further CAs."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(subject, subject, key.public_key(), now, now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(_pem(certificate), _key_pem(key))


def issue(wanted: CertSpec, authority: Pair, now: datetime) -> Pair:
    """A leaf certificate with a new key."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = _load_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in wanted.groups]
    subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, wanted.user)])
    end = min(now + wanted.life, issuer.not_valid_after_utc)
    builder = (
        _builder(subject, issuer.subject, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_USAGES[wanted.usage]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    alternatives = [*(x509.DNSName(name) for name in wanted.dns), *(x509.IPAddress(ip_address(a)) for a in wanted.addresses)]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return Pair(_pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key))


def new_service_account_pair() -> Pair:
    """The key pair with which the plane signs service account tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Pair(_public_pem(key), _key_pem(key))


def service_account_pair(private: bytes) -> Pair | None:
    """The pair of an existing private key; None if the key cannot be read."""
    try:
        return Pair(_public_pem(_load_key(private)), private)
    except (ValueError, TypeError):
        return None


def new_encryption_key() -> str:
    """32 random bytes in base64, for secretbox."""
    return base64.b64encode(os.urandom(32)).decode()


def usable_encryption_key(text: str) -> bool:
    """Whether the text is a key that secretbox accepts."""
    try:
        return len(base64.b64decode(text, validate=True)) == 32
    except ValueError:
        return False


class Known:
    """What was read from one plane's certificates, so that each is parsed only once and not in every reconcile.

    It holds only what the last turn asked for, so its size depends on the certificates of the plane only.
    """

    def __init__(self) -> None:
        self._before: dict[Hashable, Any] = {}
        self._asked: dict[Hashable, Any] = {}

    def turn(self) -> None:
        """A reconcile begins: forget what the last one did not ask for."""
        self._before, self._asked = self._asked, {}

    def facts(self, pair: Pair, authority: bytes) -> CertFacts | None:
        """The facts of a certificate, as `facts`."""
        return self._once(facts, pair, authority)

    def authority_end(self, pair: Pair) -> datetime | None:
        """The end of a CA, as `authority_end`."""
        return self._once(authority_end, pair)

    def fingerprint(self, certificate: bytes) -> str:
        """The fingerprint of a certificate, as `fingerprint`."""
        return self._once(fingerprint, certificate)

    def _once(self, read: Callable[..., T], *what: Pair | bytes) -> T:
        key = (read, *what)
        if key not in self._asked:
            self._asked[key] = self._before[key] if key in self._before else read(*what)
        return cast("T", self._asked[key])


def facts(pair: Pair, authority: bytes) -> CertFacts | None:
    """The content of a certificate, and whether its key and the given CA match; None if it cannot be read."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = _load_key(pair.key)
        issuer = x509.load_pem_x509_certificate(authority)
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return None
    try:
        certificate.verify_directly_issued_by(issuer)
        signer = fingerprint(authority)
    except (ValueError, TypeError, InvalidSignature):
        signer = ""
    dns, addresses = _alternatives(certificate)
    subject = certificate.subject
    return CertFacts(
        user=str(next((attribute.value for attribute in subject.get_attributes_for_oid(NameOID.COMMON_NAME)), "")),
        groups=tuple(str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)),
        usage=next((name for name, oids in _USAGES.items() if list(usage) == oids), Usage.BOTH),
        dns=dns,
        addresses=addresses,
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        authority=signer,
        key_fits=key.public_key() == certificate.public_key(),
    )


def authority_end(pair: Pair) -> datetime | None:
    """The end of a CA; None if it is not a CA or its key does not match."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        fits = _load_key(pair.key).public_key() == certificate.public_key()
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return None
    return certificate.not_valid_after_utc if constraints.ca and fits else None


def fingerprint(certificate: bytes) -> str:
    """The SHA-256 fingerprint of a certificate."""
    return x509.load_pem_x509_certificate(certificate).fingerprint(hashes.SHA256()).hex()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(end)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(certificate: x509.Certificate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        value = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (), ()
    return tuple(value.get_values_for_type(x509.DNSName)), tuple(str(a) for a in value.get_values_for_type(x509.IPAddress))


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("private key: not an elliptic curve key")
    return key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
