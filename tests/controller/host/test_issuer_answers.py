"""An identity provider that means harm: whatever it answers, it is a fault with a cause, soon and in little memory."""

import asyncio
import contextlib
import gzip
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from controller.decide.keysets import KEY_SET_BYTES, Fault
from controller.host.issuers import over_https
from tests.kit.pki import Authority

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_MIB = 1024 * 1024


@contextlib.asynccontextmanager
async def provider(folder: Path, answer: Answer) -> AsyncIterator[tuple[str, str]]:
    """A server with this answer to everything: its address, and its authority."""
    authority = Authority("provider-ca")
    for name, data in zip(("crt", "key"), authority.issue("provider", addresses=("127.0.0.1",)), strict=True):
        (folder / name).write_bytes(data)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "crt", folder / "key")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/x", authority.pem.decode()


def sends(*parts: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return answer


async def endless_body(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"\r\n")
    for _ in range(200):
        writer.write(b"x" * 65536)
        await writer.drain()


async def endless_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(20_000):
        writer.write(b"X-%d: y\r\n" % number)
        await writer.drain()


async def silence(writer: asyncio.StreamWriter) -> None:
    del writer
    await asyncio.sleep(3600)


HOSTILE: dict[str, tuple[Answer, str]] = {
    "a redirect inside": (sends(b"HTTP/1.1 302 Found\r\nLocation: https://10.96.0.1/\r\n\r\n"), "answers 302"),
    "an error": (sends(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), "answers 503"),
    "no HTTP": (sends(b"SSH-2.0-OpenSSH\r\n"), "cannot be reached"),
    "nothing": (sends(), "cannot be reached"),
    "half a body": (sends(HEAD + b"Content-Length: 100\r\n\r\nhalf"), "cannot be reached"),
    "a body without end": (endless_body, "more than 256 KiB"),
    "a head without end": (endless_head, "cannot be reached"),
    "silence": (silence, "does not answer within 1 s"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
async def test_whatever_it_answers_is_a_fault(tmp_path: Path, name: str) -> None:
    answer, word = HOSTILE[name]
    async with provider(tmp_path, answer) as (address, authority):
        with pytest.raises(Fault, match=word) as fault:
            async with asyncio.timeout(30 if answer is silence else None):
                await over_https(address, authority, seconds=1 if answer is silence else 60)
    assert len(str(fault.value)) < 500


async def test_a_plain_answer_is_taken_up_to_its_bound(tmp_path: Path) -> None:
    body = b"x" * KEY_SET_BYTES
    async with provider(tmp_path, sends(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)) as (address, authority):
        assert await over_https(address, authority) == body


async def test_what_comes_compressed_is_not_unpacked(tmp_path: Path) -> None:
    bomb = gzip.compress(b"x" * (64 * _MIB))
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with provider(tmp_path, sends(head + bomb)) as (address, authority):
        tracemalloc.start()
        try:
            assert await over_https(address, authority) == bomb
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 8 * _MIB


@pytest.mark.parametrize("authority", ["F\u0151tan\u00fas\u00edtv\u00e1ny", "no certificate"])
async def test_a_malformed_authority_is_an_error(authority: str) -> None:
    with pytest.raises(Fault, match="no certificate that can be read"):
        await over_https("https://login.example.org", authority)
