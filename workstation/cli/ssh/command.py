"""`bulkhead ssh TENANT`: ssh with a certificate through the tenant's API, and a configuration for plain ssh to do the same.

    bulkhead ssh ──> certificate ──> ssh ──ProxyCommand──> bulkhead ssh --proxy ──> plane's API ──> port 22 of a login node

ssh itself is unchanged. The plane vouches for the host key, so the user is never asked to accept one.
"""

import argparse
import asyncio
import contextlib
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from bulkhead.api import names
from bulkhead.kube import portforward
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.proxy import RawConnection
from workstation.cli import access, eventloop, hostfile, tunnel
from workstation.cli.arguments import add_host, add_tenant, add_tunnel, host_of
from workstation.cli.credentials import document
from workstation.cli.credentials.choice import Wanted
from workstation.cli.failures import CliError, Exit
from workstation.cli.parsing import RAW, Parser
from workstation.cli.ssh import certificate, plane
from workstation.cli.ssh.certificate import Pass, host_alias
from workstation.cli.ssh.plane import Way

_LIMIT: Final = 1 << 16
Part: TypeAlias = Literal["connect", "print-config", "renew", "proxy"]


@dataclass(frozen=True, slots=True)
class SshRequest:
    """`ssh TENANT [-- COMMAND…]`."""

    way: Way
    # None for the first one that the certificate is valid for.
    user: str | None
    part: Part
    # Empty for a shell.
    command: tuple[str, ...]


