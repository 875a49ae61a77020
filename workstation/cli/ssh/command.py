"""`bulkhead ssh TENANT`: ssh with a certificate, through the tenant's API, and what makes plain ssh do the same.

    bulkhead ssh ──> certificate ──> ssh ──ProxyCommand──> bulkhead ssh --proxy ──> plane's API ──> port 22 of a login node

ssh itself does all that ssh does. The host key is the one that the plane vouched for, so nobody is asked to believe another.
"""

import argparse
import asyncio
import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from bulkhead.api import names
from bulkhead.kube import portforward
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.proxy import RawConnection
from workstation.cli import access, connection, tunnel
from workstation.cli.credentials import document
from workstation.cli.failures import CliError, Exit
from workstation.cli.ssh import certificate, plane
from workstation.cli.ssh.certificate import Pass, host_alias

_LIMIT: Final = 1 << 16


def run(options: argparse.Namespace) -> int:
    """`bulkhead ssh TENANT [--user NAME] [-- COMMAND…]`; the exit code is ssh's."""
    if options.proxy:
        return _proxy(options)
    if options.renew:
        certificate.current(options)
        return Exit.DONE
    if not options.print_config and shutil.which("ssh") is None:
        raise CliError(
            "ssh: no such program on PATH",
            next_step="install an OpenSSH client: apt-get install openssh-client",
            code=Exit.FAILED,
        )
    found = certificate.current(options)
    user = _user(options, found)
    if options.print_config:
        sys.stdout.write(_block(options, found, user))
        return Exit.DONE
    settings = [word for name, value in _settings(options, found, user) for word in ("-o", f"{name}={value}")]
    with contextlib.ExitStack() as stack:
        # A command gets this terminal, where there is one, as with `bulkhead slurm`.
        terminal = ["-t"] if options.command and sys.stdin.isatty() and sys.stdout.isatty() else []
        words = ["ssh", *terminal, *settings, host_alias(options.tenant), *_remote(options)]
        return access.run_program(words, os.environ, stack)


def _remote(options: argparse.Namespace) -> list[str]:
    """The words of the command, quoted for the shell that sshd gives them to."""
    return ["--", shlex.join(options.command)] if options.command else []


def _user(options: argparse.Namespace, found: Pass) -> str:
    if options.user is None:
        return found.users[0]
    if options.user not in found.users:
        raise CliError(
            f"tenant {options.tenant}: {found.identity} may be {', '.join(found.users)}, not {options.user}",
            next_step=certificate.IDENTITIES,
        )
    return str(options.user)


def _settings(options: argparse.Namespace, found: Pass, user: str) -> list[tuple[str, str]]:
    """What ssh is told, in the words of ssh_config(5)."""
    return [
        ("User", user),
        ("HostKeyAlias", host_alias(options.tenant)),
        ("UserKnownHostsFile", _quoted(found.known_hosts)),
        ("GlobalKnownHostsFile", "/dev/null"),
        ("StrictHostKeyChecking", "yes"),
        ("IdentityFile", _quoted(found.key)),
        ("CertificateFile", _quoted(found.certificate)),
        ("IdentitiesOnly", "yes"),
        ("IdentityAgent", "none"),
        ("PreferredAuthentications", "publickey"),
        ("ProxyCommand", _own(options, "--proxy").replace("%", "%%")),
    ]


def _quoted(path: Path) -> str:
    return f'"{path}"'.replace("%", "%%")


def _own(options: argparse.Namespace, more: str) -> str:
    """The same command for the same tenant and way of logging in, as a line of shell that stands for itself."""
    words = [*document.own_command(), "ssh", options.tenant, more, "--tunnel", options.tunnel]
    login = plane.login_file(options)
    words += ["--login", str(login.resolve())] if login else []
    with contextlib.suppress(CliError):  # who logged in before needs no host
        words += ["--kubeconfig", str(connection.find_kubeconfig(options.kubeconfig).resolve())]
    words += ["--context", options.context] if options.context else []
    words += ["--issuer", options.issuer] if options.issuer else []
    words += ["--certificate"] if options.certificate else []
    return shlex.join(words)


def _block(options: argparse.Namespace, found: Pass, user: str) -> str:
    """A block for ~/.ssh/config; before each connection it renews the certificate."""
    name = host_alias(options.tenant)
    lines = [f"    {key} {value}" for key, value in _settings(options, found, user)]
    head = f"# {name}: ssh, scp, sftp and rsync, by certificates of a quarter of an hour that renew themselves (bulkhead ssh)"
    renew = _own(options, "--renew").replace("%", "%%").replace('"', '\\"')
    return "\n".join([head, f'Match originalhost {name} exec "{renew}"', *lines, ""])


def _proxy(options: argparse.Namespace) -> int:
    data = plane.kubeconfig(options)
    with tunnel.reachable(options, data) as reached:
        return asyncio.run(_carry(options.tenant, reached))


async def _carry(tenant: str, data: bytes) -> int:
    """Ssh's bytes from stdin and to stdout."""
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
    """A connection to the first login node that takes one."""
    said = ""
    for ordinal in range(names.SLURM_LOGINS_MOST):
        try:
            return await portforward.open_port(
                client, f"{names.SLURM_LOGIN}-{ordinal}", names.SLURM_NAMESPACE, names.SLURM_SSH_PORT
            )
        except KubeError as error:
            said = said or str(error)
            if getattr(error, "status", 0) == 401:
                break
            if ordinal and getattr(error, "status", 0) in {403, 404}:
                break  # there are no more
    raise CliError(
        f"tenant {tenant}: no login node takes a connection: {said}", next_step=f"see why: bulkhead tenant describe {tenant}"
    )
