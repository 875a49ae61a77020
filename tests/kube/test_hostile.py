"""What a hostile plane may answer, and the error that comes of it: bounded in time and memory, never a crash."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Forbidden, KubeError, ProtocolError, Throttled, Timeout, TooLarge, Unavailable
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import PODS
from tests.kit.background import background
from tests.kit.hostileserver import Answer, closing, endless, fixed, http, serving, silent, slow

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PAGE = b'{"metadata":{"resourceVersion":"1","continue":"more"},"items":[{"metadata":{"name":"p"}}]}'
STATUS = b'{"kind":"Status","code":%d,"reason":"%s","message":"m"}'


def client_of(config: KubeConfig, *, late: bool = False) -> Client:
    """With a deadline that is soon over only where that is what a test waits for."""
    timeout = 0.5 if late else 60.0
    return Client(config, user_agent="tests", field_manager="tests", timeout=timeout, max_body=100_000, max_list=200_000)


CALLS: list[tuple[str, Answer, type[KubeError]]] = [
    ("redirect", fixed(http("302 Found", b"", "Location: http://127.0.0.1:1/steal")), ProtocolError),
    ("garbage json", fixed(http("200 OK", b"{'no'")), ProtocolError),
    ("not utf-8", fixed(http("200 OK", b'"\xff\xfe"')), ProtocolError),
    ("a list for an object", fixed(http("200 OK", b"[]")), ProtocolError),
    ("null", fixed(http("200 OK", b"null")), ProtocolError),
    ("nothing", fixed(http("200 OK", b"")), ProtocolError),
    ("deep nesting", fixed(http("200 OK", b'{"a":' * 15_000)), ProtocolError),
    ("a huge number", fixed(http("200 OK", b"1" * 90_000)), ProtocolError),
    ("declared size", fixed(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), TooLarge),
    ("endless body", endless(CHUNKED, b"1000\r\n" + b"x" * 4096 + b"\r\n"), TooLarge),
    ("crumbs", fixed(CHUNKED + b"1\r\n \r\n" * 3000 + b"2\r\n{}\r\n0\r\n\r\n"), TooLarge),
    ("a large error", fixed(http("500 Error", b"x" * 150_000)), TooLarge),
    ("gzip", fixed(http("200 OK", gzip.compress(b"0" * 10_000_000), "Content-Encoding: gzip")), ProtocolError),
    ("no http", fixed(b"SSH-2.0-OpenSSH\r\n\r\n"), ProtocolError),
    ("endless head", endless(b"HTTP/1.1 200 OK\r\n", b"X-Pad: " + b"y" * 4096 + b"\r\n"), ProtocolError),
    ("head line without end", endless(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 4096), ProtocolError),
    ("slow loris", slow(http("200 OK", b"{}" + b" " * 1000)), Timeout),
    ("silence", silent(), Timeout),
    ("silence in the body", silent(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"), Timeout),
    ("closed in the body", closing(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"), Unavailable),
    ("closed at once", closing(b""), Unavailable),
    ("throttled", fixed(http("429 Too Many Requests", b"", "Retry-After: 7")), Throttled),
    ("unavailable", fixed(http("503 Service Unavailable", b"<html>", "Retry-After: 1e99")), Unavailable),
    ("forbidden", fixed(http("403 Forbidden", STATUS % (403, b"Forbidden"))), Forbidden),
    ("status of odd shape", fixed(http("500 Error", b'{"kind":"Status","code":"x","details":[1]}')), ApiError),
]


@pytest.mark.parametrize(("answer", "error"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS])
async def test_a_call(answer: Answer, error: type[KubeError]) -> None:
    async with serving(answer) as config, client_of(config, late=error is Timeout) as client:
        with pytest.raises(KubeError) as caught:
            await client.get(PODS, "p", "n")
    assert type(caught.value) is error
    assert "secret" not in str(caught.value)


async def test_retry_after_is_told_and_capped() -> None:
    for header, expected in (("7", 7.0), ("1e99", 16.0), ("-1", None), ("soon", None), ("nan", None), ("inf", 16.0)):
        answer = fixed(http("429 Too Many Requests", b"", f"Retry-After: {header}"))
        async with serving(answer) as config, client_of(config) as client:
            with pytest.raises(Throttled) as caught:
                await client.get(PODS, "p", "n")
        assert caught.value.retry_after == expected


LISTS: list[tuple[str, Answer, type[KubeError]]] = [
    ("endless pages", fixed(http("200 OK", PAGE)), TooLarge),
    ("endless empty pages", fixed(http("200 OK", b'{"metadata":{"continue":"more"},"items":null}')), TooLarge),
    ("big pages", fixed(http("200 OK", PAGE + b" " * 90_000)), TooLarge),
    ("items of odd shape", fixed(http("200 OK", b'{"metadata":{},"items":{"a":1}}')), ProtocolError),
    ("an item that is not an object", fixed(http("200 OK", b'{"metadata":{},"items":[1]}')), ProtocolError),
]


@pytest.mark.parametrize(("answer", "error"), [case[1:] for case in LISTS], ids=[case[0] for case in LISTS])
async def test_a_list(answer: Answer, error: type[KubeError]) -> None:
    async with serving(answer) as config, client_of(config) as client:
        with pytest.raises(error):
            await client.list(PODS)


async def test_a_continue_token_that_expires_starts_the_list_over() -> None:
    answers = [http("200 OK", PAGE), http("410 Gone", STATUS % (410, b"Expired")), http("200 OK", PAGE.replace(b"more", b""))]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(answers.pop(0))

    async with serving(answer) as config, client_of(config) as client:
        listed = await client.list(PODS)
    assert [each["metadata"]["name"] for each in listed.items] == ["p"]
    assert (listed.items[0]["kind"], listed.resource_version) == ("Pod", "1")


LINE = b'{"type":"ADDED","object":{"metadata":{"name":"p","resourceVersion":"2"}}}\n'
WATCHES: list[tuple[str, Answer, type[KubeError]]] = [
    ("line without end", endless(CHUNKED, b"1000\r\n" + b"x" * 4096 + b"\r\n"), TooLarge),
    ("silence", silent(CHUNKED), Timeout),
    ("no head", silent(), Timeout),
    ("garbage", fixed(CHUNKED + b"5\r\n{}{}\n\r\n"), ProtocolError),
    ("redirect", fixed(http("307 Temporary Redirect", b"", "Location: http://127.0.0.1:1/")), ProtocolError),
    ("broken chunks", fixed(CHUNKED + b"zz\r\n"), ProtocolError),
    ("refused", fixed(http("403 Forbidden", STATUS % (403, b"Forbidden"))), Forbidden),
    ("compressed", fixed(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx"), ProtocolError),
]


async def _all_of(watch: AsyncIterator[object]) -> None:
    async for _ in watch:
        pass


@pytest.mark.parametrize(("answer", "error"), [case[1:] for case in WATCHES], ids=[case[0] for case in WATCHES])
async def test_a_watch(answer: Answer, error: type[KubeError]) -> None:
    inactivity = 0.3 if error is Timeout else 60.0
    async with serving(answer) as config, client_of(config, late=error is Timeout) as client:
        watch = client.watch(PODS, resource_version="1", max_line=100_000, inactivity=inactivity)
        with pytest.raises(KubeError) as caught:
            await asyncio.wait_for(_all_of(watch), 60)
    assert type(caught.value) is error, caught.value


async def test_an_informer_survives_them_all(eventually: Callable[..., Awaitable[None]]) -> None:
    for _, answer, _ in [*CALLS, *LISTS, *WATCHES]:
        async with serving(answer) as config, client_of(config, late=True) as client:
            informer = Informer(client, PODS, max_bytes=50_000, inactivity=0.2)
            async with background(informer.run()) as task:
                await eventually(lambda informer=informer: informer.last_error is not None)
                assert not task.done()


GONE = http("410 Gone", STATUS % (410, b"Expired"))
CUT = CHUNKED + b"0\r\n\r\n"


@pytest.mark.parametrize("watch", [GONE, CUT, CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(LINE), LINE)])
async def test_a_server_that_ends_every_watch_at_once_does_not_keep_us_busy(
    watch: bytes, eventually: Callable[..., Awaitable[None]]
) -> None:
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        requests.append(head)
        listing = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
        writer.write(watch if b"watch=true" in head else http("200 OK", listing))

    async with serving(answer) as config, client_of(config) as client, background(Informer(client, PODS).run()):
        await eventually(lambda: len(requests) >= 2)
        await asyncio.sleep(1)
    # A loop without a pause makes hundreds.
    assert 2 <= len(requests) <= 12


async def test_bookmarks_move_the_version_and_a_silent_watch_is_not_a_failure(
    eventually: Callable[..., Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    watched: list[bytes] = []
    bookmark = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}\n'

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        version = 7 if watched else 5
        if b"watch=true" not in head:
            writer.write(http("200 OK", b'{"metadata":{"resourceVersion":"%d"},"items":[]}' % version))
            return
        watched.append(head)
        writer.write(CHUNKED + b"%x\r\n%s\r\n" % (len(bookmark), bookmark))

    changes: list[Change] = []
    async with serving(answer) as config, client_of(config) as client:
        informer = Informer(client, PODS, inactivity=1.0, on_change=changes.append)
        async with background(informer.run()):
            await eventually(lambda: len(watched) >= 3)
    assert [b"resourceVersion=5&" in watched[0], b"resourceVersion=7&" in watched[1]] == [True, True]
    assert (changes, informer.relists, informer.last_error, caplog.text) == ([], 1, None, "")


async def test_a_rolled_back_server_is_listed_again(eventually: Callable[..., Awaitable[None]]) -> None:
    # Restored from a backup: revision 9 was known, the server now stands at 4, and the object is no longer there.
    pages = [b'{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"p","uid":"u","resourceVersion":"8"}}]}']

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        if b"watch=true" not in head:
            writer.write(http("200 OK", pages[-1]))
            return
        pages.append(b'{"metadata":{"resourceVersion":"4"},"items":[]}')
        writer.write(CHUNKED)
        await reader.read()

    changes: list[Change] = []
    async with serving(answer) as config, client_of(config) as client:
        informer = Informer(client, PODS, inactivity=0.1, on_change=changes.append)
        async with background(informer.run()):
            await eventually(lambda: len(changes) == 2)
    assert [(change.kind, change.relist) for change in changes] == [("added", True), ("deleted", True)]


async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(fixed(http("200 OK", b'{"major":"1"}'))) as config, client_of(config) as client:
        assert await client.version() == {"major": "1"}


async def test_cookies_are_not_kept() -> None:
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        seen.append(head)
        writer.write(http("200 OK", b"{}", "Set-Cookie: a=b"))

    async with serving(answer) as config, client_of(config) as client:
        await client.version()
        await client.version()
    assert b"cookie" not in seen[1].lower()
    assert b"accept-encoding: identity" in seen[1].lower()
