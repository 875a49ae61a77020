"""Ports for servers that tests start, kill and start again.

Below the range from which the kernel takes ports for outgoing connections: one of those took a port between its choice and the
start of its server, and would as well while the server is down.
"""

import random
import socket

_RANGE = range(12_000, 30_000)
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
