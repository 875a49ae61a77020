"""Signs ssh certificates: for a key whose possession the requester has proved, with a decided identity, users and end.

A certificate allows only what is listed here: no X11, no rc files, and no forced command.
"""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import SSHCertificateBuilder, SSHCertificateType

from controller.pki.people import PublicKey
from controller.plane.pki import BACKDATE
from controller.slurm.spec import Forwarding
from controller.slurm.spec.authority import SshKey

# OpenSSH accepts no certificate with more.
MOST_PRINCIPALS: Final = 255


def certify(
    key: PublicKey,
    *,
    identity: str,
    principals: Sequence[str],
    forwarding: Forwarding,
    authority: SshKey,
    now: datetime,
    ends: datetime,
) -> tuple[str, int]:
    """A user certificate in OpenSSH's form, on one line, and its serial; the key id is the identity, which sshd logs."""
    signer = serialization.load_ssh_private_key(authority.private.encode(), password=None)
    if not isinstance(signer, Ed25519PrivateKey):
        raise TypeError("CA of ssh certificates: not an Ed25519 key")
    serial = secrets.randbits(63)
    builder = (
        SSHCertificateBuilder()
        .public_key(key)
        .serial(serial)
        .type(SSHCertificateType.USER)
        .key_id(identity.encode())
        .valid_principals([principal.encode() for principal in principals[:MOST_PRINCIPALS]])
        .valid_after(int((now - BACKDATE).timestamp()))
        .valid_before(int(ends.timestamp()))
        .add_extension(b"permit-pty", b"")
    )
    if forwarding.agent:
        builder = builder.add_extension(b"permit-agent-forwarding", b"")
    if forwarding.ports:
        builder = builder.add_extension(b"permit-port-forwarding", b"")
    return builder.sign(signer).public_bytes().decode(), serial
