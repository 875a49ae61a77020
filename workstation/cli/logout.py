"""`bulkhead logout`: remove the cached credentials of a tenant from this machine."""

import argparse
from dataclasses import dataclass

from workstation.cli.arguments import add_tenant
from workstation.cli.credentials import cache
from workstation.cli.failures import CliError, Exit
from workstation.cli.parsing import Parser


@dataclass(frozen=True, slots=True)
class LogoutRequest:
    """`logout TENANT | --all`; None for all tenants."""

    tenant: str | None


def add_arguments(parser: Parser) -> None:
    """`logout`."""
    parser.description = (
        "Remove the cached credentials of a tenant from this machine. They stay valid: `bulkhead revoke` ends certificates."
    )
    parser.shows("bulkhead logout red", "bulkhead logout --all")
    add_tenant(parser, optional=True)
    parser.add_argument("--all", action="store_true", help="of all tenants")
    parser.does(_request, logout)


def _request(options: argparse.Namespace) -> LogoutRequest:
    if not options.all and options.tenant is None:
        raise CliError("nothing to log out of", next_step="name a tenant, or give --all", code=Exit.USAGE)
    return LogoutRequest(None if options.all else options.tenant)


def logout(request: LogoutRequest) -> int:
    """`bulkhead logout TENANT | --all`."""
    removed = cache.forget(request.tenant)
    what = "all tenants" if request.tenant is None else f"tenant {request.tenant}"
    print(f"logged out of {what}: {removed} credentials removed" if removed else f"no credentials were kept for {what}")
    return Exit.DONE
