"""The real command as a process of its own, against a real API server; the tests play the controller by writing status.

`start` forks a process that has already loaded the command (`forker.py`). `start_anew` starts Python, as a user does.
"""

import asyncio
import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bulkhead.api import names
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.pki import Authority
from tests.kit.syncerbed import until

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str


Cli = Callable[..., Awaitable[Outcome]]


class Forked:
    """A running command, with the part of asyncio's interface that tests use."""

    def __init__(self, pid: int, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader, end: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self._end = end
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens if the command has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """Its exit code, negative for a signal."""
        if self.returncode is None:
            self.returncode = int(await self._end.readline())
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read all of its output, and wait for its end."""
        out, err, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return out, err


Process = Forked | asyncio.subprocess.Process


_taken: list[socket.socket] = []


def take(forker: socket.socket) -> None:
    """Use this forker instead of one that would be started with the first command."""
    _taken.append(forker)
    atexit.register(forker.close)


@functools.cache
def _forker() -> tuple[socket.socket, "subprocess.Popen[bytes] | None"]:
    """Our end of the socket, and the process if it was started here. It closes with this process, which ends the other one."""
    if _taken:
        return _taken[0], None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        words = [sys.executable, "-m", "tests.kit.forker", str(theirs.fileno())]
        return ours, subprocess.Popen(words, pass_fds=[theirs.fileno()], cwd=_ROOT)


async def start(*arguments: str, environment: dict[str, str] | None = None) -> Forked:
    """The command as a process; HOME points to a folder that does not exist, so that nothing of this machine leaks in."""
    pipes = [os.pipe() for _ in range(3)]
    readers = [await _reader(reading) for reading, _ in pipes]
    files = [os.open(os.devnull, os.O_RDONLY), *(writing for _, writing in pipes)]
    asked = {"arguments": arguments, "environment": _environment(environment), "folder": str(Path.cwd())}
    socket.send_fds(_forker()[0], [json.dumps(asked).encode()], files)
    for fd in files:
        os.close(fd)
    return Forked(int(await readers[2].readline()), *readers)


async def _reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    return reader


def _environment(more: dict[str, str] | None) -> dict[str, str]:
    plain = {key: value for key, value in os.environ.items() if key not in {"KUBECONFIG", "BULKHEAD_TENANT"}}
    return plain | {"HOME": "/nonexistent"} | (more or {})


async def start_anew(*arguments: str, environment: dict[str, str] | None = None) -> asyncio.subprocess.Process:
    """The same in a Python process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "workstation.cli.main",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(environment),
    )


async def reads(process: Process, *texts: str) -> str:
    """Read the command's output until it contains all of these texts."""
    assert process.stderr is not None
    said = ""
    while not all(text in said for text in texts):
        line = await asyncio.wait_for(process.stderr.readline(), 180)
        assert line, said
        said += line.decode()
    return said


async def finish(process: Process) -> Outcome:
    """Wait for the command's end."""
    out, err = await asyncio.wait_for(process.communicate(), 180)
    assert process.returncode is not None
    assert "Traceback" not in err.decode(), err.decode()[-3000:]
    return Outcome(process.returncode, out.decode(), err.decode())


@dataclass(frozen=True, slots=True)
class Controller:
    """Stands in for the controller: creates a plane's namespace, its CA for users, and status.

    Certificate requests are really answered.
    """

    client: Client
    people: Authority

    async def tenant(self, name: str, **spec: Any) -> Obj:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "Tenant",
            "metadata": {"name": name},
            "spec": {"class": "standard"} | spec,
        }
        return await self.client.create(kinds.TENANTS, body)

    async def plane(self, name: str, config: KubeConfig | None = None) -> None:
        namespace = names.plane_namespace(name)
        await self.client.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        if config is not None and config.ca is not None:
            files = {"tls.crt": self.people.pem.decode(), "tls.key": self.people.key.decode()}
            secret = {"metadata": {"name": "pki-ca-users", "namespace": namespace}, "stringData": files}
            await self.client.create(kinds.SECRETS, {"apiVersion": "v1", "kind": "Secret"} | secret)
            status = {"endpoint": config.server, "certificateAuthority": config.ca.decode()}
            await self.client.patch(kinds.TENANTS, name, {"status": status}, subresource="status")

    async def say(
        self,
        name: str,
        status: str,
        reason: Reason,
        message: str,
        *,
        type_: ConditionType = ConditionType.READY,
        **more: Any,
    ) -> None:
        await self.says(name, {type_: (status, reason, message)}, **more)

    async def says(self, name: str, conditions: Mapping[ConditionType, tuple[str, Reason, str]], **more: Any) -> None:
        """Write these conditions, by type their status, reason and message, as the controller does: all in one write."""
        tenant = await self.client.get(kinds.TENANTS, name)
        items = [
            {
                "type": str(type_),
                "status": status,
                "reason": str(reason),
                "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": tenant["metadata"]["generation"],
            }
            for type_, (status, reason, message) in conditions.items()
        ]
        await self.client.patch(kinds.TENANTS, name, {"status": {"conditions": items} | more}, subresource="status")

    async def exists(self, name: str) -> None:
        """Return once the command has created the tenant."""

        async def there() -> bool:
            return any(item["metadata"]["name"] == name for item in (await self.client.list(kinds.TENANTS)).items)

        await until(there, f"{name} created")
