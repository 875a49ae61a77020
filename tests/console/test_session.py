"""Which requests the console answers; each refusal alone, and the server over real sockets."""

import asyncio
import http.client
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from workstation.console.board import Board
from workstation.console.server import Console, QuestionError
from workstation.console.session import Asked, refusal

SECRET = "s3cret"
GOOD = {"method": "GET", "path": "/", "host": "127.0.0.1:8080", "origin": "", "site": "same-origin", "cookie": SECRET}


def judged(**changes: str) -> int:
    found = refusal(Asked(**(GOOD | changes)), SECRET)
    return 200 if found is None else found.status


@pytest.mark.parametrize(
    "changes",
    [{}, {"host": "localhost:9"}, {"host": "LOCALHOST"}, {"origin": "http://127.0.0.1:8080"}, {"site": ""}, {"site": "none"},
     {"method": "HEAD"}, {"path": "/enter", "cookie": ""}],
)  # fmt: skip
def test_the_page_of_the_session_is_answered(changes: dict[str, str]) -> None:
    assert judged(**changes) == 200


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"host": "rebound.example:8080"}, 421),
        ({"host": "127.0.0.1.example:8080"}, 421),
        ({"host": "localhost:8080@example"}, 421),
        ({"host": "127.0.0.1:"}, 421),
        ({"host": "127.0.0.1:\u0661"}, 421),
        ({"host": ""}, 421),
        ({"host": "[::1]:8080"}, 421),
        ({"method": "POST"}, 405),
        ({"method": "DELETE"}, 405),
        ({"method": "OPTIONS"}, 405),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8081"}, 403),
        ({"origin": "https://127.0.0.1:8080"}, 403),
        ({"site": "cross-site"}, 403),
        ({"site": "same-site"}, 403),
        ({"path": "/enter", "site": "cross-site"}, 403),
        ({"cookie": ""}, 403),
        ({"cookie": SECRET + "x"}, 403),
        ({"cookie": "\u00e9"}, 403),
    ],
)
def test_any_other_is_refused(changes: dict[str, str], status: int) -> None:
    assert judged(**changes) == status


def test_an_empty_secret_lets_no_request_in() -> None:
    assert refusal(Asked(**(GOOD | {"cookie": ""})), "") is not None


# -- over sockets


@pytest.fixture
async def console() -> AsyncIterator[Console]:
    async def broken(_: Mapping[str, str]) -> Any:
        raise QuestionError("no such <rack>")

    async def echo(parameters: Mapping[str, str]) -> Any:
        return dict(parameters)

    board = Board()
    board.put("picture", {"name": "</script>"})
    async with Console(board, {"broken": broken, "echo": echo}) as server:
        await server.start(0)
        yield server


async def ask(console: Console, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    def call() -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=30)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()

    return await asyncio.to_thread(call)


async def enter(console: Console) -> str:
    split = urlsplit(console.link)
    status, headers, _ = await ask(console, f"{split.path}?{split.query}")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert f"bulkhead-console-{console.port}=" in cookie
    return cookie.split(";")[0]


async def test_the_link_gives_one_session_and_works_once(console: Console) -> None:
    link = urlsplit(console.link)
    assert (await ask(console, "/"))[0] == 403
    assert (await ask(console, "/enter?token=wrong"))[0] == 403
    cookie = await enter(console)
    status, _, text = await ask(console, f"{link.path}?{link.query}")
    assert (status, "used before" in text) == (403, True)
    assert (await ask(console, "/enter?token="))[0] == 403
    assert (await ask(console, "/", Cookie=cookie))[0] == 200
    # The browser that used the link opens it again from its history.
    assert (await ask(console, f"{link.path}?{link.query}", Cookie=cookie))[0] == 303


async def test_answers_may_be_neither_framed_nor_stored_nor_read_elsewhere(console: Console) -> None:
    cookie = await enter(console)
    for path in ("/", "/nothing", "/api/echo?a=1", "/enter?token=wrong"):
        _, headers, _ = await ask(console, path, Cookie=cookie)
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert headers["server"] == "bulkhead"


async def test_questions_are_answered_as_json_that_no_page_takes_for_markup(console: Console) -> None:
    cookie = await enter(console)
    status, headers, text = await ask(console, "/api/echo?rack=%3Cb%3E", Cookie=cookie)
    assert (status, text) == (200, '{"answer":{"rack":"\\u003cb\\u003e"}}')
    assert headers["content-type"].startswith("application/json")
    assert (await ask(console, "/api/broken", Cookie=cookie))[2] == '{"error":"no such \\u003crack\\u003e"}'
    assert (await ask(console, "/api/none", Cookie=cookie))[0] == 404
    assert (await ask(console, "/api/echo?long=" + "x" * 2000, Cookie=cookie))[2] == '{"answer":{}}'
    assert (await ask(console, "/api/echo?long=" + "x" * 9000, Cookie=cookie))[0] == 400
    assert (await ask(console, "/api/echo", "POST", Cookie=cookie))[0] == 405
    assert (await ask(console, "/", Cookie=cookie, Host="evil.example"))[0] == 421


async def test_a_page_gets_the_newest_state_and_only_so_many_may_follow(console: Console) -> None:
    cookie = await enter(console)
    streams = []
    try:
        for _ in range(16):
            reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
            writer.write(f"GET /events HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode())
            assert b"event: picture" in await reader.readuntil(b"event: beat")
            streams.append((reader, writer))
        # One that is let in has no end: its first lines are read, and not more.
        reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
        streams.append((reader, writer))
        writer.write(f"GET /events HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode())
        assert b" 503 " in await reader.readline()
        assert b"16 pages" in await reader.readuntil(b"pages")
        for number in range(5):
            console._board.put("picture", {"number": number})
        read = await streams[0][0].readuntil(b"event: picture\ndata: ")
        assert b"event: picture" in read
        assert b'"number":4' in await streams[0][0].readline()
    finally:
        for _, writer in streams:
            writer.close()


async def test_an_equal_state_is_no_news() -> None:
    board = Board()
    board.put("a", {"x": 1})
    seen = {"a": board.news({})["a"][0]}
    board.put("a", {"x": 1})
    assert board.news(seen) == {}
    board.put("a", {"x": 2})
    assert board.news(seen)["a"][1] == b'{"x":2}'
    assert board.value("a") == {"x": 2}
    assert board.value("b") is None


async def test_a_stopped_server_ends_its_streams_at_once() -> None:
    server = Console(Board(), {})
    async with server:
        await server.start(0)
        cookie = await enter(server)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET /events HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode())
        await reader.readuntil(b"event: beat")
    async with asyncio.timeout(30):
        await reader.read()
    writer.close()
