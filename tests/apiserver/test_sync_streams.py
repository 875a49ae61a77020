"""Logs without an end and large transfers through the real API servers of a plane and of the host: slow, whole, and in turns.

The syncer's kubelet and the node's are played at an address of this machine, because API servers proxy to no loopback address.
The node's kubelet writes numbered lines as fast as they are read. The test holds the clock by which the syncer waits.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bulkhead.kube.client import Client
from bulkhead.work.clock import SystemClock
from syncer import metrics
from syncer.kubelet.pace import PIECE_BYTES
from tests.kit.playedkubelet import SWITCHED, with_kubelet
from tests.kit.syncerbed import SyncerBed, until

MIB = 1 << 20
_LINE_BYTES = 64
_SPDY = (("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", "v5.channel.k8s.io"))
# Buffers of four servers and of the kernel between them, for one stream whose reader takes nothing.
_AHEAD_BYTES = 48 * MIB
# So often in a row nothing is written before a node counts as stopped; a look is a fifth of a second at the most.
_LOOKS = 10


def lines(first: int, number: int) -> bytes:
    return b"".join(b"%063d\n" % line for line in range(first, first + number))


def is_whole(data: bytes) -> bool:
    """Whether no line is missing, doubled or out of order; the last one may be incomplete."""
    return data == lines(0, len(data) // _LINE_BYTES + 1)[: len(data)]


class Held(SystemClock):
    """A clock that stands still until it is let go: streams wait by it. It notes for how long they were told to wait."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.waits: list[float] = []
        self._began = super().monotonic()

    def monotonic(self) -> float:
        return super().monotonic() if self.free.is_set() else self._began

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await self.free.wait()
        await super().sleep(seconds)


@dataclass
class Node:
    """A kubelet whose logs have no end, but for those of which the last lines are wanted; an exec says `exec_lines`.

    A log of the last ten seconds has ten lines, and no more come.
    """

    wrote: int = 0
    exec_lines: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            target = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[1]
            await (self._log(target, reader, writer) if target.startswith("/containerLogs/") else self._exec(writer))
        self.writers.discard(writer)
        writer.close()

    async def _log(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        if "tailLines=10" in target:
            last = lines(0, 10)
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))
            await writer.drain()
            return
        if "sinceSeconds=10" in target:  # a pod that says a little and then nothing
            part = lines(0, 10)
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await reader.read()
            return
        at = 0
        while True:
            part = lines(at, 1024)
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
            at += 1024
            self.wrote += len(part)

    async def _exec(self, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        writer.write(lines(0, self.exec_lines))
        await writer.drain()


@dataclass
class Bench:
    bed: SyncerBed
    node: Node
    plane: Client
    clock: Held

    def path(self, what: str) -> str:
        return f"/api/v1/namespaces/{self.bed.space}/pods/talker/{what}"

    async def read_log(self, got: bytearray, **how: str) -> None:
        async with self.plane.stream(self.path("log"), {"container": "main", **how}) as stream:
            async for chunk in stream.chunks():
                got += chunk

    async def stopped(self) -> None:
        """Wait until the node can write no more."""
        seen = [-1]

        async def same() -> bool:
            assert self.node.wrote < _AHEAD_BYTES, "the node writes on while the syncer waits"
            seen.append(self.node.wrote)
            return seen[-1] > 0 and len(set(seen[-_LOOKS:])) == 1

        await until(same, "the node to stop")


@pytest.fixture
async def bench(host_client: Client, plane_client: Client, tmp_path: Path) -> AsyncIterator[Bench]:
    """A tenant whose allowances are used up, with a running pod on a node whose kubelet is played."""
    node, clock = Node(), Held()
    async with with_kubelet(host_client, plane_client, tmp_path, node, "talker") as bed:
        assert bed.session is not None
        paces = bed.session.paces
        paces._clock = clock
        for allowance in (paces._logs, paces._sessions):
            allowance._burst = allowance._left = PIECE_BYTES
            allowance._at = clock.monotonic()
        yield Bench(bed, node, plane_client, clock)


async def test_a_log_that_is_too_fast_waits_at_the_node_and_loses_nothing(bench: Bench) -> None:
    got, throttled = bytearray(), metrics.KUBELET_THROTTLED.labels("logs")
    before = throttled._value.get()
    reading = asyncio.create_task(bench.read_log(got, follow="true"))
    await bench.stopped()
    assert len(got) <= PIECE_BYTES, "the rest waits at the syncer's host"
    bench.clock.free.set()

    async def all_that_waited() -> bool:
        assert not reading.done(), "the log goes on"
        return len(got) > bench.node.wrote // 2 and throttled._value.get() > before

    await until(all_that_waited, "what the node could write meanwhile")
    reading.cancel()
    assert is_whole(bytes(got))


async def test_a_short_log_waits_for_one_piece_of_each_flood(bench: Bench) -> None:
    floods = 6
    got = [bytearray() for _ in range(floods)]
    reading = [asyncio.create_task(bench.read_log(one, follow="true")) for one in got]

    async def all_wait() -> bool:
        return len(bench.clock.waits) >= floods

    # One that is still being opened has no turn, so they begin together.
    await until(all_wait, "each flood to wait for its turn")
    bench.clock.free.set()

    async def all_flow() -> bool:
        return all(len(one) > 8 * PIECE_BYTES for one in got)

    await until(all_flow, "floods")
    short = bytearray()
    await bench.read_log(short, tailLines="10")
    assert bytes(short) == lines(0, 10)
    rate = bench.bed.settings.log_bytes_per_second
    # A clock that wakes late adds nothing to it: what was reserved is what counts.
    assert max(bench.clock.waits) <= (floods + 1) * PIECE_BYTES / rate < 1
    assert min(map(len, got)) * 4 > max(map(len, got)), "the floods share what is there"
    for task in reading:
        task.cancel()


async def test_a_session_is_slow_and_whole_though_its_node_closes_first(bench: Bench) -> None:
    bench.node.exec_lines = 4 * MIB // _LINE_BYTES
    passed = metrics.KUBELET_BYTES.labels("sessions")
    before = passed._value.get()
    session = await bench.plane.upgrade(
        bench.path("exec"), [("command", "tar"), ("stdout", "true"), ("container", "main")], _SPDY, method="POST"
    )
    try:

        async def waiting() -> bool:
            return bool(bench.clock.waits)

        await until(waiting, "the session's first wait")
        bench.clock.free.set()
        got = await session.reader.read(-1)
        assert len(got) == 4 * MIB
        assert is_whole(got)
        # How many waited for it depends on the machine.
        assert passed._value.get() - before >= 4 * MIB, "every piece was paid for"
    finally:
        session.writer.transport.abort()


async def test_logs_of_a_silent_pod_hold_no_place_once_their_readers_have_gone(bench: Bench) -> None:
    bench.clock.free.set()
    for _ in range(3):
        got = [bytearray() for _ in range(8)]
        reading = [asyncio.create_task(bench.read_log(one, follow="true", sinceSeconds="10")) for one in got]

        async def all_read(got: list[bytearray] = got) -> bool:
            return all(bytes(one) == lines(0, 10) for one in got)

        await until(all_read, "all lines of the pod")
        assert metrics.KUBELET_STREAMS._value.get() == 8
        for task in reading:
            task.cancel()

        async def given_back() -> bool:
            return metrics.KUBELET_STREAMS._value.get() == 0 and not bench.node.writers

        await until(given_back, "the places of readers that have gone, also at the node")
