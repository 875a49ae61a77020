"""Many execs at once, through the real API servers of a plane and of the host: a bound that is told, and places that come back.

The syncer's kubelet and the node's are played at an address of this machine, because API servers proxy to no loopback address.
The node's kubelet accepts every exec and then says nothing.
"""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.keepalive import keep_alive
from bulkhead.kube.proxy import RawConnection
from bulkhead.kube.websocket import Messages
from syncer.kubelet import server
from tests.kit.playedkubelet import SWITCHED, with_kubelet
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.vanishing import deafen, hear, hurry, noticed_after, under_way

_SPDY = (("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", "v5.channel.k8s.io"))
_WEBSOCKET = (
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "Y2hhb3MtY2hhb3MtY2hhbw=="),
    ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"),
)
_ERROR_CHANNEL = 3
# Fewer than a syncer has: API servers end a session after 30 s whose node says nothing.
PLACES = 6


@dataclass
class Node:
    """A kubelet that accepts each upgrade."""

    open: int = 0
    most: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.open += 1
        self.most = max(self.most, self.open)
        self.writers.add(writer)
        try:
            writer.write(SWITCHED)
            while await reader.read(1 << 14):
                pass
        except OSError:
            pass
        finally:
            self.open -= 1
            self.writers.discard(writer)
            writer.close()


@dataclass
class Bench:
    bed: SyncerBed
    node: Node

    async def exec(self, client: Client, pod: str = "crowd", how: Iterable[tuple[str, str]] = _WEBSOCKET) -> RawConnection:
        path = f"/api/v1/namespaces/{self.bed.space}/pods/{pod}/exec"
        params = [("command", "sleep"), ("stdout", "true"), ("container", "main")]
        return await client.upgrade(path, params, how, method="POST" if how is _SPDY else "GET")


@pytest.fixture
async def bench(host_client: Client, plane_client: Client, tmp_path: Path) -> AsyncIterator[Bench]:
    """A tenant with a running pod on a node whose kubelet is played."""
    node = Node()
    async with with_kubelet(host_client, plane_client, tmp_path, node, "crowd") as bed:
        assert bed.session is not None
        bed.session.kubelet._limit = PLACES
        yield Bench(bed, node)


async def told(connection: RawConnection, seconds: float) -> dict[str, object]:
    """What an API server says of an exec that has ended or was refused; empty if it goes on for so long."""
    came = Messages()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while data := await connection.reader.read(1 << 14):
                for _, content in came.feed(data):
                    if content[:1] == bytes([_ERROR_CHANNEL]):
                        found: dict[str, object] = json.loads(content[1:])
                        return found
    return {}


async def test_the_session_beyond_the_bound_is_told_429_and_its_place_comes_back(bench: Bench, plane_client: Client) -> None:
    opened: list[RawConnection] = []
    try:
        opened += await asyncio.gather(*(bench.exec(plane_client) for _ in range(PLACES)))

        async def full() -> bool:
            return bench.node.open == PLACES

        await until(full, f"{PLACES} execs at the node")
        late = await bench.exec(plane_client)
        answer = await told(late, 20)
        await late.close()
        assert f"too many sessions (429): {PLACES} of this tenant are open" in str(answer.get("message")), answer
        with pytest.raises(ApiError) as refused:
            await bench.exec(plane_client, how=_SPDY)
        assert (refused.value.status, refused.value.reason) == (429, "TooManyRequests")
        assert bench.node.open == PLACES, "the others go on, and the host was not asked"
        next(iter(bench.node.writers)).transport.abort()

        async def freed() -> bool:
            return bench.bed.session is not None and bench.bed.session.kubelet._streams < PLACES

        await until(freed, "the place of an exec that has ended")
        again = await bench.exec(plane_client)
        opened.append(again)
        await until(full, "the next exec at the node")
        assert bench.node.most == PLACES
    finally:
        for connection in opened:
            connection.writer.transport.abort()


async def test_what_is_not_there_is_told_in_words_and_with_its_status(bench: Bench, plane_client: Client) -> None:
    name = f"absent-{secrets.token_hex(2)}"
    await bench.bed.create(bench.bed.pod(name))
    with pytest.raises(ApiError) as refused:
        await bench.exec(plane_client, name)
    assert refused.value.status == 400, "a pod without a node has no exec"
    assert bench.bed.session is not None
    bench.bed.session.kubelet._lookup = lambda _key: None
    answer = await told(await bench.exec(plane_client), 20)
    assert "crowd: not on a node" in str(answer.get("message")), answer
    with pytest.raises(ApiError) as absent:
        await bench.exec(plane_client, how=_SPDY)
    assert absent.value.status == 404


async def test_a_session_whose_api_server_has_vanished_gives_its_place_back(
    bench: Bench, plane_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.bed.session is not None
    kubelet = bench.bed.session.kubelet
    callers: list[asyncio.BaseTransport] = []

    def noted(transport: asyncio.BaseTransport) -> None:
        keep_alive(transport)
        callers.append(transport)

    monkeypatch.setattr(server, "keep_alive", noted)
    session = await bench.exec(plane_client)

    async def open_and_told() -> bool:
        return bench.node.open == 1 and bool(callers) and not under_way(callers[0])

    await until(open_and_told, "a session")
    (caller,) = callers
    assert 0 < noticed_after(caller) <= 30
    hurry(caller)
    deafen(caller)

    async def none() -> bool:
        # On a busy machine its first bytes may still come: while they are under way, the kernel repeats them and does not ask.
        if kubelet._streams and not caller.is_closing():
            (hear if under_way(caller) else deafen)(caller)
        return kubelet._streams == 0

    # API servers give up on a node that says nothing after 30 s, which would not show here: their end does not arrive.
    await until(none, "its place", 25)
    session.writer.transport.abort()
