"""A process that has loaded the command and forks once for each command of a test: a new process for a tenth of the CPU.

    test ── arguments, environment, folder; stdin, stdout, stderr, end ──> this ── fork ──> workstation.cli.main
         <── its pid and, when it has ended, its exit code, written into `end` ──┘

It runs as `python -m tests.kit.forker FD`, or as a child of a worker that the `zygote` has forked, at the other end of a
socket, and ends when that socket is closed. Nothing passes from one command to the next. A command is a real process with
signals, exit codes, a terminal and children. Modules are already loaded here, so these tests cannot show that they load by
themselves; the tests of `test_main.py` start Python for that.
"""

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from typing import NoReturn

from workstation import cli
from workstation.cli import main as command

_LARGEST = 1 << 20


def main(channel: socket.socket) -> None:
    """Fork until the socket is closed. Returns in each child, as the command that it is."""
    for module in pkgutil.walk_packages(cli.__path__, "workstation.cli."):
        if module.name != "workstation.cli.host":
            importlib.import_module(module.name)
    gc.freeze()
    # A signal that interrupts the tests reaches their whole process group; a command decides for itself what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell(running)
        if channel in ready:
            asked, files, _, _ = socket.recv_fds(channel, _LARGEST, 4)
            if not asked:
                for pid in running:
                    os.kill(pid, signal.SIGKILL)
                channel.close()
                sys.exit(0)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                channel.close()
                for fd in (woken, wakes, *running.values()):
                    os.close(fd)
                _become(json.loads(asked), files)
                return
            for fd in files[:3]:
                os.close(fd)
            running[pid] = files[3]
            os.write(files[3], f"{pid}\n".encode())


def _tell(running: dict[int, int]) -> None:
    """Report the exit code of each child that has ended."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            end = running.pop(pid)
            os.write(end, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(end)


def _become(asked: dict[str, object], files: list[int]) -> None:
    """Turn this child into the requested process, as if it had been started with these arguments."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for target, fd in enumerate(files[:3]):
        os.dup2(fd, target)
    for fd in files:
        os.close(fd)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(str(asked["folder"]))
    sys.argv = [str(command.__file__), *asked["arguments"]]


def serve(channel: socket.socket) -> NoReturn:
    """Fork until the socket is closed; each child runs its command and ends."""
    main(channel)
    command.program()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
