"""Clients of the host cluster and of planes, and the Tenant that a command names."""

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ConfigError, NotFound
from bulkhead.kube.kubeconfig import KubeConfig
from workstation.cli import execcredential, hostfile, interruption
from workstation.cli.arguments import Host
from workstation.cli.failures import CliError, Exit
from workstation.cli.renewal import LastingClient


def host_client(host: Host, *, seconds: float = 15.0, quiet: bool = False) -> LastingClient:
    """A client of the host cluster that waits `seconds` for an answer, and keeps its credentials good while it is open.

    `quiet` means not to ask the user for credentials.
    """
    path = hostfile.find_kubeconfig(host.kubeconfig)
    try:
        data = path.read_bytes()
        found = execcredential.ask(data, path.parent, host.context, within=seconds if quiet else None)
        config = KubeConfig.from_bytes(found.data if found else data, context=host.context, folder=path.parent)
    except KeyboardInterrupt:
        # An error, because the commands say of a KeyboardInterrupt that what they began goes on, and nothing has begun.
        raise interruption.passed_on() from None
    except OSError as error:
        raise CliError(f"cannot read kubeconfig {path}: {error.strerror}") from error
    except ConfigError as error:
        raise CliError(
            f"kubeconfig {path}: {error}",
            next_step="give another file with --kubeconfig, or another of its contexts with --context",
        ) from error
    return LastingClient(config, host, found, timeout=seconds)


def plane_client(data: bytes, *, seconds: float, answer_bytes: int, list_bytes: int = 256 << 20) -> Client:
    """A client of a tenant's plane. The plane is not trusted: the deadline is short, and answers have at most `answer_bytes`.

    `list_bytes` is for all pages of a list together. `data` is a kubeconfig with its credentials. Raises ConfigError for one
    that a hostile plane could have made.
    """
    config = KubeConfig.from_bytes(data, hostile=True)
    return Client(
        config,
        user_agent="bulkhead-cli",
        field_manager="bulkhead-cli",
        timeout=seconds,
        max_body=answer_bytes,
        max_list=list_bytes,
    )


async def get_tenant(client: Client, name: str) -> Obj:
    """The Tenant. Raises CliError with a hint at the right name."""
    try:
        names.check_tenant_name(name)
    except names.InvalidTenantNameError as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    try:
        return await client.get(kinds.TENANTS, name)
    except NotFound as error:
        if error.reason != "NotFound":
            raise not_installed() from error
        raise CliError(
            f"tenant {name}: not found", next_step="list the tenants: bulkhead tenant list", code=Exit.NOT_FOUND
        ) from error


def not_installed() -> CliError:
    """The error for a cluster without Bulkhead's CRDs: another one, or a tenant's own, in which nothing is to be installed."""
    return CliError(
        "this cluster has no Tenants: it is a tenant's own, or Bulkhead is not installed in it",
        next_step="give the host's kubeconfig: --kubeconfig FILE, or --context NAME; in a host that is to be one, install the "
        "chart: helm install bulkhead charts/bulkhead -n bulkhead-system --create-namespace",
    )
