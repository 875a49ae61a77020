"""Upgrades, spliced bytes and followed answers, against a TLS server that switches protocols, and a real one."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.kube import proxy
from bulkhead.kube.client import Client
from bulkhead.kube.errors import (
    ApiError,
    Forbidden,
    KubeError,
    NotFound,
    NotServed,
    ProtocolError,
    Timeout,
    TooLarge,
    Unavailable,
)
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import PODS
from tests.kit.hostileserver import Answer, endless, fixed, http, serving, silent
from tests.kit.pki import Authority
from tests.kit.syncerbed import until

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4\r\n\r\n"
WEBSOCKET = [("Upgrade", "websocket"), ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"), ("Authorization", "Bearer stolen")]
Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def client_of(config: KubeConfig, timeout: float = 60.0) -> Client:
    return Client(config, user_agent="tests", field_manager="tests", timeout=timeout)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    writer.write(SWITCH + head.replace(b"\r\n\r\n", b"\n"))
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    writer.write(b"bye")
    await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def tls_serving(answer: Answer, folder: Path) -> AsyncIterator[KubeConfig]:
    authority = Authority("test")
    cert, key = authority.issue("server", addresses=("127.0.0.1",))
    (folder / "s.pem").write_bytes(cert + key)
    (folder / "ca.pem").write_bytes(authority.pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "s.pem")
    context.verify_mode = ssl.CERT_REQUIRED

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await answer(reader, writer, await reader.readuntil(b"\r\n\r\n"))
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    client_cert, client_key = authority.issue("client")
    try:
        yield KubeConfig(
            server=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            ca=authority.pem,
            client_cert=client_cert,
            client_key=client_key,
            token="ours",
        )
    finally:
        server.close()


@contextlib.asynccontextmanager
async def socket_pair() -> AsyncIterator[tuple[Pipe, Pipe]]:
    """Two ends of one TCP connection."""
    accepted: asyncio.Future[Pipe] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda reader, writer: accepted.set_result((reader, writer)), "127.0.0.1", 0)
    near = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
    far = await accepted
    try:
        yield near, far
    finally:
        near[1].transport.abort()
        far[1].transport.abort()
        server.close()


async def test_an_upgrade_over_tls_with_our_own_credentials(tmp_path: Path) -> None:
    async with tls_serving(echo, tmp_path) as config, client_of(config) as client:
        connection = await client.upgrade("/exec", [("command", "a b"), ("command", "c")], WEBSOCKET)
        assert (connection.status, connection.head) == (101, SWITCH)
        assert ("X-Stream-Protocol-Version", "v4") in connection.headers
        sent = await connection.reader.readuntil(b"v5.channel.k8s.io\n")
        assert sent.startswith(b"GET /exec?command=a+b&command=c HTTP/1.1\r\n")
        assert b"Authorization: Bearer ours\r\n" in sent
        assert b"stolen" not in sent
        connection.writer.write(b"\x00binary\xff")
        assert await connection.reader.readexactly(8) == b"\x00binary\xff"
        await connection.close()


async def test_bytes_are_spliced_both_ways_with_back_pressure(tmp_path: Path) -> None:
    payload = bytes(range(256)) * 40_000
    async with tls_serving(echo, tmp_path) as config, client_of(config) as client, socket_pair() as (user, ours):
        connection = await client.upgrade("/exec", (), [("Upgrade", "SPDY/3.1")], method="POST")
        await connection.reader.readuntil(b"Content-Length: 0\n")
        task = asyncio.create_task(proxy.splice(ours, (connection.reader, connection.writer), linger=1.0))

        async def send() -> None:
            user[1].write(payload)
            await user[1].drain()

        sender = asyncio.create_task(send())
        # All has come back before this side ends, so nothing is left for the other one to send within `linger`.
        assert await user[0].readexactly(len(payload)) == payload
        await sender
        user[1].close()
        await asyncio.wait_for(task, 120)


async def test_nothing_passes_before_it_may(tmp_path: Path) -> None:
    asked: list[int] = []
    free = asyncio.Event()

    async def may_pass(size: int) -> None:
        asked.append(size)
        await free.wait()

    async with tls_serving(echo, tmp_path) as config, client_of(config) as client, socket_pair() as (user, ours):
        connection = await client.upgrade("/exec", (), [("Upgrade", "SPDY/3.1")], method="POST")
        await connection.reader.readuntil(b"Content-Length: 0\n")
        far = (connection.reader, connection.writer)
        task = asyncio.create_task(proxy.splice(ours, far, linger=1.0, may_pass=may_pass, piece=1000))
        user[1].write(b"x" * 5000)

        async def waits() -> bool:
            return asked == [1000]

        await until(waits, "the first piece to ask")
        free.set()
        assert await user[0].readexactly(5000) == b"x" * 5000
        assert sum(asked) == 10_000, "both ways"
        assert max(asked) <= 1000
        user[1].close()
        await asyncio.wait_for(task, 120)


async def test_the_end_of_a_tls_stream_survives_a_slow_reader(tmp_path: Path) -> None:
    """A source that closes right after its last byte, without TLS's goodbye, while this side has paused reading."""
    payload = bytes(range(256)) * 8_000

    async def burst(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.transport.set_write_buffer_limits(high=0)
        writer.write(SWITCH + payload)
        await writer.drain()

    async with tls_serving(burst, tmp_path) as config, client_of(config) as client, socket_pair() as (user, ours):
        connection = await client.upgrade("/exec", (), [("Upgrade", "SPDY/3.1")])
        task = asyncio.create_task(proxy.splice(ours, (connection.reader, connection.writer), linger=60.0))
        got = bytearray()
        while chunk := await user[0].read(16_384):
            got += chunk
            await asyncio.sleep(0.001)
        assert bytes(got) == payload
        user[1].close()
        await asyncio.wait_for(task, 120)


async def test_half_close_lets_the_answer_through() -> None:
    async with serving(echo) as config, client_of(config) as client, socket_pair() as (user, ours):
        connection = await client.upgrade("/attach", (), [("Upgrade", "x")])
        await connection.reader.readuntil(b"Upgrade: x\n")
        task = asyncio.create_task(proxy.splice(ours, (connection.reader, connection.writer), linger=30.0))
        user[1].write(b"last words")
        user[1].write_eof()
        assert await user[0].read() == b"last wordsbye"
        await asyncio.wait_for(task, 120)


async def test_an_idle_connection_is_closed() -> None:
    async with socket_pair() as (user, ours), socket_pair() as (upstream, far):
        await asyncio.wait_for(proxy.splice(ours, upstream, idle=0.1, linger=0.1), 30)
        assert await user[0].read() == b""
        assert await far[0].read() == b""


async def test_a_vanished_peer_ends_the_splice() -> None:
    async with socket_pair() as (user, ours), socket_pair() as (upstream, far):
        task = asyncio.create_task(proxy.splice(ours, upstream, linger=0.1))
        far[1].write(b"x")
        assert await user[0].readexactly(1) == b"x"
        far[1].transport.abort()
        await asyncio.wait_for(task, 120)


async def test_cancelling_a_splice_closes_both() -> None:
    async with socket_pair() as (user, ours), socket_pair() as (upstream, far):
        task = asyncio.create_task(proxy.splice(ours, upstream))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await user[0].read() == b""
        assert await far[0].read() == b""


STATUS = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no exec for you"}'
REFUSALS: list[tuple[str, Answer, type[KubeError]]] = [
    ("status", fixed(http("403 Forbidden", STATUS)), Forbidden),
    (
        "chunked status",
        fixed(b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(STATUS), STATUS)),
        Forbidden,
    ),
    ("broken chunk size", fixed(b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), NotServed),
    (
        "chunk line without end",
        endless(b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n", b"1" * 4096),
        NotServed,
    ),
    ("promised too much", silent(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 999999\r\n\r\nx"), Timeout),
    ("200 is not an upgrade", fixed(http("200 OK", b"hello")), ApiError),
    ("no http", fixed(b"SSH-2.0-x\r\n\r\n"), ProtocolError),
    ("endless head", endless(b"HTTP/1.1 101 OK\r\n", b"X: " + b"y" * 4096), TooLarge),
    ("silence", silent(), Timeout),
]


@pytest.mark.parametrize(("answer", "error"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
async def test_a_refused_upgrade_is_an_error(answer: Answer, error: type[KubeError]) -> None:
    timeout = 0.5 if error is Timeout else 60.0
    async with serving(answer) as config, client_of(config, timeout) as client:
        with pytest.raises(KubeError) as caught:
            await client.upgrade("/exec", (), WEBSOCKET)
    assert type(caught.value) is error, caught.value


async def test_closed_without_an_answer() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.close()

    async with serving(answer) as config, client_of(config) as client:
        with pytest.raises(Unavailable):
            await client.upgrade("/exec", (), WEBSOCKET)


@pytest.mark.parametrize("bad", ["x\r\nAuthorization: Bearer y", "x\ny", "x\0y"])
async def test_no_header_is_smuggled(bad: str) -> None:
    async with serving(echo) as config, client_of(config) as client:
        with pytest.raises(ProtocolError):
            await client.upgrade("/exec", (), [("Upgrade", bad)])
        with pytest.raises(ProtocolError):
            await client.upgrade(f"/exec{bad}", (), [("Upgrade", "x")])


async def test_a_real_server_refuses_what_it_cannot_do(host_client: Client, namespace: str) -> None:
    await host_client.create(
        PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, namespace
    )
    with pytest.raises(ApiError) as caught:
        await host_client.upgrade(f"/api/v1/namespaces/{namespace}/pods/p/exec", [("command", "sh")], WEBSOCKET)
    assert caught.value.status == 400
    assert "stdout" in caught.value.message or "must" in caught.value.message or "host" in caught.value.message
    with pytest.raises(NotFound):
        await host_client.stream(f"/api/v1/namespaces/{namespace}/pods/missing/log").__aenter__()


async def test_a_followed_answer_arrives_as_it_is_written() -> None:
    gate = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
        await gate.wait()
        writer.write(b"4\r\ntwo\n\r\n0\r\n\r\n")

    async with serving(answer) as config, client_of(config) as client:
        async with client.stream("/log", {"follow": "true"}) as stream:
            got = b""
            async for chunk in stream.chunks(idle=60):
                got += chunk
                gate.set()
        assert (stream.status, got) == (200, b"one\ntwo\n")


async def test_a_server_that_had_to_wait_goes_on_when_its_reader_asks_for_more() -> None:
    """A reader that takes its time over a chunk keeps that chunk, and not as much again."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * (1 << 16))
            await writer.drain()

    async with serving(answer) as config, client_of(config) as client, client.stream("/log") as stream:
        connection, chunks = stream.answer._connection, stream.chunks(idle=60)

        async def waits() -> bool:
            return connection._paused

        await until(waits, "the server to wait")
        taken = await anext(chunks)
        assert len(taken) > 1 << 18
        assert connection._paused, "it waits on while the chunk is in hand"
        assert await anext(chunks), "and goes on"


async def test_a_silent_stream_is_given_up() -> None:
    answer = silent(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    async with serving(answer) as config, client_of(config) as client, client.stream("/log") as stream:
        with pytest.raises(Timeout):
            await anext(stream.chunks(idle=0.1))
