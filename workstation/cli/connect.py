"""`bulkhead connect`: run a command or a shell whose KUBECONFIG is a tenant's.

with rights on the host: Tenant ──> kubeconfig ──> a tunnel if there is no route ─────┬──> the command
without: the admin's file ──> does the tenant answer? ──> sign in ────────────────────┘
"""

import argparse
import contextlib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from workstation.cli import access, arrival, connection, eventloop, tunnel
from workstation.cli.arguments import Host, Tunnelling, add_host, add_tenant, add_tunnel, host_of
from workstation.cli.credentials import document, handed, token
from workstation.cli.credentials.arguments import SignIn, add_file, add_way, sign_in_of, tenant_of
from workstation.cli.credentials.handed import Handed
from workstation.cli.failures import CliError
from workstation.cli.parsing import RAW, Parser


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """`connect (TENANT | -f FILE) [-- COMMAND…]`."""

    host: Host
    # None if the file names it.
    tenant: str | None
    file: str | None
    sign_in: SignIn
    tunnel: Tunnelling
    # Empty for a shell.
    command: tuple[str, ...]


def add_arguments(parser: Parser) -> None:
    """`connect TENANT [-- COMMAND…]`."""
    parser.usage = "%(prog)s [options] (TENANT | -f FILE) [-- COMMAND ...]"
    parser.description = (
        "Run a command, or your shell, with KUBECONFIG set to a tenant's kubeconfig. The kubeconfig is removed at the end. "
        "If the tenant's API server is not reachable from here, connections go through the host's API (port-forward). "
        "Without rights on the host, you sign in at the tenant's identity provider: with the file that its admin gave you "
        "(bulkhead kubeconfig red --oidc), or with the kubeconfig that `bulkhead login` wrote."
    )
    parser.epilog = (
        "examples:\n  bulkhead connect red -- kubectl get pods -A\n  bulkhead connect red\n"
        "without rights on the host:\n  bulkhead connect -f red.yaml -- kubectl get pods\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    add_tunnel(parser, "go")
    add_file(parser)
    add_way(parser)
    add_tenant(parser, optional=True)
    command = parser.add_argument(
        "command", metavar="COMMAND", nargs=argparse.REMAINDER, help="the command to run (default: your shell)"
    )
    command.required = False  # otherwise an error about a missing TENANT would also ask for a COMMAND
    parser.does(_request, connect)


def _request(options: argparse.Namespace) -> ConnectRequest:
    command = tuple(options.command)
    return ConnectRequest(
        host=host_of(options),
        tenant=tenant_of(options),
        file=options.file,
        sign_in=sign_in_of(options),
        tunnel=options.tunnel,
        command=command[1:] if command[:1] == ("--",) else command,
    )


def connect(request: ConnectRequest) -> int:
    """`bulkhead connect (TENANT | -f FILE) [-- COMMAND…]`; the exit code is the command's."""
    found = _without_host(request)
    name = found.name if found is not None else str(request.tenant)
    data = _signed_in(request, found) if found is not None else eventloop.run(_fetch(request.host, name))
    with tempfile.TemporaryDirectory(prefix="bulkhead-") as folder, contextlib.ExitStack() as stack:
        if found is None:
            data = stack.enter_context(tunnel.reachable(request.host, name, request.tunnel, data))
        path = Path(folder) / f"{name}.kubeconfig"
        access.write_private(path, data)
        environment = access.environment_of(name, path)
        if request.command:
            return access.run_program(request.command, environment, stack)
        sys.stderr.write(f"tenant {name}: KUBECONFIG is set in this shell; try kubectl get nodes; leave with exit\n")
        return access.run_program([os.environ.get("SHELL") or "/bin/sh"], environment, stack)


def _without_host(request: ConnectRequest) -> Handed | None:
    """The file to use if the host is not asked; None if it is."""
    if request.file:
        return handed.given(request.file, request.tenant)
    return handed.instead_of_host(request.host, str(request.tenant))


def _signed_in(request: ConnectRequest, found: Handed) -> bytes:
    """A kubeconfig for a user without rights on the host, who signs in before the command begins."""
    if request.tunnel == "always":
        raise CliError("a tunnel leads through the host, and this file gives no rights on it", next_step="leave out --tunnel")
    looks = not arrival.proxied(found.tenant)
    if looks:
        arrival.reach(found)
    way = SignIn(request.sign_in.browser, request.sign_in.device, found.redirect_port)
    tokens = token.current(found.issuer, found.name, way)
    if looks:
        sys.stderr.write(f"tenant {found.name}: you are {arrival.name_of(found, tokens)}\n")
    return document.with_tokens(found.tenant, found.issuer, document.own_command(), found.redirect_port)


async def _fetch(host: Host, name: str) -> bytes:
    async with connection.host_client(host) as client:
        return document.with_certificates(host, await connection.get_tenant(client, name))
