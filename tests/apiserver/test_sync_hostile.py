"""A plane that turns hostile while its pods run: the syncer keeps within its memory and its budget, and the pods stay."""

import asyncio
import contextlib
import functools
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from controller.plane.budgets import BUDGETS
from syncer.translate.registry import KINDS
from tests.apiserver.syncerprocess import probe, resident_mib, running_syncer, tail, write_files
from tests.apiserver.tenancy import summed
from tests.apiserver.turncoat import Turncoat, turncoat
from tests.kit.hostileserver import Answer, closing, endless, fixed, http, silent, slow
from tests.kit.ports import free_port
from tests.kit.syncerbed import SyncerBed, until

CAP_MIB = BUDGETS["syncer"].memory_limit_mib  # beyond it the kernel would kill the process in its pod
MOST_WRITES = 20  # to the host in all phases together: what was asked for is the pods' own end, and nothing asks for it
PHASE_SECONDS = 90.0
# The syncer as it is, but that it tries a failed watch again after half a second at most, or a second where a server asks for
# more, not half a minute: it meets each behaviour more often, and the test waits for a fraction of the time.
EAGER = """
from bulkhead.kube import errors, informer
from syncer.__main__ import main
assert informer._FIRST_RETRY_SECONDS > 0.3 and informer._LONGEST_RETRY_SECONDS > 0.3 and errors.LONGEST_RETRY_AFTER_SECONDS > 1
informer._FIRST_RETRY_SECONDS = informer._LONGEST_RETRY_SECONDS = 0.3
errors.LONGEST_RETRY_AFTER_SECONDS = 1.0
raise SystemExit(main())
"""
MIB = 1024 * 1024

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def json_answer(body: bytes, *headers: str) -> bytes:
    return http("200 OK", body, "Content-Type: application/json", *headers)


@functools.cache
def bomb() -> bytes:
    """A hundred million zeros, which are never all in memory here."""
    squeezed = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return b"".join([*(squeezed.compress(b"0" * 1_000_000) for _ in range(100)), squeezed.flush()])


def late(data: Callable[[], bytes]) -> Answer:
    """A fixed answer that is computed when it is first asked for, not when tests are collected."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await fixed(data())(reader, writer, head)

    return answer


ITEM = b'{"metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"7","labels":{"x":"' + b"y" * 60_000 + b'"}}},'
EMPTY = b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%s"},"items":[]}'

# name -> what every request gets
BEHAVIOURS: dict[str, Answer] = {
    "a list without end": endless(CHUNKED + chunk(b'{"metadata":{"resourceVersion":"9"},"items":['), chunk(ITEM)),
    "a line without end": endless(CHUNKED, chunk(b"x" * 65_536)),
    "a gzip bomb": late(lambda: json_answer(bomb(), "Content-Encoding: gzip")),
    "slow loris": slow(json_answer(b" " * 10_000)),
    "redirects": fixed(http("307 Temporary Redirect", b"", "Location: https://127.0.0.1:1/steal")),
    "versions of garbage": fixed(json_answer(EMPTY % b"\\u0000garbage")),
    "an empty world from the future": fixed(json_answer(EMPTY % b"999999999999999999")),
    "closed at once": closing(b""),
    "silence": silent(),
    "waits of an eternity": fixed(http("429 Too Many Requests", b"", "Retry-After: 1e99")),
}
# What would fill a memory without bounds, and what never ends an answer: a client waits there for its own deadline.
ENDLESS = {"a list without end", "a line without end"}
STALLING = {"slow loris", "silence"}
# A syncer asks once for each kind that it watches, nodes and namespaces among them; a request beyond is one after an answer.
WATCHED = len(KINDS) + 2


@dataclass(slots=True)
class Watched:
    """The largest memory seen."""

    peak_mib: float = 0.0

    def look(self, pid: int) -> None:
        self.peak_mib = max(self.peak_mib, resident_mib(pid))

    async def sample(self, pid: int) -> None:
        while True:
            self.look(pid)
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def watched(pid: int) -> AsyncIterator[Watched]:
    found = Watched()
    task = asyncio.create_task(found.sample(pid))
    try:
        yield found
    finally:
        task.cancel()


async def host_writes(port: int) -> float:
    return summed((await probe(port, "/metrics"))[1], "bulkhead_syncer_host_writes_total")


async def meet(plane: Turncoat, name: str) -> None:
    """Play one behaviour until the syncer has asked again after an answer, or was sent more than it may hold."""
    plane.turn(BEHAVIOURS[name])
    asked = 3 if name in ENDLESS | STALLING else WATCHED + 3

    async def met() -> bool:
        return plane.asked >= asked and (name not in ENDLESS or plane.sent > CAP_MIB * MIB)

    await until(met, f"requests to a plane with {name}", PHASE_SECONDS)


async def test_a_plane_that_turns_hostile_costs_no_other_tenant_anything(
    host_client: Client, plane_client: Client, plane_config: KubeConfig, host_config: KubeConfig, tmp_path: Path
) -> None:
    with turncoat(plane_config, tmp_path) as (plane, config):
        async with SyncerBed.open(host_client, plane_client, start=False) as bed:
            port = free_port()
            arguments, log = write_files(tmp_path, bed, config, host_config, free_port()), tmp_path / "log"
            async with running_syncer(arguments, port, log, ("-c", EAGER)) as process, watched(process.pid) as memory:
                await bed.create(bed.pod("before"))

                async def mirrored() -> bool:
                    return len(await bed.host_pods()) == 1

                await until(mirrored, "host pod")
                (pod,) = await bed.host_pods()
                calm, writes = memory.peak_mib, await host_writes(port)

                for name in BEHAVIOURS:
                    await meet(plane, name)
                    assert process.returncode is None, f"{name}: {tail(log)}"
                    assert (await probe(port, "/livez"))[0] == 200, name
                    assert [found["metadata"]["uid"] for found in await bed.host_pods()] == [pod["metadata"]["uid"]], name
                    memory.look(process.pid)
                    assert memory.peak_mib < CAP_MIB, f"{name}: {memory.peak_mib:.0f} MiB, {calm:.0f} before"
                assert await host_writes(port) - writes <= MOST_WRITES

                plane.turn(None)
                await bed.create(bed.pod("after"))

                async def both() -> bool:
                    return len(await bed.host_pods()) == 2

                await until(both, "the pod that came after", 120)
                assert pod["metadata"]["uid"] in {found["metadata"]["uid"] for found in await bed.host_pods()}


async def test_the_turncoat_does_send_what_it_says(plane_config: KubeConfig, tmp_path: Path) -> None:
    """The positive control: a reader without bounds takes from it whatever it sends."""
    with turncoat(plane_config, tmp_path) as (plane, config):
        plane.turn(BEHAVIOURS["a line without end"])
        reader, writer = await asyncio.open_connection("127.0.0.1", plane.port, ssl=config.ssl_context())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        got = 0
        async with asyncio.timeout(120):
            while got < 64 * 1024 * 1024:
                got += len(await reader.read(1 << 20))
        writer.transport.abort()
