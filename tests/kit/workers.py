"""Workers of xdist that are forked from a process that has imported the tests (`zygote`). Otherwise each would import them.

pytest_xdist_setupnodes ──> fork_workers ──> execnet starts a process ──> Worker ──> zygote
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from execnet import gateway_io
from execnet.gateway_base import Popen2IO


def fork_workers(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Until the end of the run, execnet's local processes come from a zygote."""
    if all(spec.popen and not spec.python for spec in specs):
        zygote = _Zygote(config.invocation_params)
        plain, gateway_io.Popen2IOMaster = gateway_io.Popen2IOMaster, zygote.worker
        config.add_cleanup(zygote.end)
        config.add_cleanup(lambda: setattr(gateway_io, "Popen2IOMaster", plain))


class _Zygote:
    """The process, and our end of the socket."""

    def __init__(self, called: pytest.Config.InvocationParams) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [sys.executable, "-m", "tests.kit.zygote", str(theirs.fileno()), *map(str, called.args)]
        with theirs:
            self._process = subprocess.Popen(
                words, pass_fds=[theirs.fileno()], cwd=called.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )

    def end(self) -> None:
        """End it; its workers have ended."""
        self._channel.close()
        self._process.wait()

    def worker(self, _command: Sequence[str], execmodel: Any) -> "Worker":
        """A new worker, in place of a Python that runs this command."""
        inward, outward, end = os.pipe(), os.pipe(), os.pipe()
        theirs = [inward[0], outward[1], sys.stderr.fileno(), end[1]]
        socket.send_fds(self._channel, [b"worker"], theirs)
        for fd in (inward[0], outward[1], end[1]):
            os.close(fd)
        return Worker(inward[1], outward[0], end[0], execmodel)


class Worker(Popen2IO):  # type: ignore[misc]
    """A worker's input, output and end, as execnet uses them."""

    def __init__(self, writes: int, reads: int, end: int, execmodel: Any) -> None:
        super().__init__(os.fdopen(writes, "wb"), os.fdopen(reads, "rb"), execmodel=execmodel)
        self._end = os.fdopen(end, "rb")
        line = self._end.readline()
        if not line:
            raise EOFError("the process that imports the tests ended before it forked a worker; its error stands above")
        self._pid = int(line)

    def wait(self) -> int:
        """Its exit code, negative for a signal, when it has ended."""
        return int(self._end.readline() or 0)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        try:
            os.kill(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            return
