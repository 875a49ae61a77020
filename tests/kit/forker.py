"""A process that has loaded the command and forks for each that a test runs: a process of its own for a tenth of the CPU.

    test ── arguments, environment, folder; stdin, stdout, stderr, end ──> this ── fork ──> workstation.cli.main
         <── its pid and, when it has ended, its exit code, written into `end` ──┘

It runs as `python -m tests.kit.forker FD`, on the other end of a socket, ends with whoever holds that, and takes nothing from
one command to the next: a command gets what a process gets, and is one, with signals, exit codes, terminals and children.
What is loaded here already is not shown to load by itself; the tests of `test_main.py` start Python anew.
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

from workstation import cli
from workstation.cli import main as command

_LARGEST = 1 << 20


def main(channel: socket.socket) -> None:
    """Fork until nobody asks any more; returns in each child, as the command that it is."""
    for module in pkgutil.walk_packages(cli.__path__, "workstation.cli."):
        if module.name != "workstation.cli.host":
            importlib.import_module(module.name)
    gc.freeze()
    # What interrupts the tests reaches their whole group; a command decides for itself what that means.
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
    """Say of each that has ended how it did."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            end = running.pop(pid)
            os.write(end, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(end)


def _become(asked: dict[str, object], files: list[int]) -> None:
    """The process that was asked for, as one that was started with these."""
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


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(command.main())
