"""Certificates for people: reads an untrusted request, and signs a name that the controller has decided.

Only the public key of a request is used. Everything else in it (a subject, alternative names, other extensions) is ignored. The
key must be strong, and the request must be signed with it.
"""

from datetime import datetime, timedelta
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.plane.pki import BACKDATE, Pair

REQUEST_BYTES: Final = 8192
_CURVES: Final = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_RSA_BITS: Final = (2048, 4096)
_EXPONENT: Final = 65537

PublicKey: TypeAlias = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey


class UnfitRequestError(ValueError):
    """A request that is never signed; the text says why, and quotes nothing of it."""


def public_key(pem: bytes) -> PublicKey:
    """The key of a PKCS#10 request. Raises UnfitRequestError if it is weak, or the requester does not hold it."""
    if len(pem) > REQUEST_BYTES:
        raise UnfitRequestError(f"the request is larger than {REQUEST_BYTES} bytes")
    try:
        request = x509.load_pem_x509_csr(pem)
        key = _strong(request.public_key())
        valid = request.is_signature_valid
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
        if isinstance(error, UnfitRequestError):
            raise
        raise UnfitRequestError("the request must be a PKCS#10 request in PEM") from error
    if not valid:
        raise UnfitRequestError("the request is not signed with its own key")
    return key


def _strong(key: object) -> PublicKey:
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, _CURVES):
        return key
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    if isinstance(key, rsa.RSAPublicKey):
        least, most = _RSA_BITS
        if least <= key.key_size <= most and key.public_numbers().e == _EXPONENT:
            return key
    raise UnfitRequestError(
        "the key is too weak or of an unknown kind: must be P-256, P-384, P-521, Ed25519 or RSA of 2048 to 4096 bits"
    )


def certify(key: PublicKey, *, user: str, group: str, authority: Pair, now: datetime, life: timedelta) -> bytes:
    """A client certificate for a key, PEM; it never outlives its CA."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise TypeError("private key: not an elliptic curve key")
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, user)]
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign", "crl_sign"), False
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(issuer.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(min(now + life, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, encipher_only=False, decipher_only=False, **usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)
