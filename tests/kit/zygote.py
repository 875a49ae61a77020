"""A process that imports all tests once and forks each process of a run: one import, and shared memory, for all of them.

    master ── stdin, stdout, stderr, end ──> zygote ── fork ──> a worker of xdist ── fork ──> its forker of commands
           <── a worker's pid and, when it has ended, its exit code, written into `end` ──┘

It runs as `python -m tests.kit.zygote FD ARGUMENTS…` with the arguments of the run, on the other end of a socket, and ends when
that socket is closed (`workers`). It imports modules and makes no tests of them: each worker draws its own parameters. A module
that cannot be imported here is tried again by each worker, which reports it. Tests that show what a module loads by itself
start Python.
"""

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from tests.kit import commandline, forker

_LARGEST: Final = 4096
_TESTS: Final = Path(__file__).resolve().parent.parent


class _Modules:
    """Plugin of a collection that imports modules and makes no tests."""

    def __init__(self, *, backwards: bool) -> None:
        self.backwards = backwards

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self) -> list[pytest.Item]:
        """Nothing, instead of what pytest would make."""
        return []

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Turn the order round."""
        report = yield
        if self.backwards and report.result:
            report.result.reverse()
        return report


def main(channel: socket.socket, arguments: list[str]) -> None:
    """Import, then fork until the socket is closed. Returns in each worker."""
    _import(arguments)
    # An interruption reaches the whole process group: the master ends its workers, and then this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: dict[int, int] = {}  # a worker's pidfd -> where its exit code is written
    while True:
        ready, _, _ = select.select([channel, *running], [], [])
        for pidfd in running.keys() & ready:
            _tell(pidfd, running.pop(pidfd))
        if channel not in ready:
            continue
        asked, files, _, _ = socket.recv_fds(channel, _LARGEST, 4)
        if not asked:
            channel.close()
            sys.exit(0)
        pid = os.fork()
        if pid == 0:
            channel.close()
            for fd in (*running, *running.values(), files[3]):
                os.close(fd)
            _become_worker(files[:3])
            return
        for fd in files[:3]:
            os.close(fd)
        running[os.pidfd_open(pid)] = files[3]
        os.write(files[3], f"{pid}\n".encode())


def _import(arguments: list[str]) -> None:
    """Import what the run will import. On a fresh clone, a second process compiles from the other end meanwhile."""
    compiled = any(_TESTS.rglob("test_*-pytest-*.pyc"))
    helper = None if compiled else os.fork()
    words = [*arguments, "--collect-only", "-q", "-n0", "-p", "no:cacheprovider"]
    pytest.main(words, plugins=[_Modules(backwards=helper == 0)])
    if helper == 0:
        os._exit(0)
    if helper is not None:
        os.kill(helper, signal.SIGKILL)  # bytecode appears by a rename: a file is whole or not there
        os.waitpid(helper, 0)
    _draw()
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        sys.exit(f"the modules of the tests start threads when they are imported, which a fork would lose: {threads} threads")
    gc.collect()
    gc.freeze()


def _draw() -> None:
    """Draw something, so that Hypothesis parses all modules for their constants here, and not once more in each worker."""
    # Imported as late as this, so that pytest could rewrite it.
    from hypothesis import given, settings
    from hypothesis import strategies as st

    @settings(max_examples=200, database=None)
    @given(st.integers(), st.text())
    def drawn(number: int, text: str) -> None:
        pass

    drawn()


def _tell(pidfd: int, end: int) -> None:
    """Report the exit code of a worker that has ended."""
    ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    assert ended is not None
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    os.write(end, f"{code}\n".encode())
    os.close(end)
    os.close(pidfd)


def _become_worker(files: list[int]) -> None:
    """Turn this child into what xdist starts. It first forks the process that will fork the commands of its tests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        for fd in files:
            os.close(fd)
        forker.serve(theirs)
    theirs.close()
    commandline.take(ours)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, fd in enumerate(files):
        os.dup2(fd, target)
        os.close(fd)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
    exec(eval(sys.stdin.readline()))  # noqa: S102, S307 -- what the processes that execnet itself starts do
