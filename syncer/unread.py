"""Answers on their way to callers that do not read them: bounded in bytes and time, all callers of a server together.

A caller that opens connections, asks and reads nothing would otherwise fill the process's memory with its answers.
"""

import asyncio
from typing import Final

UNREAD_BYTES: Final = 32 << 20
_PIECE_BYTES: Final = 16 * 1024


class Unread:
    """How many bytes wait to be read."""

    def __init__(self, most: int = UNREAD_BYTES) -> None:
        self._most = most
        self.waiting = 0

    def is_full(self, size: int) -> bool:
        """Whether an answer of this size is too much beside those that wait; one alone never is."""
        return self.waiting > 0 and self.waiting + size > self._most

    async def send(self, writer: asyncio.StreamWriter, answer: bytes, seconds: float) -> None:
        """Send an answer; a caller that has not read it by then loses its connection."""
        self.waiting += len(answer)
        try:
            async with asyncio.timeout(seconds):
                # TLS takes one write whole, however large it is, and waits before the next one alone.
                for begin in range(0, len(answer), _PIECE_BYTES):
                    writer.write(answer[begin : begin + _PIECE_BYTES])
                    await writer.drain()
        except TimeoutError:
            writer.transport.abort()
        finally:
            self.waiting -= len(answer)
