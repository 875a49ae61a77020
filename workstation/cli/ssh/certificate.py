"""An ssh certificate. The private key is created here and never leaves this machine.

    key ──> CertificateSigningRequest in the plane ──> its API server records the requester ──> the controller answers:
        certificate, and the host key of the login nodes ──> files for ssh (0600, in this user's cache) ──> kept until
        shortly before the certificate expires

The plane's answer is trusted only for what it should be: a certificate for this key, and one line with a host key.
"""

import asyncio
import base64
import contextlib
import hashlib
import re
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, NotFound, Unauthorized
from bulkhead.kube.objects import Resource
from workstation.cli import eventloop, hostfile, tunnel
from workstation.cli.credentials import cache
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import plain
from workstation.cli.ssh import plane
from workstation.cli.ssh.plane import Way

IDENTITIES: Final = (
    "ask an admin of the host: spec.scheduling.slurm.users[].identities of the Tenant maps identities to Slurm users"
)
ANSWER_SECONDS: Final = 45.0
_EARLY_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.3
_ASKS: Final = 3  # tries, because a request may be deleted when another user floods the plane with requests
_SKEW_SECONDS: Final = 120.0
_BACKDATE_SECONDS: Final = 300.0
_HOST_KEY: Final = re.compile(r"(ssh-ed25519|ecdsa-sha2-nistp256|ssh-rsa) [A-Za-z0-9+/]{16,2000}={0,3}(?= |$)")
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


@dataclass(frozen=True, slots=True)
class Pass:
    """What ssh needs: its files, the users that the certificate is valid for, the identity, and when it expires."""

    key: Path
    certificate: Path
    known_hosts: Path
    users: tuple[str, ...]
    identity: str
    ends: float


def host_alias(tenant: str) -> str:
    """The name of a tenant's login nodes in ssh's files; it is not a name in any network."""
    return f"{tenant}.slurm"


def current(way: Way) -> Pass:
    """The cached certificate, or a new one."""
    entry = _entry(way)
    with entry.locked():
        kept = entry.read()
        found = _good(entry, kept)
        if found is None:
            entry.clear()
            kept = _asked(way)
            entry.write(kept)
            found = _laid_out(entry, kept)
        return found


def check_plane(way: Way, kubeconfig: bytes) -> None:
    """Raise CliError and forget the certificate if it is of another plane: of a former tenant of this name."""
    entry = _entry(way)
    if entry.read().get("plane", _plane_of(kubeconfig)) != _plane_of(kubeconfig):
        entry.clear()
        raise CliError(
            f"tenant {way.tenant} was made again since your ssh certificate was signed; its login nodes have other keys now",
            next_step="try again: you get a new certificate",
        )


def _plane_of(kubeconfig: bytes) -> str:
    """What tells planes apart that have a name one after the other: their CA."""
    with contextlib.suppress(CliError):
        return hashlib.sha256(tunnel.authority_of(kubeconfig).encode()).hexdigest()
    return ""


def _entry(way: Way) -> cache.Entry:
    """The cache entry: one for each tenant, way of logging in, and version of the credentials file."""
    path = plane.login_file(way) or hostfile.find_kubeconfig(way.host.kubeconfig)
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror}") from error
    facts = map(str, (path.resolve(), digest, way.host.context, way.wanted.issuer, way.wanted.certificate))
    return cache.entry("ssh", way.tenant, *facts)


def _asked(way: Way) -> dict[str, Any]:
    from cryptography import x509  # noqa: PLC0415 - slow to load
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    key = Ed25519PrivateKey.generate()
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, None)
    pem = request.public_bytes(serialization.Encoding.PEM)
    data = plane.kubeconfig(way)
    with tunnel.reachable(way.host, way.tenant, way.tunnel, data) as reached:
        answer = eventloop.run(_answer(way.tenant, reached, pem))
    certificate, host_key = answer
    try:
        found = serialization.load_ssh_public_identity(certificate.encode("ascii"))
    except ValueError as error:
        raise _strange(way.tenant, "no readable certificate") from error
    if not isinstance(found, serialization.SSHCertificate) or found.public_key() != key.public_key():
        raise _strange(way.tenant, "a certificate for another key")
    users = [user.decode("ascii", "replace") for user in found.valid_principals]
    if not users or not all(_USER.fullmatch(user) for user in users):
        raise _strange(way.tenant, "a certificate for invalid user names")
    line = _HOST_KEY.match(host_key)
    if line is None:
        raise _strange(way.tenant, "no host key of its login nodes")
    now = time.time()
    issued = found.valid_after + _BACKDATE_SECONDS
    _compare_clocks(way.tenant, now - issued)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    return {
        "tenant": way.tenant,
        "plane": _plane_of(data),
        "key": private.decode(),
        "certificate": certificate,
        "known_hosts": f"{host_alias(way.tenant)} {line[0]}\n",
        "users": users,
        "identity": found.key_id.decode("utf-8", "replace"),
        # By this machine's clock, even if it is wrong.
        "ends": now + found.valid_before - issued,
    }


