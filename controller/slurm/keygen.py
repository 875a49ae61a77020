"""Makes the keys of a Slurm cluster: the only place of Slurm mode that needs randomness."""

import secrets

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.slurm.spec.authority import SshKey
from controller.slurm.spec.keys import AuthKey, SlurmKeys

_KEY_BYTES = 64


def make_keys() -> SlurmKeys:
    """Fresh keys for a new cluster."""
    host = make_ssh_key()
    return SlurmKeys(
        auth=(make_auth_key(),),
        jwt=make_jwt_key(),
        database_password=secrets.token_hex(24),
        ssh_host_key=host.private,
        ssh_host_key_public=f"{host.public} slurm-login\n",
        password_mark=secrets.token_hex(8),
    )


def make_ssh_key() -> SshKey:
    """A fresh Ed25519 key in OpenSSH's forms."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return SshKey(private.decode(), public.decode())


def make_jwt_key() -> bytes:
    """A fresh key of the REST API's tokens."""
    return secrets.token_bytes(_KEY_BYTES)


def make_auth_key() -> AuthKey:
    """A fresh key of auth/slurm, to be staged and then promoted."""
    return AuthKey(kid=f"key-{secrets.token_hex(8)}", secret=secrets.token_bytes(_KEY_BYTES))