def add_arguments(parser: Parser) -> None:
    """`ssh TENANT [-- COMMAND…]`."""
    parser.usage = "%(prog)s [options] TENANT [--user NAME] [-- COMMAND ...]"
    parser.description = (
        "Connect to a login node of a tenant's Slurm with your system's ssh. The command creates a key, and the tenant signs\n"
        "a certificate for it that is valid for 15 minutes, for the Slurm users that the tenant's admin maps you to. Your\n"
        "identity is that of `bulkhead login`. The connection goes through the tenant's API, so nothing has to be exposed."
    )
    parser.epilog = (
        "examples:\n  bulkhead ssh red\n  bulkhead ssh red --user alice -- sbatch train.sh\n"
        "  bulkhead ssh red --print-config >> ~/.ssh/config     then: ssh red.slurm, scp train.sh red.slurm:, rsync …\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    add_tenant(parser)
    parser.add_argument("-u", "--user", metavar="NAME", help="the Slurm user (default: the first that you are mapped to)")
    parser.add_argument(
        "--login", metavar="FILE", help="a kubeconfig of the tenant (default, without a host: what `bulkhead login` wrote)"
    )
    parser.add_argument("--issuer", metavar="NAME", help="identity provider to sign in to, if you have not logged in yet")
    parser.add_argument("--certificate", action="store_true", help="log in as your user on the host, even if it has a provider")
    add_tunnel(parser, "reach the tenant's API")
    what = parser.add_mutually_exclusive_group()
    for part, text in (
        ("print-config", "print a block for ~/.ssh/config, for ssh, scp, rsync"),
        ("renew", "make sure that a valid certificate is cached, and exit; that block calls it"),
        ("proxy", "carry ssh's bytes from stdin to stdout; ssh calls it"),
    ):
        what.add_argument(f"--{part}", dest="part", action="store_const", const=part, default="connect", help=text)
    parser.set_defaults(command=())
    parser.does(_request, run)


def _request(options: argparse.Namespace) -> SshRequest:
    wanted = Wanted(options.issuer, options.certificate)
    way = Way(host_of(options), options.tenant, options.login, wanted, options.tunnel)
    return SshRequest(way, options.user, options.part, tuple(options.command))


def run(request: SshRequest) -> int:
    """`bulkhead ssh TENANT [--user NAME] [-- COMMAND…]`; the exit code is ssh's."""
    way = request.way
    if request.part == "proxy":
        return _proxy(way)
    if request.part == "renew":
        certificate.current(way)
        return Exit.DONE
    if request.part == "connect" and shutil.which("ssh") is None:
        raise CliError(
            "ssh: no such program on PATH",
            next_step="install an OpenSSH client: apt-get install openssh-client",
            code=Exit.FAILED,
        )
    found = certificate.current(way)
    user = _user(request, found)
    if request.part == "print-config":
        sys.stdout.write(_block(way, found, user))
        return Exit.DONE
    settings = [word for name, value in _settings(way, found, user) for word in ("-o", f"{name}={value}")]
    with contextlib.ExitStack() as stack:
        # A command gets this terminal, if there is one, as with `bulkhead slurm`.
        terminal = ["-t"] if request.command and sys.stdin.isatty() and sys.stdout.isatty() else []
        words = ["ssh", *terminal, *settings, host_alias(way.tenant), *_remote(request.command)]
        return access.run_program(words, os.environ, stack)


def _remote(command: tuple[str, ...]) -> list[str]:
    """The words of the command, quoted for the shell that sshd passes them to."""
    return ["--", shlex.join(command)] if command else []


def _user(request: SshRequest, found: Pass) -> str:
    if request.user is None:
        return found.users[0]
    if request.user not in found.users:
        raise CliError(
            f"tenant {request.way.tenant}: {found.identity} may be {', '.join(found.users)}, not {request.user}",
            next_step=certificate.IDENTITIES,
        )
    return request.user


def _settings(way: Way, found: Pass, user: str) -> list[tuple[str, str]]:
    """The options for ssh, in the words of ssh_config(5)."""
    return [
        ("User", user),
        ("HostKeyAlias", host_alias(way.tenant)),
        ("UserKnownHostsFile", _quoted(found.known_hosts)),
        ("GlobalKnownHostsFile", "/dev/null"),
        ("StrictHostKeyChecking", "yes"),
        ("IdentityFile", _quoted(found.key)),
        ("CertificateFile", _quoted(found.certificate)),
        ("IdentitiesOnly", "yes"),
        ("IdentityAgent", "none"),
        ("PreferredAuthentications", "publickey"),
        ("ProxyCommand", _own(way, "--proxy").replace("%", "%%")),
    ]


def _quoted(path: Path) -> str:
    return f'"{path}"'.replace("%", "%%")


def _own(way: Way, more: str) -> str:
    """A command like this one for the same tenant and way of logging in, as a complete shell command line."""
    words = [*document.own_command(), "ssh", way.tenant, more, "--tunnel", way.tunnel]
    login = plane.login_file(way)
    words += ["--login", str(login.resolve())] if login else []
    with contextlib.suppress(CliError):  # a user who has logged in needs no host
        words += ["--kubeconfig", str(hostfile.find_kubeconfig(way.host.kubeconfig).resolve())]
    words += ["--context", way.host.context] if way.host.context else []
    words += ["--issuer", way.wanted.issuer] if way.wanted.issuer else []
    words += ["--certificate"] if way.wanted.certificate else []
    return shlex.join(words)


def _block(way: Way, found: Pass, user: str) -> str:
    """A block for ~/.ssh/config; before each connection it renews the certificate."""
    name = host_alias(way.tenant)
    lines = [f"    {key} {value}" for key, value in _settings(way, found, user)]
    head = f"# {name}: ssh, scp, sftp and rsync with certificates for 15 minutes, renewed automatically (bulkhead ssh)"
    renew = _own(way, "--renew").replace("%", "%%").replace('"', '\\"')
    return "\n".join([head, f'Match originalhost {name} exec "{renew}"', *lines, ""])


def _proxy(way: Way) -> int:
    data = plane.kubeconfig(way)
    certificate.check_plane(way, data)
    with tunnel.reachable(way.host, way.tenant, way.tunnel, data) as reached:
        return eventloop.run(_carry(way.tenant, reached))


async def _carry(tenant: str, data: bytes) -> int:
    """Carry ssh's bytes from stdin and to stdout."""
    loop = asyncio.get_running_loop()
    async with plane.client(tenant, data) as client:
        there = await _login_node(client, tenant)
        reader = asyncio.StreamReader(limit=_LIMIT)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        transport, _ = await loop.connect_write_pipe(lambda: protocol, sys.stdout.buffer)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        await portforward.carry(there, reader, writer)
    return Exit.DONE


async def _login_node(client: Client, tenant: str) -> RawConnection:
    """A connection to the first login node that accepts one."""
    why = ""
    for ordinal in range(names.SLURM_LOGINS_MOST):
        try:
            return await portforward.open_port(
                client, f"{names.SLURM_LOGIN}-{ordinal}", names.SLURM_NAMESPACE, names.SLURM_SSH_PORT
            )
        except KubeError as error:
            why = why or str(error)
            if getattr(error, "status", 0) == 401:
                break
            if ordinal and getattr(error, "status", 0) in {403, 404}:
                break  # there are no more
    raise CliError(
        f"tenant {tenant}: no login node accepts a connection: {why}", next_step=f"see why: bulkhead tenant describe {tenant}"
    )
