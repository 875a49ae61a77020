"""Peers that vanish without a word: the kernel drops each packet that comes to a socket, as in a partition. Needs no root."""

import asyncio
import ctypes
import fcntl
import socket
import struct
import sys
import termios
from typing import Final

_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_RETURN: Final = 0x06
_INSTRUCTION: Final = struct.pack("HBBI", _RETURN, 0, 0, 0)  # keep nothing of any packet


def deafen(transport: asyncio.BaseTransport) -> None:
    """Drop what comes from now on, acknowledgements included; what this side sends arrives."""
    program = ctypes.create_string_buffer(_INSTRUCTION)
    _socket(transport).setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))


def hear(transport: asyncio.BaseTransport) -> None:
    """Take in again what comes."""
    _socket(transport).setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)


def hurry(transport: asyncio.BaseTransport) -> None:
    """Let the kernel ask after a second instead of ten, if it asks at all."""
    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
        _socket(transport).setsockopt(socket.IPPROTO_TCP, option, 1)


def noticed_after(transport: asyncio.BaseTransport) -> int:
    """The seconds of silence after which the kernel ends the connection; 0 if it never does."""
    found = _socket(transport)
    if not found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
        return 0
    idle, each, count = (
        found.getsockopt(socket.IPPROTO_TCP, option)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    )
    return idle + each * count


def under_way(transport: asyncio.BaseTransport) -> int:
    """The bytes that the peer has not acknowledged: while there are any, the kernel repeats them and does not ask."""
    return int.from_bytes(fcntl.ioctl(_socket(transport).fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def _socket(transport: asyncio.BaseTransport) -> socket.socket:
    found: socket.socket = transport.get_extra_info("socket")
    return found
