"""Ports for servers that tests start, kill and start again.

They are below the range from which the kernel takes ports for outgoing connections. Such a connection could take a port between
its choice and the start of its server, or while the server is down.

    free_port ──> a port that no process of this user holds: its byte in a shared file is locked ──> does it bind? ──> the test

Until its server starts, a chosen port looks free to another process, of this run or of one beside it. So each process locks
what it draws, for as long as it lives. The kernel ends a lock with its process, however that ends. A forked process does not
inherit locks, and sees those of its parent as another's.

A lock binds only those who ask for it. So each process also binds what it draws, without listening: the kernel then gives the
port to no connection, and to no program but one that sets SO_REUSEADDR, as servers do.
"""

import contextlib
import fcntl
import functools
import os
import random
import socket
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

_ALL: Sequence[int] = range(12_000, 30_000)
# A process holds so many at most, and then begins again with its own: 35 processes beside it always find one, and half of the
# files that many systems let a process open are left.
_AT_MOST = 500
_FILE = Path(tempfile.gettempdir()) / f"bulkhead-test-ports-{os.geteuid()}"
_held: deque[int] = deque()
_bound: set[int] = set()  # a socket of this process has each of them, and is never closed
# Not the module's generator: a process that is forked goes on from its parent's state, and both would try the same ports.
_chance = random.SystemRandom()
os.register_at_fork(after_in_child=_held.clear)


def free_port() -> int:
    """A free port of loopback, which no other process draws while this one lives.

    A process returns the same one twice only after all others that it may have.
    """
    for port in _others():
        if _locks(port):
            if _binds(port) and _keeps(port):
                _held.append(port)
                return port
            fcntl.lockf(_file(), fcntl.LOCK_UN, 1, port)
    for _ in range(len(_held)):
        port = _held[0]
        _held.rotate(-1)
        if _binds(port):
            return port
    raise RuntimeError(f"tests need a free port of loopback: {_ALL[0]} to {_ALL[-1]} are all taken, see `ss -ltn` and {_FILE}")


def seen(port: int) -> str:
    """The sockets that the kernel shows at the port now, for the message of a server that could not have it."""
    lines = [line for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
    found = [line for line in lines if port == int(line.split()[1].rsplit(":", 1)[1], 16)]
    return "\n".join([f"sockets at port {port}, in the words of /proc/net/tcp:", *found])


def _others() -> Iterator[int]:
    """The ports that this process does not hold, from any one on; none if it has enough."""
    start, held = _chance.randrange(len(_ALL)), set(_held)
    if len(held) < _AT_MOST:
        ports = (_ALL[(start + offset) % len(_ALL)] for offset in range(len(_ALL)))
        yield from (port for port in ports if port not in held)


def _locks(port: int) -> bool:
    """Whether no other process holds the port; this one does from now on."""
    try:
        fcntl.lockf(_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: another process has locked it
        return False
    return True


@functools.cache
def _file() -> int:
    # Never closed: that would end all locks of this process.
    return os.open(_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _keeps(port: int) -> bool:
    """Whether this process has bound the port, from now on."""
    if port not in _bound:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(("127.0.0.1", port))
        except OSError:
            made.close()
            return False
        made.detach()
        _bound.add(port)
    return True


def _binds(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_server(("127.0.0.1", port)).close()
        return True
    return False
