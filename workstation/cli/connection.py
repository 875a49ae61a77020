"""Finds the host's kubeconfig, and makes clients for the host and for a tenant.

The first that exists is used: --kubeconfig, $KUBECONFIG (its first existing file), ~/.kube/config, the embedded host's. An
error names the file that was used.
"""

import argparse
import os
from pathlib import Path

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ConfigError, NotFound
from bulkhead.kube.kubeconfig import KubeConfig
from workstation.cli import execcredential
from workstation.cli.failures import CliError, Exit

EMBEDDED = Path("/var/lib/bulkhead/kubeconfig")


def find_kubeconfig(given: str | None) -> Path:
    """The host's kubeconfig file."""
    if given:
        return _existing(Path(given).expanduser(), "--kubeconfig")
    variable = [Path(part).expanduser() for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if variable:
        return next((path for path in variable if path.is_file()), None) or _existing(variable[0], "$KUBECONFIG")
    for path in (Path.home() / ".kube" / "config", EMBEDDED):
        if path.is_file():
            return path
    raise CliError(
        f"no kubeconfig of the host cluster found by --kubeconfig, $KUBECONFIG, ~/.kube/config or {EMBEDDED}",
        next_step="give --kubeconfig FILE, or start the embedded host: bulkhead host up; without any right on the host: "
        "bulkhead login -f FILE, with the file that the tenant's admin gives you",
    )


def _existing(path: Path, source: str) -> Path:
    if not path.is_file():
        raise CliError(
            f"{source}: {path} does not exist", next_step="give the file of the host cluster's kubeconfig", code=Exit.USAGE
        )
    return path


def host_client(options: argparse.Namespace) -> Client:
    """A client of the host cluster."""
    path = find_kubeconfig(options.kubeconfig)
    try:
        data = execcredential.resolve(path.read_bytes(), path.parent, options.context)
        config = KubeConfig.from_bytes(data, context=options.context, folder=path.parent)
    except OSError as error:
        raise CliError(f"cannot read kubeconfig {path}: {error.strerror}") from error
    except ConfigError as error:
        raise CliError(
            f"kubeconfig {path}: {error}", next_step="give another file with --kubeconfig, or another --context of this one"
        ) from error
    return Client(config, user_agent="bulkhead-cli", field_manager="bulkhead-cli", timeout=15.0)


async def get_tenant(client: Client, name: str) -> Obj:
    """The Tenant, or an error that says how to find the right name."""
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
    """The error for a cluster without Bulkhead's CRDs."""
    return CliError(
        "this cluster has no Tenants: Bulkhead is not installed in it",
        next_step="install the chart: helm install bulkhead charts/bulkhead -n bulkhead-system --create-namespace",
    )
