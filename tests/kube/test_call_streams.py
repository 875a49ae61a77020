"""Answers that are read as they come: each has a connection that no call gets, and a slow reader makes its server wait."""

import asyncio

import pytest

from bulkhead.kube import calls
from bulkhead.kube.errors import ProtocolError
from tests.kit import hostileserver as hostile
from tests.kit.countedserver import CHUNKED, CountedServer, echo, get


@pytest.fixture
def server() -> CountedServer:
    return CountedServer()


async def test_a_stream_is_read_as_it_comes_and_ends(server: CountedServer) -> None:
    read = asyncio.Semaphore(0)

    async def pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(CHUNKED)
        for number in range(3):
            writer.write(b"2\r\n%d\n\r\n" % number)
            await read.acquire()
        writer.write(b"0\r\n\r\n")

    async with server.serving(pieces) as made:
        stream = await made.open("/watch", {})
        found = []
        while part := await stream.readany():
            found.append(part)
            read.release()
        assert await stream.readany() == b""
        stream.close()
    assert (stream.status, found) == (200, [b"0\n", b"1\n", b"2\n"])


async def test_streams_have_connections_of_their_own_and_keep_no_call_waiting(server: CountedServer) -> None:
    async def watches(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await (hostile.silent(CHUNKED) if b"/watch" in head else echo)(reader, writer, head)

    async with server.serving(watches) as made:
        streams = [await made.open("/watch", {}) for _ in range(10)]
        assert (await get(made, "/x")).data == b"/x"
        for stream in streams:
            stream.close()
    assert len(server.connections) == 11


async def test_a_stream_takes_the_connection_of_a_call_that_was_just_answered_and_no_call_gets_it_again(
    server: CountedServer,
) -> None:
    async def watches(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await (hostile.silent(CHUNKED) if b"/watch" in head else echo)(reader, writer, head)

    async with server.serving(watches) as made:
        await get(made, "/list")
        stream = await made.open("/watch", {})
        assert len(server.connections) == 1
        assert (await get(made, "/x")).data == b"/x"
        assert len(server.connections) == 2
        stream.close()
        # A request that may change something is not tried on one that may be closed under it.
        (await made.open("/watch", {}, b"")).close()
    assert len(server.connections) == 3


async def test_a_stream_takes_no_connection_that_idled(server: CountedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_JUST_ANSWERED_SECONDS", 0.01)
    async with server.serving(echo) as made:
        await get(made)
        await asyncio.sleep(0.05)
        (await made.open("/watch", {})).close()
        assert len(server.connections) == 2
        await get(made)
    assert len(server.connections) == 2, "a call still has it"


async def test_a_stream_whose_connection_is_closed_under_it_begins_on_another(server: CountedServer) -> None:
    async with server.serving(server.closing_second) as made:
        await get(made)
        stream = await made.open("/again", {})
        assert await stream.readany() == b"/again"
        stream.close()
    assert (len(server.heads), len(server.connections)) == (3, 2)


async def test_a_slow_reader_makes_the_server_wait(server: CountedServer) -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        nonlocal sent
        writer.write(CHUNKED)
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            sent += 65536
            await writer.drain()

    async with server.serving(flood) as made:
        stream = await made.open("/logs", {})
        before = -1
        async with asyncio.timeout(60):
            while sent != before:
                before = sent
                await asyncio.sleep(0.2)
        stuck, read = sent, 0
        assert stream._reading.size < 1 << 20
        async with asyncio.timeout(60):
            while read < 4 * stuck:
                read += len(await stream.readany())
        assert sent > stuck
        stream.close()


async def test_what_came_of_a_stream_is_read_before_its_error(server: CountedServer) -> None:
    async with server.serving(hostile.closing(CHUNKED + b"3\r\nabc\r\n5\r\nde")) as made:
        stream = await made.open("/watch", {})
        # All of it is there, and the end as well, before the reader starts.
        await asyncio.sleep(0.05)
        assert await stream.readany() == b"abcde"
        with pytest.raises(ConnectionError):
            await stream.readany()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (hostile.closing(b"HTTP/1.1 200"), ConnectionError),
        (hostile.endless(b"HTTP/1.1 200 OK\r\n", b"X-Pad: " + b"y" * 4096 + b"\r\n"), ProtocolError),
        (hostile.fixed(b"SSH-2.0-OpenSSH\r\n\r\n"), ProtocolError),
    ],
)
async def test_a_stream_that_does_not_begin_is_an_error(
    server: CountedServer, answer: hostile.Answer, error: type[Exception]
) -> None:
    async with server.serving(answer) as made:
        with pytest.raises(error):
            await made.open("/watch", {})
        assert not [connection for connection in made._open if connection.usable]
