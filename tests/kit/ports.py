"""Ports for servers that tests start, kill and start again.

Below the range from which the kernel takes ports for outgoing connections: one of those took a port between its choice and the
start of its server, and would as well while the server is down. Test processes that run side by side have a range each:
between the choice of a port and the start of its server it looks free to the other.
"""

import os
import random
import socket

_ALL = range(12_000, 30_000)
_SIDE_BY_SIDE = 16
_OWN = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SIDE_BY_SIDE
_RANGE = _ALL[_OWN::_SIDE_BY_SIDE]
_given: set[int] = set()


def free_port() -> int:
    """A port of loopback on which nothing listens, never the same twice in a process."""
    while True:
        port = random.choice(_RANGE)  # noqa: S311 -- spreading, not secrets
        if port in _given:
            continue
        _given.add(port)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
