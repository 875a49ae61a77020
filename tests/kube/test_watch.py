"""One watch against a real API server, and the line splitter by its laws."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube.client import Client
from bulkhead.kube.errors import Gone, KubeError, ProtocolError, TooLarge, Unavailable
from bulkhead.kube.resources import CONFIG_MAPS
from bulkhead.kube.watch import LineSplitter, WatchEvent, parse_line
from tests.kit.servers import ApiServer

pytestmark = pytest.mark.client


async def collect(client: Client, namespace: str, version: str, number: int) -> list[WatchEvent]:
    """So many changes."""
    found: list[WatchEvent] = []
    events = client.watch(CONFIG_MAPS, namespace, resource_version=version, timeout_seconds=60)
    async with contextlib.aclosing(events):
        async for event in events:
            found += [] if event.type == "BOOKMARK" else [event]
            if len(found) == number:
                break
    return found


async def test_events_in_order_with_lazy_bodies(host_client: Client, namespace: str) -> None:
    version = (await host_client.list(CONFIG_MAPS, namespace)).resource_version
    await host_client.create(CONFIG_MAPS, {"metadata": {"name": "m", "labels": {"l": "1"}}, "data": {"x": "1"}}, namespace)
    await host_client.patch(CONFIG_MAPS, "m", {"data": {"x": "2"}}, namespace)
    await host_client.delete(CONFIG_MAPS, "m", namespace)
    changes = await collect(host_client, namespace, version, 3)
    assert [event.type for event in changes] == ["ADDED", "MODIFIED", "DELETED"]
    assert [event.object()["data"]["x"] for event in changes] == ["1", "2", "2"]
    assert {(event.key, event.meta.label("l")) for event in changes} == {((namespace, "m"), "1")}


async def test_metadata_only(host_client: Client, namespace: str) -> None:
    await host_client.create(CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"x": "y" * 1000}}, namespace)
    events = host_client.watch(CONFIG_MAPS, namespace, resource_version="0", timeout_seconds=60, metadata_only=True)
    async with contextlib.aclosing(events):
        async for event in events:
            assert event.object()["kind"] == "PartialObjectMetadata"
            assert "data" not in event.object()
            return
    pytest.fail("no event")


async def test_a_compacted_version_is_gone(own_server: ApiServer) -> None:
    async with Client(own_server.admin, user_agent="tests", field_manager="tests") as client:
        old = (await client.list(CONFIG_MAPS, "default")).resource_version
        for number in range(5):
            await client.create(CONFIG_MAPS, {"metadata": {"name": f"m{number}"}}, "default")
        own_server.compact()
        # The API server's own window of events would still hide the compaction.
        own_server.kill("kube-apiserver")
        own_server.start()
        await asyncio.to_thread(own_server.wait)
        with pytest.raises(Gone):
            await collect(client, "default", old, 1)


async def test_a_server_killed_in_the_middle(
    own_server: ApiServer, eventually: Callable[[Callable[[], object]], Awaitable[None]]
) -> None:
    failures: list[KubeError] = []
    started = asyncio.Event()

    async def follow(client: Client) -> None:
        try:
            events = client.watch(CONFIG_MAPS, resource_version="0", timeout_seconds=60)
            async with contextlib.aclosing(events):
                async for _ in events:
                    started.set()
        except KubeError as error:
            failures.append(error)

    async with Client(own_server.admin, user_agent="tests", field_manager="tests") as client:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, "default")
        task = asyncio.create_task(follow(client))
        await asyncio.wait_for(started.wait(), 60)
        own_server.kill("kube-apiserver")
        await eventually(task.done)
    # A killed server may close the stream in an orderly way; anything else is Unavailable.
    assert all(isinstance(error, Unavailable) for error in failures)


@given(st.lists(st.binary(max_size=30)), st.data())
def test_lines_survive_any_chunking(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line.replace(b"\n", b" ") + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    splitter = LineSplitter()
    got: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        got += splitter.feed(whole[start:end])
    assert got == [line.replace(b"\n", b" ") for line in lines if line]


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1))
def test_memory_of_the_splitter_is_bounded(chunks: list[bytes]) -> None:
    splitter = LineSplitter(max_line=64)
    with contextlib.suppress(TooLarge):
        for chunk in chunks:
            splitter.feed(chunk)
            assert len(splitter._rest) <= 64


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"\xff",
        b'{"type":"ADDED"}',
        b'{"type":1,"object":{}}',
        b'{"type":"ADDED","object":[]}',
        b'{"type":"ADDED","object":{"metadata":[]}}',
        b'{"type":"ADDED","object":{"metadata":{"labels":{"a":1}}}}',
        b'{"type":"EXPLODED","object":{}}',
        b'{"type":"ADDED","object":' + b"[" * 100_000,
        b'{"type":"ADDED","object":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    ],
)
def test_garbage_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_line(line)


def test_an_error_event_is_the_error() -> None:
    with pytest.raises(Gone):
        parse_line(b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}')
