"""A plane that turns hostile: a TLS server between a syncer and a real API server, which passes bytes on until told to play.

    syncer ──TLS──> Turncoat ─┬─ honest ──TLS──> the real plane, byte by byte
                              └─ a behaviour of `tests.kit.hostileserver`, on every connection, old ones cut first

It counts its requests and the bytes that it sent, so that a test can show that the syncer did meet each behaviour. It runs in a
thread with a loop of its own: a server that writes as fast as it can would leave no turn to other tasks of its loop.
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.hostileserver import Answer
from tests.kit.pki import Authority

_CHUNK = 65536


@dataclass(slots=True)
class Turncoat:
    """One server; `turn` changes how it behaves."""

    real: KubeConfig
    port: int = 0
    asked: int = 0
    sent: int = 0
    loop: asyncio.AbstractEventLoop | None = None
    _answer: Answer | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    def turn(self, answer: Answer | None) -> None:
        """Behave so from now on; None: honest. What is open breaks off."""
        assert self.loop is not None
        done = threading.Event()
        self.loop.call_soon_threadsafe(self._turn, answer, done)
        assert done.wait(30)

    def _turn(self, answer: Answer | None, done: threading.Event) -> None:
        self._answer = answer
        self.asked = self.sent = 0
        for writer in list(self._open):
            writer.transport.abort()
        done.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for as long as nothing changes."""
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                if self._answer is None:
                    await self._pass_on(reader, writer)
                else:
                    await self._play(self._answer, reader, writer)
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _play(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counted = _Counted(self, writer)
        while self._answer is answer:
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            await answer(reader, counted, head)  # type: ignore[arg-type]  # the part of a writer that answers use

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = urlsplit(self.real.server)
        up_reader, up_writer = await asyncio.open_connection(address.hostname, address.port, ssl=self.real.ssl_context())
        self._open.add(up_writer)
        try:
            await asyncio.wait(
                [asyncio.create_task(_pump(reader, up_writer)), asyncio.create_task(_pump(up_reader, writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._open.discard(up_writer)
            up_writer.transport.abort()


class _Counted:
    """A writer that counts."""

    def __init__(self, turncoat: Turncoat, writer: asyncio.StreamWriter) -> None:
        self._turncoat = turncoat
        self._writer = writer

    def write(self, data: bytes) -> None:
        self._turncoat.sent += len(data)
        self._writer.write(data)

    async def drain(self) -> None:
        await asyncio.sleep(0)  # the loop learns of a reader that went away only when it has its turn
        if self._writer.transport.is_closing():
            raise ConnectionResetError
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


@contextlib.contextmanager
def turncoat(real: KubeConfig, folder: Path) -> Iterator[tuple[Turncoat, KubeConfig]]:
    """The server, honest at first, and the configuration of a client that reaches it."""
    authority = Authority("turncoat-ca")
    certificate, key = authority.issue("turncoat", addresses=("127.0.0.1",))
    (folder / "turncoat.crt").write_bytes(certificate)
    (folder / "turncoat.key").write_bytes(key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "turncoat.crt", folder / "turncoat.key")
    made, started, stop = Turncoat(real), threading.Event(), asyncio.Event()

    async def run() -> None:
        server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
        made.port, made.loop = server.sockets[0].getsockname()[1], asyncio.get_running_loop()
        started.set()
        await stop.wait()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),), name="turncoat", daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield made, KubeConfig(server=f"https://127.0.0.1:{made.port}", ca=authority.pem, token="of-no-use")
    finally:
        made.turn(None)
        assert made.loop is not None
        made.loop.call_soon_threadsafe(stop.set)
        thread.join(30)
