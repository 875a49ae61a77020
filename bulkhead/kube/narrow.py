"""Connections that keep little of what their reader has not taken, and of what their peer has not read.

By themselves TLS and asyncio together keep a MiB for each direction of a stream whose bytes have to wait. Where many streams
wait at the same time that is what a process is made of; here the sender waits instead, which costs it nothing.
"""

import asyncio
import socket
from typing import Final

# Of the kernel, which doubles the number for its own needs; at 1 ms away this lets some 30 MiB a second through.
KERNEL_BYTES: Final = 32 * 1024
# Of TLS, not decrypted yet, and of asyncio, not sent yet: one more read or write may come on top of each.
READ_BYTES: Final = 16 * 1024
WRITE_BYTES: Final = 32 * 1024
# Bytes of a stream that wait for their reader.
NARROW_UNREAD_BYTES: Final = 32 * 1024


def keep_little(transport: asyncio.WriteTransport) -> None:
    """Have a connection keep little."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family in {socket.AF_INET, socket.AF_INET6}:
        for side in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            connection.setsockopt(socket.SOL_SOCKET, side, KERNEL_BYTES)
    transport.set_write_buffer_limits(high=WRITE_BYTES)
    # asyncio documents this of no transport; those under TLS have it.
    limit_reading = getattr(transport, "set_read_buffer_limits", None)
    if limit_reading is not None:
        limit_reading(high=READ_BYTES)
