"""An executable of a few machine instructions: one ELF header, one segment, no library and no interpreter."""

import struct
from typing import Final

_BASE: Final = 0x400000
_HEADERS: Final = 64 + 56  # ELF header and one program header
# The address of the body in memory: its code may contain addresses of its own parts.
CODE_AT: Final = _BASE + _HEADERS


def x86_64(body: bytes) -> bytes:
    """The whole file; execution begins with the body's first byte, at `CODE_AT`. All of it is read-only in memory."""
    size = _HEADERS + len(body)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, CODE_AT, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    program = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + program + body
