"""The way into a tenant: its kubeconfig, and a command or shell that uses it.

A kubeconfig holds no secret: it names a command that fetches one (`workstation.cli.credentials`). `--static` asks for one with
a secret, which ends after an hour. The kubeconfig of `connect` lies in a folder that only its owner can enter and is removed
however the command ends.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from bulkhead.api.conditions import ConditionType, condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from workstation.cli import arrival, connection, tunnel
from workstation.cli.credentials import certificate, choice, document, handed, token
from workstation.cli.credentials.handed import Handed
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import plain

_FORWARDED = (signal.SIGTERM, signal.SIGHUP)


def print_kubeconfig(options: argparse.Namespace) -> int:
    """`bulkhead kubeconfig TENANT [--static] [-o FILE|-]`."""
    data = asyncio.run(_fetch(options, static=options.static))
    if options.output == "-":
        sys.stdout.write(data.decode())
        sys.stdout.flush()
        return Exit.DONE
    path = Path(options.output)
    write_private(path, data)
    sys.stderr.write(f"wrote {path}\nnext:  KUBECONFIG={path} kubectl get nodes\n")
    return Exit.DONE


def connect(options: argparse.Namespace) -> int:
    """`bulkhead connect (TENANT | -f FILE) [-- COMMAND…]`; the exit code is the command's."""
    command = list(options.command)
    if command[:1] == ["--"]:
        command = command[1:]
    found = handed.given(options) or handed.instead_of_host(options)
    data = _signed_in(options, found) if found is not None else asyncio.run(_fetch(options, static=False))
    with tempfile.TemporaryDirectory(prefix="bulkhead-") as folder, contextlib.ExitStack() as stack:
        if found is None:
            data = stack.enter_context(tunnel.reachable(options, data))
        path = Path(folder) / f"{options.tenant}.kubeconfig"
        write_private(path, data)
        environment = environment_of(options.tenant, path)
        if not command:
            command = [os.environ.get("SHELL") or "/bin/sh"]
            sys.stderr.write(
                f"tenant {options.tenant}: KUBECONFIG is set in this shell; try kubectl get nodes; leave with exit\n"
            )
        return run_program(command, environment, stack)


def _signed_in(options: argparse.Namespace, found: Handed) -> bytes:
    """A kubeconfig for who has no right on the host, signed in and let in before the command begins."""
    if options.tunnel == "always":
        raise CliError("a tunnel leads through the host, on which this file gives no rights", next_step="leave out --tunnel")
    options.redirect_port = found.redirect_port
    looks = not arrival.proxied()
    if looks:
        arrival.reach(found)
    tokens = token.current(found.issuer, options)
    if looks:
        sys.stderr.write(f"tenant {found.name}: you are {arrival.name_of(found, tokens)}\n")
    return document.with_tokens(found.tenant, found.issuer, document.own_command(), found.redirect_port)


async def _fetch(options: argparse.Namespace, *, static: bool) -> bytes:
    async with connection.host_client(options) as client:
        tenant = await connection.get_tenant(client, options.tenant)
        if getattr(options, "issuer", None) or getattr(options, "oidc", False):
            return _for_people(options, tenant)
        if not static:
            return document.with_certificates(options, tenant)
        document.place_of(tenant)
        return document.with_certificate(tenant, await certificate.obtain(client, options.tenant))


def _for_people(options: argparse.Namespace, tenant: Obj) -> bytes:
    """A kubeconfig for people of a provider, on machines of their own: the command is whatever is called so there."""
    name = document.name_of(tenant)
    issuer = choice.of_tenant(tenant, options)
    if issuer is None:
        raise CliError(
            f"tenant {name} has no identity provider at which its people sign in",
            next_step="list some in access.issuers of its class, and name them in access.oidc of the Tenant",
            code=Exit.NOT_FOUND,
        )
    document.place_of(tenant)
    exposed = condition_of(tenant, ConditionType.EXPOSED)
    if exposed is None or exposed.get("status") != "True":
        why = plain((exposed or {}).get("message") or "it has no spec.exposure", 300)
        sys.stderr.write(f"warning: tenant {name} is not exposed ({why}): this file leads only where its address is routed\n")
    return document.with_tokens(tenant, issuer, ["bulkhead"])


async def one_hour(client: Client, options: argparse.Namespace, tenant: Obj) -> bytes:
    """A kubeconfig that holds the certificate that is kept, for a command that ends soon."""
    document.place_of(tenant)
    return document.with_certificate(tenant, await certificate.current(client, options, tenant))


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read; whole or not at all."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # made with mode 0600
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from error


def environment_of(tenant: str, kubeconfig: Path) -> dict[str, str]:
    """The environment of a command that speaks to a tenant; a cached kubectl is on its PATH when there is no other."""
    environment = dict(os.environ) | {"KUBECONFIG": str(kubeconfig), "BULKHEAD_TENANT": tenant}
    if shutil.which("kubectl") is None:
        found = _cached_kubectl(environment)
        if found is not None:
            environment["PATH"] = f"{environment.get('PATH', os.defpath)}{os.pathsep}{found.parent}"
    return environment


def _cached_kubectl(environment: Mapping[str, str]) -> Path | None:
    """The kubectl that the embedded host fetched, for machines that have no other."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return max(cache.glob("bulkhead/binaries/kubernetes/*/kubectl"), default=None)


def run_program(command: Sequence[str], environment: Mapping[str, str], stack: contextlib.ExitStack) -> int:
    """Run a program to its end and return its exit code, as a shell would."""
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        raise CliError(f"{command[0]}: no such program on PATH", next_step="install it, or give its path", code=Exit.FAILED)
    forwarding = stack.enter_context(_forwarding())
    try:
        child = subprocess.Popen([program, *command[1:]], env=environment)
    except OSError as error:
        raise CliError(f"{command[0]}: cannot be started: {error.strerror}") from error
    forwarding.to(child)
    code = child.wait()
    return code if code >= 0 else 128 - code


class _Forwarder:
    """Forwards signals to a child, including those that arrived while it was being started."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def to(self, child: "subprocess.Popen[bytes]") -> None:
        """The child has started."""
        self._child = child
        for number in self._early:
            child.send_signal(number)

    def forward(self, number: int, _frame: FrameType | None) -> None:
        """A handler of signals."""
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)


@contextlib.contextmanager
def _forwarding() -> Iterator[_Forwarder]:
    """Leave Ctrl-C to the child, which gets it from the terminal too, and forward the signals that only this process receives.

    The handlers are set before the child starts: a signal in between would otherwise end this process and leave the child
    behind. A child inherits ignored signals, so Ctrl-C gets a handler that does nothing.
    """
    forwarder = _Forwarder()
    before = {number: signal.signal(number, forwarder.forward) for number in _FORWARDED}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield forwarder
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
