"""The certificates of the embedded host, issued once and renewed before they expire.

Three CAs: `ca` (API server, kubelet, clients), `etcd-ca` and `front-proxy-ca`. Only root can read the private keys. Tenants use
none of them: their planes have CAs of their own.
"""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bulkhead.api.kubeconfig import Credential, kubeconfig
from workstation.hostcluster.component import CLUSTER_DOMAIN, NODE_ADDRESS, SERVICE_RANGE, HostContext
from workstation.hostcluster.files import write_file
from workstation.hostcluster.node import Node, nodes_of

_CA_DAYS = 3650
_LEAF_DAYS = 365
RENEW_BEFORE = dt.timedelta(days=30)  # `host up` replaces a certificate that ends within this time
_AUTHORITIES = ("ca", "etcd-ca", "front-proxy-ca")
_MASTERS = "system:masters"  # the host's own administrator and API server; tenants never get it
_SERVICE_IP = str(ipaddress.ip_network(SERVICE_RANGE)[1])

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate to issue: its subject and its use."""

    name: str
    ca: str
    common_name: str
    organization: str = ""
    server: bool = False
    client: bool = True
    hosts: tuple[str, ...] = ()


_API_HOSTS = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    f"kubernetes.default.svc.{CLUSTER_DOMAIN}",
    "localhost",
    "127.0.0.1",
    NODE_ADDRESS,
    _SERVICE_IP,
)
_METRICS_HOSTS = ("metrics-server.kube-system.svc", NODE_ADDRESS)  # the API server's name for it, and its address

LEAVES = (
    Leaf("etcd-server", "etcd-ca", "etcd", server=True, hosts=("localhost", "127.0.0.1")),
    Leaf("etcd-client", "etcd-ca", "kube-apiserver"),
    Leaf("apiserver", "ca", "kube-apiserver", server=True, client=False, hosts=_API_HOSTS),
    Leaf("apiserver-kubelet-client", "ca", "kube-apiserver-kubelet-client", _MASTERS),
    Leaf("front-proxy-client", "front-proxy-ca", "front-proxy-client"),
    Leaf("admin", "ca", "bulkhead-host-admin", _MASTERS),
    Leaf("controller-manager", "ca", "system:kube-controller-manager"),
    Leaf("scheduler", "ca", "system:kube-scheduler"),
    Leaf("proxy", "ca", "system:kube-proxy"),
    Leaf("metrics-server", "ca", "system:metrics-server"),
    Leaf("metrics-server-serving", "ca", "metrics-server", server=True, client=False, hosts=_METRICS_HOSTS),
)
KUBECONFIGS = ("controller-manager", "scheduler", "proxy", "metrics-server")


def leaves_of(node: Node) -> tuple[Leaf, Leaf]:
    """A kubelet's certificates: as a server, and as a client of the API server."""
    subject = f"system:node:{node.name}"
    hosts = (node.name, node.address)
    return (
        Leaf(node.identity("kubelet-server"), "ca", subject, "system:nodes", server=True, hosts=hosts),
        Leaf(node.identity("kubelet"), "ca", subject, "system:nodes"),
    )


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _fresh(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc - _now() > RENEW_BEFORE and certificate.not_valid_before_utc <= _now()


def _key_pem(key: Key) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _load_key(path: Path) -> Key:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"host certificates: {path} must contain an EC key")
    return key


def _pair(path: Path) -> tuple[x509.Certificate, Key] | None:
    """A certificate and its key; None unless both are there, whole, and of each other, as after a power failure."""
    try:
        certificate, key = x509.load_pem_x509_certificate(path.read_bytes()), _load_key(path.with_suffix(".key"))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return (certificate, key) if certificate.public_key() == key.public_key() else None


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, days: int) -> x509.CertificateBuilder:
    start = _now() - dt.timedelta(minutes=5)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=days))
    )


