"""A TCP proxy that passes on every piece of a connection late. It runs as a process of its own, in a pod's network namespace.

    python -m e2e.chaos.faults.proxy PORT MARK DELAY LOG

nft redirects connections here; the kernel tells where each was going. The log has one line with the pieces and bytes so far.
"""

import asyncio
import socket
import struct
import sys
from pathlib import Path
from typing import Final

_ORIGINAL_DESTINATION: Final = 80  # SO_ORIGINAL_DST of the kernel's netfilter
_PIECE_BYTES: Final = 64 << 10
_PIECES_IN_FLIGHT: Final = 64


class Proxy:
    """Passes connections on to where they were going."""

    def __init__(self, mark: int, delay: float, log: Path) -> None:
        self._mark = mark
        self._delay = delay
        self._log = log
        log.write_text("0 0\n")
        self._pieces = 0
        self._bytes = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            address, port = _destination(writer.get_extra_info("socket"))
            onward = socket.socket()
            onward.setblocking(False)
            if self._mark:
                onward.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, self._mark)
            await asyncio.get_running_loop().sock_connect(onward, (address, port))
            there, back = await asyncio.open_connection(sock=onward)
            try:
                await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
            finally:
                back.close()
        except OSError as error:
            print(f"proxy: {error}", file=sys.stderr, flush=True)
        finally:
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A piece is written `delay` after it was read; later pieces are read meanwhile."""
        loop = asyncio.get_running_loop()
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_PIECES_IN_FLIGHT)

        async def write() -> None:
            while True:
                due, piece = await late.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not piece:
                    writer.write_eof()  # the other direction may still have something to say
                    return
                writer.write(piece)
                await writer.drain()
                self._pieces += 1
                self._bytes += len(piece)
                self._log.write_text(f"{self._pieces} {self._bytes}\n")

        writing = asyncio.create_task(write())
        try:
            while piece := await reader.read(_PIECE_BYTES):
                await late.put((loop.time() + self._delay, piece))
        finally:
            await late.put((loop.time() + self._delay, b""))
            await writing


def _destination(accepted: socket.socket) -> tuple[str, int]:
    """The address that a redirected connection was going to."""
    _, port, address = struct.unpack("!HH4s8x", accepted.getsockopt(socket.SOL_IP, _ORIGINAL_DESTINATION, 16))
    return socket.inet_ntoa(address), port


async def main(port: int, mark: int, delay: float, log: Path) -> None:
    server = await asyncio.start_server(Proxy(mark, delay, log).serve, "0.0.0.0", port)  # noqa: S104 - a pod's own network
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])))
