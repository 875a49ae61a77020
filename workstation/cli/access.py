"""For commands that talk to a tenant: a private kubeconfig file, an environment, and a program to run.

A kubeconfig holds no secret: it names a command that fetches one (`workstation.cli.credentials`). A command writes its
kubeconfig into a folder that only its owner can enter, and removes it however the command ends.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from workstation import wholefile
from workstation.cli import homefolder
from workstation.cli.arguments import Host
from workstation.cli.credentials import certificate, document
from workstation.cli.failures import CliError, Exit

_FORWARDED = (signal.SIGTERM, signal.SIGHUP)


async def one_hour(client: Client, host: Host, tenant: Obj) -> bytes:
    """A kubeconfig that contains the cached certificate, for a command that ends soon."""
    document.place_of(tenant)
    return document.with_certificate(tenant, await certificate.current(client, host, tenant))


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, completely or not at all."""
    try:
        with wholefile.replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from error


def environment_of(tenant: str, kubeconfig: Path) -> dict[str, str]:
    """The environment of a command that talks to a tenant. PATH includes the cached kubectl if there is no other kubectl."""
    environment = dict(os.environ) | {"KUBECONFIG": str(kubeconfig), "BULKHEAD_TENANT": tenant}
    if shutil.which("kubectl") is None:
        found = _cached_kubectl(environment)
        if found is not None:
            environment["PATH"] = f"{environment.get('PATH', os.defpath)}{os.pathsep}{found.parent}"
    return environment


def _cached_kubectl(environment: Mapping[str, str]) -> Path | None:
    """The kubectl that the embedded host downloaded, for machines that have no other."""
    try:
        cache = Path(environment.get("XDG_CACHE_HOME") or homefolder.home() / ".cache")
    except CliError:
        return None
    return max(cache.glob("bulkhead/binaries/kubernetes/*/kubectl"), default=None)


def run_program(command: Sequence[str], environment: Mapping[str, str], stack: contextlib.ExitStack) -> int:
    """Run a program to its end and return its exit code as a shell reports it."""
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
    """Forwards signals to a child, including signals that arrived while the child was starting."""

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
    """Leave Ctrl-C to the child, which also gets it from the terminal, and forward the signals that only this process receives.

    The handlers are set before the child starts. Otherwise a signal in between would end this process and leave the child
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