def _name(common_name: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=ca, crl_sign=ca, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _ensure_ca(folder: Path, name: str) -> tuple[x509.Certificate, Key]:
    certificate_path, key_path = folder / f"{name}.crt", folder / f"{name}.key"
    known = _pair(certificate_path)
    if known is not None and _fresh(known[0]):
        return known
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"bulkhead-host-{name}")
    certificate = (
        _builder(subject, subject, key, _CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_file(key_path, _key_pem(key), mode=0o600)
    write_file(certificate_path, certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def _alternatives(hosts: tuple[str, ...]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _usable(path: Path, leaf: Leaf, ca: x509.Certificate) -> bool:
    known = _pair(path)
    if known is None:
        return False
    certificate = known[0]
    try:
        certificate.verify_directly_issued_by(ca)
    except Exception:  # noqa: BLE001 - the library raises several kinds; each means "not from this authority"
        return False
    return _fresh(certificate) and certificate.subject == _name(leaf.common_name, leaf.organization)


def _ensure_leaf(folder: Path, leaf: Leaf, ca: x509.Certificate, ca_key: Key) -> bool:
    """Returns whether it took the place of an earlier one."""
    path = folder / f"{leaf.name}.crt"
    if _usable(path, leaf, ca):
        return False
    known = path.exists()
    key = ec.generate_private_key(ec.SECP256R1())
    uses = [
        *([ExtendedKeyUsageOID.SERVER_AUTH] if leaf.server else []),
        *([ExtendedKeyUsageOID.CLIENT_AUTH] if leaf.client else []),
    ]
    builder = (
        _builder(_name(leaf.common_name, leaf.organization), ca.subject, key, _LEAF_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    if leaf.hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(leaf.hosts)), critical=False)
    write_file(path.with_suffix(".key"), _key_pem(key), mode=0o600)
    write_file(path, builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return known


def ensure_apart(folder: Path, leaf: Leaf) -> None:
    """A certificate with a CA of its own, which nothing of the host trusts, for servers that are not part of the cluster."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _ensure_leaf(folder, leaf, *_ensure_ca(folder, leaf.ca))


def _ensure_service_account_key(folder: Path) -> None:
    try:
        key = _load_key(folder / "sa.key")
    except (FileNotFoundError, ValueError, TypeError):
        key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    write_file(folder / "sa.key", _key_pem(key), mode=0o600)
    write_file(folder / "sa.pub", public)


def _kubeconfig(folder: Path, identity: str, server: str) -> bytes:
    """A kubeconfig with everything inline, so that it can be copied anywhere."""
    certificate, key = ((folder / f"{identity}.{suffix}").read_bytes() for suffix in ("crt", "key"))
    ca = (folder / "ca.crt").read_bytes()
    return kubeconfig(
        name="bulkhead-host", server=server, ca=ca, user=identity, credential=Credential(certificate, key)
    ).encode()


def _leaves(ctx: HostContext) -> tuple[Leaf, ...]:
    return (*LEAVES, *(leaf for node in nodes_of(ctx) for leaf in leaves_of(node)))


def first_end(ctx: HostContext, *more: str) -> float:
    """When the first of the host's certificates and of those in `more` ends; seconds since the epoch, 0 without any."""
    names = (*_AUTHORITIES, *(leaf.name for leaf in _leaves(ctx)), *more)
    paths = (ctx.pki_dir / f"{name}.crt" for name in names)
    found = [x509.load_pem_x509_certificate(path.read_bytes()) for path in paths if path.exists()]
    return min((certificate.not_valid_after_utc.timestamp() for certificate in found), default=0.0)


def ensure_pki(ctx: HostContext) -> tuple[str, ...]:
    """Issue what is missing or about to expire; the rest is kept. Returns the names of those that replaced earlier ones."""
    folder = ctx.pki_dir
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authorities = {name: _ensure_ca(folder, name) for name in _AUTHORITIES}
    nodes = nodes_of(ctx)
    renewed = tuple(leaf.name for leaf in _leaves(ctx) if _ensure_leaf(folder, leaf, *authorities[leaf.ca]))
    _ensure_service_account_key(folder)
    for identity in (*KUBECONFIGS, *(node.identity("kubelet") for node in nodes)):
        write_file(ctx.config_dir / f"{identity}.kubeconfig", _kubeconfig(folder, identity, ctx.api_url), mode=0o600)
    write_file(ctx.kubeconfig, _kubeconfig(folder, "admin", ctx.api_url), mode=0o600)
    return renewed
