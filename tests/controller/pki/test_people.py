"""What is taken of a request for a certificate: a good key, and nothing else."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.pki import issue, people
from controller.pki.people import UnfitRequestError

NOW = datetime.now(UTC)
PEM = serialization.Encoding.PEM


def request(
    key: object, *, names: tuple[tuple[x509.ObjectIdentifier, str], ...] = (), alternatives: tuple[str, ...] = ()
) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(oid, value) for oid, value in names])
    )
    if alternatives:
        made = x509.SubjectAlternativeName([x509.DNSName(each) for each in alternatives])
        builder = builder.add_extension(made, critical=True).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), True
        )
    plain = isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    return builder.sign(key, None if plain else hashes.SHA256()).public_bytes(PEM)  # type: ignore[arg-type]


# How each is created: some take a second, for which collecting tests should not wait.
GOOD: dict[str, Callable[[], Any]] = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "RSA 2048": lambda: rsa.generate_private_key(65537, 2048),
}
BAD: dict[str, Callable[[], Any]] = {
    "RSA 1024": lambda: rsa.generate_private_key(65537, 1024),  # noqa: S505 - weak on purpose
    "RSA with exponent 3": lambda: rsa.generate_private_key(3, 2048),
    "P-192": lambda: ec.generate_private_key(ec.SECP192R1()),
    "DSA": lambda: dsa.generate_private_key(2048),
    "Ed448": ed448.Ed448PrivateKey.generate,
}


@pytest.mark.parametrize("name", GOOD)
def test_good_keys_are_taken(name: str) -> None:
    key = GOOD[name]()
    assert people.public_key(request(key)) == key.public_key()


@pytest.mark.parametrize("name", BAD)
def test_weak_and_odd_keys_are_refused(name: str) -> None:
    with pytest.raises(UnfitRequestError, match="too weak or of an unknown kind"):
        people.public_key(request(BAD[name]()))


@pytest.mark.parametrize("junk", [b"", b"x", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"])
def test_junk_is_refused(junk: bytes) -> None:
    with pytest.raises(UnfitRequestError, match="must be a PKCS#10 request"):
        people.public_key(junk)


def test_a_huge_request_is_refused_before_it_is_read() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(UnfitRequestError, match="larger than"):
        people.public_key(request(key, alternatives=tuple(f"x{number}.example" for number in range(2000))))


def test_a_request_for_another_ones_key_is_refused() -> None:
    mine, other = (x509.load_pem_x509_csr(request(ec.generate_private_key(ec.SECP256R1()))) for _ in range(2))
    theirs = other.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    own = mine.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    forged = mine.public_bytes(serialization.Encoding.DER).replace(own, theirs)
    made = x509.load_der_x509_csr(forged).public_bytes(PEM)
    with pytest.raises(UnfitRequestError, match="not signed with its own key"):
        people.public_key(made)


def test_nothing_that_the_request_says_of_itself_is_in_the_certificate() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    forged = request(
        key,
        names=((NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, "bulkhead:controller")),
        alternatives=("plane.bh-red.svc",),
    )
    authority = issue.new_authority("bulkhead:red:users", NOW)
    life = timedelta(hours=1)
    pem = people.certify(
        people.public_key(forged),
        user="bulkhead:host:alice",
        group="bulkhead:host-admins",
        authority=authority,
        now=NOW,
        life=life,
    )
    found = x509.load_pem_x509_certificate(pem)
    assert found.subject.rfc4514_string() == "CN=bulkhead:host:alice,O=bulkhead:host-admins"
    assert found.not_valid_after_utc - NOW <= life
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usages = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    with pytest.raises(x509.ExtensionNotFound):
        found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
