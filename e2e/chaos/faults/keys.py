"""Keys and certificates of the target: all Secrets lost, and a certificate that has run out."""

import base64
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from e2e import tenants
from e2e.api import Api, Obj
from e2e.chaos.faults.fault import Fault, Proof, Reversible, Scene, tenant_ready, tenant_works, write_fails
from e2e.poll import until
from e2e.workloads import expect

_OWN: Final = ("resourceVersion", "uid", "creationTimestamp", "managedFields", "ownerReferences")


def anew(secret: Obj) -> Obj:
    """A Secret as it can be created again. Pure."""
    metadata = {key: value for key, value in secret["metadata"].items() if key not in _OWN}
    return {**secret, "apiVersion": "v1", "kind": "Secret", "metadata": metadata}


@dataclass(frozen=True, slots=True)
class LostKeys(Reversible):
    """All Secrets with the target's keys are deleted. No new key may be made over the old data; an admin puts them back."""

    def inject(self, scene: Scene) -> Sequence[Proof]:
        host, plane = scene.host, scene.target.plane
        kept = [item for item in host.list("Secret", plane) if item["metadata"]["name"].startswith("pki-")]
        self.undo.later("the Secrets", partial(_create, host, kept))
        for secret in kept:
            host.delete("Secret", secret["metadata"]["name"], plane)
        named = tenants.wait_condition(host, scene.target.name, "Ready", status="False", reason="KeysLost", seconds=60)
        now = {item["metadata"]["name"]: item for item in host.list("Secret", plane)}
        made = [name for name in now if name in {item["metadata"]["name"] for item in kept}]
        failure = write_fails(scene.target.api)
        return [
            (len(kept) > 5, f"{len(kept)} Secrets were deleted, {len(made)} of these names are there now"),
            (True, f"the Tenant says {named['reason']}: {named['message'][:140]}"),
            (not failure, f"the running plane went on: {failure[:100] or 'it takes writes'}"),
        ]

    def recovered(self, scene: Scene) -> None:
        tenant_ready(scene)
        tenant_works(scene.target)


def in_order(kept: Sequence[Obj]) -> list[Obj]:
    """The Secrets in the order in which they can be put back. Pure.

    As soon as the controller finds the key of the data, it makes the authorities that are missing, so these come first.
    """

    def rank(secret: Obj) -> tuple[bool, bool, str]:
        name = secret["metadata"]["name"]
        return not name.startswith("pki-ca-"), name != "pki-service-account", name

    return sorted(kept, key=rank)


def _create(host: Api, kept: Sequence[Obj]) -> None:
    for secret in in_order(kept):
        host.apply(anew(secret))


def expired(certificate: bytes, authority: bytes, authority_key: bytes) -> tuple[bytes, bytes]:
    """The same certificate by the same authority, which ran out a minute ago, with a new key."""
    old, issuer = x509.load_pem_x509_certificate(certificate), x509.load_pem_x509_certificate(authority)
    signer = serialization.load_pem_private_key(authority_key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not an elliptic curve's")
    own = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(issuer.subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=2))
        .not_valid_after(now - timedelta(minutes=1))
    )
    for extension in old.extensions:
        if extension.oid != x509.SubjectKeyIdentifier.oid:
            builder = builder.add_extension(extension.value, extension.critical)
    text = own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), text


@dataclass(frozen=True, slots=True)
class ExpiredCertificates(Fault):
    """The certificates of the target's API server and of its etcd clients in the host's Secret have run out."""

    pairs: Mapping[str, str] | None = None  # the file in the Secret ──> the Secret of its authority

    def _pairs(self) -> Mapping[str, str]:
        return self.pairs or {"server": "pki-ca-serving", "etcd-client": "pki-ca-etcd"}

    def inject(self, scene: Scene) -> Sequence[Proof]:
        host, plane = scene.host, scene.target.plane
        version = host.collection_version("Secret", plane)
        data = _data(host, plane, "pki-apiserver")
        replaced: dict[str, str] = {}
        for name, authority in self._pairs().items():
            signer = _data(host, plane, authority)
            pair = expired(data[f"{name}.crt"], signer["tls.crt"], signer["tls.key"])
            for suffix, value in zip(("crt", "key"), pair, strict=True):
                replaced[f"{name}.{suffix}"] = base64.b64encode(value).decode()
        host.patch("Secret", "pki-apiserver", {"data": replaced}, plane)
        ends = [_ends(event["object"], name) for event in _first_events(host, plane, version) for name in self._pairs()]
        now = datetime.now(UTC)
        late = [end for end in ends if end < now]
        return [
            (
                bool(late),
                f"a watch of the Secret saw {len(late)} certificates that had run out at {min(ends, default=now):%H:%M:%S}",
            )
        ]

    def recovered(self, scene: Scene) -> None:
        secret = scene.host.get("Secret", "pki-apiserver", scene.target.plane)
        for name in self._pairs():
            end = _ends(secret, name)
            expect(end > datetime.now(UTC) + timedelta(days=1), f"certificate {name} is valid until {end:%d %b %H:%M}")
        tenant_ready(scene)
        served = ssl.get_server_certificate((scene.target.api.host, scene.target.api.port), timeout=5)
        end = x509.load_pem_x509_certificate(served.encode()).not_valid_after_utc
        expect(end > datetime.now(UTC), f"the API server presents a certificate that ended {end:%H:%M}")
        tenant_works(scene.target)


def _first_events(host: Api, namespace: str, version: str) -> list[Obj]:
    """The changes of the Secret that follow; the first of them is the one that was made here."""
    events = host.watch("Secret", namespace, version=version, seconds=5)
    return [
        event for event in events if event["object"]["metadata"].get("name") == "pki-apiserver" and event["type"] == "MODIFIED"
    ]


def _data(host: Api, namespace: str, name: str) -> dict[str, bytes]:
    secret = until(f"Secret {name}", lambda: host.get("Secret", name, namespace), seconds=30)
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}


def _ends(secret: Obj, name: str) -> datetime:
    certificate = base64.b64decode(secret["data"][f"{name}.crt"])
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc
