"""The frames of a websocket (RFC 6455), the client's side: what to write, and what came. Pure but for the masks.

Every bound is the reader's own: a frame or message that is longer, or breaks the protocol, raises ProtocolError.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from bulkhead.kube.errors import ProtocolError

CONTINUATION: Final = 0
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
_MESSAGE_BYTES: Final = 4 * 1024 * 1024
_CONTROL_FRAME_BYTES: Final = 125


def frame(opcode: int, data: bytes) -> bytes:
    """One whole message, masked as a client's has to be."""
    length = len(data)
    if length < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | length)
    elif length < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, length)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, length)
    mask = os.urandom(4)
    return head + mask + masked(data, mask)


def masked(data: bytes, mask: bytes) -> bytes:
    """The data under a mask; twice is the data again."""
    length = len(data)
    repeated = (mask * (length // 4 + 1))[:length]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(length, "big")


@dataclass(slots=True)
class Messages:
    """What a server sends: bytes in, whole messages out."""

    waiting: bytearray = field(default_factory=bytearray)
    _opcode: int = 0
    _parts: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The messages that are whole by now: opcode and content."""
        self.waiting += data
        while (found := self._frame()) is not None:
            final, opcode, content = found
            if opcode >= CLOSE:
                if not final or len(content) > _CONTROL_FRAME_BYTES:
                    raise ProtocolError("websocket: a control frame in parts, or too long")
                yield opcode, content
                continue
            if (opcode == CONTINUATION) != bool(self._opcode):
                raise ProtocolError("websocket: parts of two messages mixed")
            self._opcode = self._opcode or opcode
            self._parts += content
            if len(self._parts) > _MESSAGE_BYTES:
                raise ProtocolError(f"websocket: a message of more than {_MESSAGE_BYTES} bytes")
            if final:
                whole, opcode = bytes(self._parts), self._opcode
                self._opcode, self._parts = 0, bytearray()
                yield opcode, whole

    def _frame(self) -> tuple[bool, int, bytes] | None:
        data = self.waiting
        if len(data) < 2:
            return None
        if data[0] & 0x70 or data[1] & 0x80:
            raise ProtocolError("websocket: a frame with an extension or a mask")
        length, start = data[1] & 0x7F, 2
        if length >= 126:
            start = 4 if length == 126 else 10
            if len(data) < start:
                return None
            length = int.from_bytes(data[2:start], "big")
        if length > _MESSAGE_BYTES:
            raise ProtocolError(f"websocket: a frame of more than {_MESSAGE_BYTES} bytes")
        if len(data) < start + length:
            return None
        content = bytes(data[start : start + length])
        final, opcode = bool(data[0] & 0x80), data[0] & 0x0F
        del data[: start + length]
        return final, opcode, content