async def _answer(tenant: str, data: bytes, pem: bytes) -> tuple[str, str]:
    """The certificate and the host key that the plane returns."""
    try:
        async with plane.client(tenant, data) as client:
            for _ in range(_ASKS):
                if (found := await _ask(client, tenant, pem)) is not None:
                    return found
            await _explain(client, tenant)
    except Unauthorized as error:
        raise CliError(
            f"tenant {tenant}: its API no longer accepts your credential", next_step=f"log in again: bulkhead login {tenant}"
        ) from error
    except KubeError as error:
        raise CliError(
            f"tenant {tenant}: its API gave no answer: {error}", next_step=f"see why: bulkhead tenant describe {tenant}"
        ) from error
    raise CliError(
        f"tenant {tenant}: the request for an ssh certificate was not answered within {ANSWER_SECONDS:g} s",
        next_step=f"check whether its Slurm is ready: bulkhead tenant describe {tenant}",
        code=Exit.TIMEOUT,
    )


async def _ask(client: Client, tenant: str, pem: bytes) -> tuple[str, str] | None:
    """Create one request; None if it was deleted or not answered."""
    # Users with the same rights could read it by its name, which is random.
    name = f"bulkhead-ssh-{secrets.token_hex(16)}"
    spec = {"request": base64.b64encode(pem).decode(), "signerName": names.SSH_SIGNER, "usages": ["client auth"]}
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": spec,
    }
    try:
        await client.create(kinds.CERTIFICATE_SIGNING_REQUESTS, body)
    except Forbidden:
        await _explain(client, tenant)
        raise _nobody(tenant, await _who(client)) from None
    deadline = time.monotonic() + ANSWER_SECONDS / _ASKS
    while time.monotonic() < deadline:
        await asyncio.sleep(_POLL_SECONDS)
        try:
            found = await client.get(kinds.CERTIFICATE_SIGNING_REQUESTS, name)
        except NotFound:
            return None
        annotations = mapping(found["metadata"].get("annotations"))
        if why := annotations.get(names.SSH_REFUSED):
            raise CliError(f"tenant {tenant}: no ssh certificate: {plain(str(why))}", next_step=IDENTITIES)
        if certificate := annotations.get(names.SSH_CERTIFICATE):
            return str(certificate), str(annotations.get(names.SSH_HOST_KEY))
    return None


async def _explain(client: Client, tenant: str) -> None:
    """Raise CliError if the plane has no login nodes at all; return if it has some, or does not tell."""
    try:
        await client.get(kinds.NAMESPACES, names.SLURM_NAMESPACE)
    except NotFound:
        raise CliError(
            f"tenant {tenant} does not use Slurm", next_step="ask an admin of the host for spec.scheduling.mode of the Tenant"
        ) from None
    except KubeError:
        return


async def _who(client: Client) -> str:
    review = {"apiVersion": _REVIEWS.api_version, "kind": _REVIEWS.kind, "metadata": {}}
    with contextlib.suppress(KubeError):
        answer = await client.create(_REVIEWS, review)
        return plain(str(mapping(mapping(answer.get("status")).get("userInfo")).get("username")), 260)
    return "you"


def _nobody(tenant: str, who: str) -> CliError:
    return CliError(f"tenant {tenant}: {who} is not mapped to any of its Slurm users", next_step=IDENTITIES)


def _strange(tenant: str, what: str) -> CliError:
    return CliError(f"tenant {tenant}: its plane returned {what}", next_step="ask an admin of the host; nothing was kept")


def _compare_clocks(tenant: str, ahead: float) -> None:
    if abs(ahead) > _SKEW_SECONDS:
        minutes = f"{abs(ahead) / 60:.0f} minutes {'ahead of' if ahead > 0 else 'behind'}"
        sys.stderr.write(f"warning: the clock of this machine is {minutes} that of tenant {tenant}: set it\n")


def _good(entry: cache.Entry, kept: dict[str, Any]) -> Pass | None:
    """The cached certificate, if it remains valid for long enough to connect."""
    with contextlib.suppress(KeyError, TypeError, ValueError):
        # A certificate that ends with a token may be short-lived from the start.
        if time.time() + _EARLY_SECONDS < float(kept["ends"]):
            return _laid_out(entry, kept)
    return None


def _laid_out(entry: cache.Entry, kept: dict[str, Any]) -> Pass:
    files = {name: entry.beside(name) for name in ("key", "certificate", "known_hosts")}
    for name, path in files.items():
        entry.put_beside(path, str(kept[name]).rstrip("\n") + "\n")
    return Pass(
        files["key"],
        files["certificate"],
        files["known_hosts"],
        tuple(str(user) for user in kept["users"]),
        str(kept["identity"]),
        float(kept["ends"]),
    )
