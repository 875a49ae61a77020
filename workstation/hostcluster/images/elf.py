"""An executable of a few machine instructions: one ELF header, one segment, no library and no interpreter."""

import struct
from typing import Final

_BASE: Final = 0x400000
_HEADERS: Final = 64 + 56  # ELF header and one program header
# Where the body lies in memory: its code may name addresses in itself.
CODE_AT: Final = _BASE + _HEADERS


def x86_64(body: bytes) -> bytes:
    """The whole file; execution begins with the body's first byte, at `CODE_AT`. Nothing of it can be written to."""
    size = _HEADERS + len(body)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, CODE_AT, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    program = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + program + body
