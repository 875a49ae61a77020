"""The tenant's API for the user who runs the command, with the credential that kubectl would use.

--login FILE, else the file of `bulkhead login` ──> run its exec entry, as kubectl would ──> kubeconfig with a credential
else, or with --kubeconfig or --context, the host: Tenant ──> its identity provider, or a certificate of the host ──> the same
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bulkhead.kube.client import Client
from bulkhead.kube.errors import ConfigError
from workstation.cli import access, connection, eventloop, execcredential, homefolder, slurm
from workstation.cli.arguments import Host, Tunnelling
from workstation.cli.credentials import choice, document, handed
from workstation.cli.credentials.choice import Wanted
from workstation.cli.failures import CliError, Exit

_SECONDS: Final = 10.0
_ANSWER_LIMIT_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Way:
    """A tenant, and how the user logs in to it."""

    host: Host
    tenant: str
    # A kubeconfig of the tenant; None for the one that `bulkhead login` wrote.
    login: str | None = None
    # A provider to sign in to; or whether to use a certificate even if there is a provider.
    wanted: Wanted = field(default_factory=Wanted)
    tunnel: Tunnelling = "auto"


def kubeconfig(way: Way) -> bytes:
    """A kubeconfig of the tenant that contains a credential, valid for now."""
    path = login_file(way)
    if path is None:
        # The plugin runs outside the event loop, which would wait for its thread after Ctrl-C.
        return execcredential.resolve(eventloop.run(_of_host(way)), Path.cwd(), None)
    try:
        return execcredential.resolve(path.read_bytes(), path.parent, None)
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror}", next_step=f"log in: bulkhead login {way.tenant}") from error


def login_file(way: Way) -> Path | None:
    """The file that the user named, or that of `bulkhead login`; None if there is none, or the user named a host.

    The tenant of that name on a named host may be another one than the tenant that the user logged in to (`handed`).
    """
    if way.login:
        path = homefolder.expanded(way.login)
        if not path.is_file():
            raise CliError(f"--login: {path} does not exist", next_step="give a kubeconfig of the tenant", code=Exit.USAGE)
        return path
    if way.host.kubeconfig or way.host.context or way.wanted.certificate:
        return None
    usual = handed.default_file(way.tenant)
    return usual if usual.is_file() else None


async def _of_host(way: Way) -> bytes:
    """A kubeconfig with a certificate, or one whose plugin signs in to the tenant's provider."""
    async with connection.host_client(way.host) as client:
        tenant = await connection.get_tenant(client, way.tenant)
        slurm.slurm_spec(tenant)
        document.place_of(tenant)
        if (issuer := choice.of_tenant(tenant, way.wanted)) is None:
            return await access.one_hour(client, way.host, tenant)
    return document.with_tokens(tenant, issuer, document.own_command())


def client(tenant: str, data: bytes) -> Client:
    """A client of the tenant's plane. Raises CliError for a kubeconfig that is not usable."""
    try:
        return connection.plane_client(data, seconds=_SECONDS, answer_bytes=_ANSWER_LIMIT_BYTES)
    except ConfigError as error:
        raise CliError(f"tenant {tenant}: its kubeconfig: {error}", next_step=f"log in: bulkhead login {tenant}") from error
