"""Kept connections: an answer reaches the call that asked for it and no other, whatever the server and the caller do."""

import asyncio
import contextlib

import pytest

from bulkhead.kube import calls
from bulkhead.kube.connection import Bounds
from bulkhead.kube.errors import ProtocolError, TooLarge
from tests.kit import hostileserver as hostile
from tests.kit.countedserver import BOUNDS, CHUNKED, CountedServer, echo, get
from tests.kit.hostileserver import http

FAILED = b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"
BOTH = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"


@pytest.fixture
def server() -> CountedServer:
    return CountedServer()


async def test_one_connection_serves_calls_after_each_other(server: CountedServer) -> None:
    async with server.serving(echo) as made:
        answers = [await get(made, f"/{number}?a=b%20c") for number in range(20)]
    assert [each.data for each in answers] == [f"/{number}?a=b%20c".encode() for number in range(20)]
    assert len(server.connections) == 1


async def test_no_more_connections_than_allowed_and_each_call_gets_its_own_answer(server: CountedServer) -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await asyncio.sleep(0.01)
        await echo(reader, writer, head)

    async with server.serving(late) as made:
        answers = await asyncio.gather(*(get(made, f"/{number}") for number in range(40)))
    assert [each.data for each in answers] == [f"/{number}".encode() for number in range(40)]
    assert server.most == 4


async def test_the_answer_to_a_call_that_was_given_up_is_dropped(server: CountedServer) -> None:
    arrived, given_up, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        if b"/slow" in head:
            arrived.set()
            await given_up.wait()
        await echo(reader, writer, head)
        answered.set()

    async with server.serving(slow_first) as made:
        slow = asyncio.create_task(made.ask("GET", "/slow", {}, None, BOUNDS))
        await arrived.wait()
        slow.cancel()
        await asyncio.wait([slow])
        assert slow.cancelled()
        given_up.set()
        await answered.wait()
        assert (await get(made, "/next")).data == b"/next"
    assert len(server.connections) == 2


@pytest.mark.parametrize("more", [http("200 OK", b"/poison"), b"x", b"HTTP/1.1 200 OK\r\n"])
@pytest.mark.parametrize("pause", [0.0, 0.02])
async def test_an_answer_without_a_request_does_not_answer_the_next_call(
    server: CountedServer, more: bytes, pause: float
) -> None:
    sent = asyncio.Event()

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await echo(reader, writer, head)
        await asyncio.sleep(pause)
        writer.write(more)
        sent.set()

    async with server.serving(twice) as made:
        for number in range(5):
            sent.clear()
            # Either its own answer, or an error where the surplus came in one piece with it.
            with contextlib.suppress(ProtocolError, ConnectionError):
                assert (await get(made, f"/{number}")).data == f"/{number}".encode()
            async with asyncio.timeout(30):
                await sent.wait()
                # If bytes come after the next request was sent, its answer cannot be told from the former one.
                while any(each.usable for each in made._idle):  # noqa: ASYNC110 - a connection has no event for it
                    await asyncio.sleep(0.001)


async def test_a_kept_connection_that_the_server_closed_is_not_used_again(server: CountedServer) -> None:
    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await echo(reader, writer, head)
        writer.close()

    async with server.serving(closing) as made:
        for number in range(3):
            assert (await get(made, f"/{number}")).data == f"/{number}".encode()
            await asyncio.sleep(0.02)
    assert len(server.connections) == 3


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_kept_connection_that_is_closed_under_a_call_is_reopened_for_a_get_alone(
    server: CountedServer, method: str
) -> None:
    async with server.serving(server.closing_second) as made:
        await get(made)
        if method == "GET":
            assert (await get(made, "/again")).data == b"/again"
        else:
            with pytest.raises(ConnectionError):
                await made.ask("POST", "/again", {}, b"", BOUNDS)
    assert len(server.heads) == (3 if method == "GET" else 2)


async def test_a_kept_connection_that_is_just_closing_is_reopened(server: CountedServer) -> None:
    async with server.serving(echo) as made:
        await get(made)
        transport = made._idle[0]._transport
        assert transport is not None
        transport.close()
        assert (await get(made, "/again")).data == b"/again"
    assert len(server.connections) == 2


async def test_a_server_that_closes_under_every_call_is_not_asked_for_ever(server: CountedServer) -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.transport.abort()

    async with server.serving(never) as made:
        with pytest.raises(ConnectionError):
            await get(made)
    assert len(server.heads) == 1


@pytest.mark.parametrize("header", ["Connection: close", "Connection: Close, x"])
async def test_a_server_that_says_that_it_closes_is_taken_at_its_word(server: CountedServer, header: str) -> None:
    async with server.serving(hostile.fixed(http("200 OK", b"{}", header))) as made:
        for _ in range(3):
            assert (await get(made)).data == b"{}"
    assert len(server.connections) == 3


