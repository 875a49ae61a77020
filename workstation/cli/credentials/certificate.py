"""A certificate for an hour for admins of the host. The private key is created here and never leaves this machine.

    key ──> CertificateSigningRequest on the host ──> the controller: may the requester `login`? ──> certificate
            (its API server records the requester)

The certificate and its key are kept in this user's cache until shortly before the certificate expires. The entry belongs to one
version of the host's kubeconfig file, one of its contexts and one tenant. A command that has read the Tenant does not use a
certificate of a former tenant of that name, nor a revoked one. A plugin has not read it, and notices when it is asked again.
"""

import asyncio
import base64
import contextlib
import hashlib
import time
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, NotFound
from workstation.cli import connection, eventloop, hostfile
from workstation.cli.arguments import Host
from workstation.cli.credentials import cache
from workstation.cli.failures import CliError, Exit

_SECONDS: Final = 3600
ANSWER_SECONDS: Final = 30.0
_EARLY_SECONDS: Final = 300
_FIRST_POLL: Final = 0.02
_SLOWEST_POLL: Final = 0.5


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """A client certificate with its key, in PEM, and when it expires, in seconds since 1970."""

    certificate: str
    key: str
    ends: float


def for_plugin(host: Host, tenant: str) -> Certificate:
    """The certificate for a process that asks by `exec`: the cached one, unless that process was just given it."""
    entry = entry_of(host, tenant)
    with entry.locked():
        kept = entry.read()
        found = None if cache.asked_again(kept) else _good(kept)
        if found is None:
            # A refused certificate is of no use to any process, even if there is no other.
            entry.clear()
            found, kept = eventloop.run(_obtain(host, tenant)), {}
        entry.write(cache.given(_kept(found, tenant, str(kept.get("of") or ""))))
        return found


async def current(client: Client, host: Host, tenant: Obj, *, patience: float = ANSWER_SECONDS) -> Certificate:
    """The cached certificate if the tenant still accepts it, or a new one."""
    name, of = str(tenant["metadata"]["name"]), _issue(tenant)
    entry = entry_of(host, name)
    with entry.locked():
        kept = entry.read()
        found = _good(kept) if kept.get("of") == of else None
        if found is None:
            found = await obtain(client, name, patience=patience)
            entry.write(_kept(found, name, of))
        return found


def _issue(tenant: Obj) -> str:
    """What a cached certificate must match: the tenant's UID, and the time of its last revocation."""
    access = mapping(mapping(tenant.get("spec")).get("access"))
    return f"{tenant['metadata'].get('uid')} {access.get('certificatesRevoked') or ''}"


def _kept(found: Certificate, tenant: str, of: str) -> dict[str, Any]:
    return {"tenant": tenant, "of": of, "certificate": found.certificate, "key": found.key, "ends": found.ends}


def entry_of(host: Host, tenant: str) -> cache.Entry:
    """The cache entry of the certificate."""
    path = hostfile.find_kubeconfig(host.kubeconfig)
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise CliError(f"cannot read kubeconfig {path}: {error.strerror}") from error
    return cache.entry("certificate", str(path.resolve()), digest, host.context or "", tenant)


async def _obtain(host: Host, tenant: str) -> Certificate:
    async with connection.host_client(host) as client:
        return await obtain(client, tenant)


async def obtain(client: Client, tenant: str, *, patience: float = ANSWER_SECONDS) -> Certificate:
    """A new certificate for a new key."""
    from cryptography import x509  # noqa: PLC0415 - slow to load
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    pem = await _issued(client, tenant, request.public_bytes(serialization.Encoding.PEM), patience)
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CliError(f"tenant {tenant}: the host issued no certificate that can be read") from error
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificate(pem.decode(), private.decode(), certificate.not_valid_after_utc.timestamp())


async def _issued(client: Client, tenant: str, request: bytes, patience: float) -> bytes:
    filed = await _file(client, tenant, request)
    name = str(filed["metadata"]["name"])
    deadline = time.monotonic() + patience
    pause = _FIRST_POLL
    while time.monotonic() < deadline:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _SLOWEST_POLL)
        try:
            status = (await client.get(kinds.CERTIFICATE_SIGNING_REQUESTS, name)).get("status") or {}
        except NotFound:
            break
        for condition in status.get("conditions") or ():
            if condition.get("type") in {"Denied", "Failed"}:
                raise CliError(f"tenant {tenant}: no certificate: {condition.get('message')}", next_step=_right(tenant))
        if status.get("certificate"):
            return base64.b64decode(status["certificate"])
    raise CliError(
        f"tenant {tenant}: the controller did not answer request {name} within {patience:g} s",
        next_step=f"check whether the tenant is ready: bulkhead tenant describe {tenant}",
        code=Exit.TIMEOUT,
    )


async def _file(client: Client, tenant: str, request: bytes) -> Obj:
    body: dict[str, Any] = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "bulkhead-login-", "labels": {labels.TENANT: tenant}},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": names.LOGIN_SIGNER,
            "expirationSeconds": _SECONDS,
            "usages": ["client auth", "digital signature"],
        },
    }
    try:
        return await client.create(kinds.CERTIFICATE_SIGNING_REQUESTS, body)
    except Forbidden as error:
        raise CliError(f"tenant {tenant}: this kubeconfig may not request a certificate", next_step=_right(tenant)) from error


def _right(tenant: str) -> str:
    return f"ask an admin of the host for the verb {names.LOGIN_VERB} on Tenant {tenant}, as in ClusterRole bulkhead-login"


def _good(kept: dict[str, Any]) -> Certificate | None:
    """The cached certificate, if it remains valid for long enough."""
    with contextlib.suppress(KeyError, TypeError, ValueError):
        found = Certificate(str(kept["certificate"]), str(kept["key"]), float(kept["ends"]))
        if is_good(found):
            return found
    return None


def is_good(found: Certificate) -> bool:
    """Whether a certificate remains valid for longer than five minutes."""
    return time.time() + _EARLY_SECONDS < found.ends
