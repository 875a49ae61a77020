"""Connections whose peer has vanished without a word end within half a minute: the kernel asks an idle peer for a sign of life.

A partition that drops packets in silence closes nothing: a watch would wait for its bookmark, an exec session forever. The
kernel's probes cost no work here, and a peer that is only slow answers them.
"""

import asyncio
import socket
from typing import Final

IDLE_SECONDS: Final = 10
PROBE_SECONDS: Final = 5
PROBES: Final = 3
# The longest silence after which a vanished peer is noticed.
NOTICED_SECONDS: Final = IDLE_SECONDS + PROBES * PROBE_SECONDS


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Have the kernel end this connection if its peer no longer answers; nothing happens where it is not a TCP connection."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Systems that name them otherwise keep their own times, which are longer.
    for name, value in (("TCP_KEEPIDLE", IDLE_SECONDS), ("TCP_KEEPINTVL", PROBE_SECONDS), ("TCP_KEEPCNT", PROBES)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