async def test_a_connection_that_was_idle_for_long_is_not_used_again(
    server: CountedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_IDLE_CONNECTION_SECONDS", 0.01)
    async with server.serving(echo) as made:
        for _ in range(2):
            await get(made)
            await asyncio.sleep(0.05)
    assert len(server.connections) == 2


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n" + http("200 OK", b"{}"), b"{}"),
        (CHUNKED + b"3;ext=1\r\nabc\r\n1\r\nd\r\n0\r\nX-Trailer: t\r\n\r\n", b"abcd"),
        (http("204 No Content", b""), b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
async def test_answers_of_every_form_are_read(server: CountedServer, raw: bytes, data: bytes) -> None:
    async with server.serving(hostile.fixed(raw)) as made:
        for _ in range(2):
            assert (await get(made)).data == data
    assert len(server.connections) == 1


async def test_an_answer_that_ends_with_its_connection_is_read(server: CountedServer) -> None:
    async with server.serving(hostile.closing(b"HTTP/1.1 200 OK\r\n\r\nall of it")) as made:
        assert (await get(made)).data == b"all of it"


BROKEN: list[tuple[str, hostile.Answer, type[Exception]]] = [
    ("endless trailers", hostile.endless(CHUNKED + b"0\r\n", b"X-T: " + b"y" * 1000 + b"\r\n"), ProtocolError),
    ("a trailer without end", hostile.endless(CHUNKED + b"0\r\nX: ", b"y" * 1000), ProtocolError),
    ("a chunk's extension without end", hostile.endless(CHUNKED + b"1;", b"y" * 1000), ProtocolError),
    ("endless hints", hostile.endless(b"", b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"), ProtocolError),
    ("a thousand bytes, one by one, for ever", hostile.endless(CHUNKED, b"1\r\nx\r\n" * 1000), TooLarge),
    (
        "an error without end",
        hostile.endless(FAILED, b"100\r\n" + b"x" * 256 + b"\r\n"),
        TooLarge,
    ),
    ("two lengths", hostile.fixed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), ProtocolError),
    (
        "length and chunks",
        hostile.fixed(BOTH),
        ProtocolError,
    ),
    ("no number of a length", hostile.fixed(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), ProtocolError),
    ("another protocol", hostile.fixed(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), ProtocolError),
    ("closed in a chunk", hostile.closing(CHUNKED + b"5\r\nab"), ConnectionError),
]


@pytest.mark.parametrize(("answer", "error"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
async def test_a_broken_answer_is_an_error_and_its_connection_not_used_again(
    server: CountedServer, answer: hostile.Answer, error: type[Exception]
) -> None:
    async with server.serving(answer) as made:
        for _ in range(2):
            with pytest.raises(error):
                await get(made)
    assert len(server.connections) == 2


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/ä", ""])
async def test_a_path_that_would_break_the_request_is_not_sent(server: CountedServer, path: str) -> None:
    async with server.serving(echo) as made:
        with pytest.raises(ProtocolError):
            await get(made, path)
        with pytest.raises(ProtocolError):
            await get(made, "/x", Accept="a\r\nX-Evil: 1")
    assert server.heads == []


async def test_after_a_renewal_no_call_gets_a_connection_that_was_in_use_or_idle_before(server: CountedServer) -> None:
    arrived, renewed = asyncio.Event(), asyncio.Event()

    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        if b"/slow" in head:
            arrived.set()
            await renewed.wait()
        await echo(reader, writer, head)

    async with server.serving(waits) as made:
        await get(made)
        slow = asyncio.create_task(get(made, "/slow"))
        await arrived.wait()
        assert len(server.connections) == 1
        made.renew()
        renewed.set()
        assert (await slow).data == b"/slow"
        await get(made)
        await get(made)
        assert len(server.connections) == 2
        made.renew()
        await get(made)
        assert len(server.connections) == 3
        assert len(made._open) == 1


async def test_closing_fails_what_is_under_way_and_leaves_nothing_open(server: CountedServer) -> None:
    async with server.serving(hostile.silent()) as made:
        task = asyncio.create_task(get(made))
        async with asyncio.timeout(30):
            while not server.heads:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.001)
        made.close()
        with pytest.raises(ConnectionError):
            await task
        assert not made._open


async def test_a_connection_that_idles_is_closed_without_being_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_IDLE_CONNECTION_SECONDS", 0.1)
    closed = asyncio.Event()

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await echo(reader, writer, head)
        await reader.read()
        closed.set()

    async with CountedServer().serving(answering) as made:
        await get(made)
        async with asyncio.timeout(60):
            await closed.wait()


async def test_what_a_cancelled_call_has_read_is_not_kept() -> None:
    arrived = asyncio.Event()

    def charge(_: int) -> None:
        arrived.set()

    async with CountedServer().serving(hostile.silent(CHUNKED + b"5\r\nabcde\r\n")) as made:
        asked = asyncio.create_task(made.ask("GET", "/x", {}, None, Bounds(100_000, 1_000, charge)))
        async with asyncio.timeout(60):
            await arrived.wait()
        (held,) = (connection._reading for connection in made._open)
        assert held is not None
        assert held.size == 5
        asked.cancel()
        await asyncio.wait([asked])
        assert (held.size, bytes(held.last)) == (0, b"")


async def test_what_came_of_an_answer_that_broke_off_is_not_kept() -> None:
    """The connection may be held for a while, and with it half an answer of many MiB."""
    arrived, broken = asyncio.Event(), asyncio.Event()

    def charge(_: int) -> None:
        arrived.set()

    async def breaking_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(CHUNKED + b"5\r\nabcde\r\n")
        await broken.wait()
        writer.transport.abort()

    async with CountedServer().serving(breaking_off) as made:
        asked = asyncio.create_task(made.ask("POST", "/x", {}, b"", Bounds(100_000, 1_000, charge)))
        async with asyncio.timeout(60):
            await arrived.wait()
        (held,) = (connection._reading for connection in made._open)
        assert held is not None
        assert held.size == 5
        broken.set()
        with pytest.raises(ConnectionError):
            await asked
        assert (held.size, bytes(held.last)) == (0, b"")
