"""Ports for servers that tests start, kill and start again.

They are below the range from which the kernel takes ports for outgoing connections. Such a connection could take a port between
its choice and the start of its server, or while the server is down. Processes that run tests side by side have a range each:
until its server starts, a chosen port looks free to the other process.
"""

import contextlib
import os
import random
import socket

_ALL = range(12_000, 30_000)
_SIDE_BY_SIDE = 16
_OWN = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SIDE_BY_SIDE
_RANGE = _ALL[_OWN::_SIDE_BY_SIDE]
_given: set[int] = set()
# Not the module's generator: a process that is forked goes on from its parent's state, and both would choose the same port.
_chance = random.SystemRandom()


def free_port() -> int:
    """A free port of loopback. A process returns the same one twice only after all others."""
    for _ in range(2):
        left = [port for port in _RANGE if port not in _given]
        for port in _chance.sample(left, len(left)):
            _given.add(port)
            with contextlib.suppress(OSError):
                socket.create_server(("127.0.0.1", port)).close()
                return port
        _given.clear()
    raise RuntimeError(f"tests need a free port of loopback: {_RANGE[0]} to {_RANGE[-1]} are all taken, see `ss -ltn`")
