"""What JSON codecs, event loops and kinds of writes cost: `python -m e2e.performance.client_stack`.

It needs neither root nor the embedded host: it starts its own etcd and kube-apiserver. Libraries that are not dependencies
(orjson, uvloop) are measured if they are installed, and otherwise reported as missing. Time is CPU time of this process and of
the API server, so a busy machine changes the figures little; of several rounds the smallest counts. It uses the platform's
client, which is what it measures, and judges nothing.

    codecs: events and bodies in memory ── loops and clients: GET and POST on a real server ── writes: POST, PUT, patch, apply
    ──> build/results/client-stack.json and tables for docs/decisions/0016-client-stack.md
"""

import argparse
import asyncio
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube import codec, watch
from bulkhead.kube.client import Client
from bulkhead.kube.resources import NAMESPACES, PODS
from e2e import machine
from e2e.performance import pods
from tests.kit.servers import ApiServer

RESULTS = machine.RESULTS / "client-stack.json"
SPACE = "stack"
_AT_ONCE = 16
_TICK_MS = 10.0
_PLAIN = {"Accept": "application/json", "Accept-Encoding": "identity"}

Table = dict[str, dict[str, float]]


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def best_us(call: Callable[[], object], *, calls: int, rounds: int = 5) -> float:
    """Microseconds of CPU for each call; the smallest of several rounds."""
    least = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(calls):
            call()
        least = min(least, time.process_time() - begin)
    return round(least / calls * 1e6, 2)


def codecs(event: bytes, body: Obj, calls: int) -> tuple[Table, list[str]]:
    """Each way to read one watch event and to write one pod."""
    readers: dict[str, Callable[[], object]] = {
        "json": lambda: json.loads(event),
        "msgspec": lambda: msgspec.json.decode(event),
        "msgspec, metadata only": lambda: watch.parse_line(event),
        "msgspec, metadata and body without managedFields": lambda: codec.compact(watch.parse_line(event).raw),
    }
    writers: dict[str, Callable[[], object]] = {
        "json": lambda: json.dumps(body).encode(),
        "msgspec": lambda: msgspec.json.encode(body),
    }
    missing = []
    orjson = _library("orjson")
    if orjson is None:
        missing.append("orjson")
    else:
        readers["orjson"] = lambda: orjson.loads(event)
        writers["orjson"] = lambda: orjson.dumps(body)
    read = {name: best_us(call, calls=calls) for name, call in readers.items()}
    write = {name: best_us(call, calls=calls) for name, call in writers.items()}
    return {"read_event_us": read, "write_pod_us": write}, missing


class Stage:
    """One client on one server, and how the CPU time of both is taken."""

    def __init__(self, server: ApiServer, client: Client) -> None:
        self.server = server
        self.client = client

    async def cost(self, call: Callable[[int], Awaitable[object]], count: int) -> dict[str, float]:
        """CPU of both sides for each of `count` calls, sixteen at a time."""
        waiting = iter(range(count))

        async def worker() -> None:
            for number in waiting:
                await call(number)

        ours, theirs, begin = time.process_time(), self._server_ms(), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(worker())
        seconds = time.monotonic() - begin
        return {
            "client_ms": round((time.process_time() - ours) * 1e3 / count, 3),
            "server_ms": round((self._server_ms() - theirs) / count, 3),
            "per_s": round(count / seconds, 1),
        }

    def _server_ms(self) -> float:
        return machine.cpu_ticks(self.server.pid("kube-apiserver")) * _TICK_MS


async def requests(server: ApiServer, count: int) -> Table:
    """Reads and creations on whatever loop runs this."""
    async with _client(server) as client:
        stage = Stage(server, client)
        await _fresh(client)
        await client.create(PODS, pods.pod("one", SPACE))
        await stage.cost(lambda _: client.get(PODS, "one", SPACE), 200)
        read = await stage.cost(lambda _: client.get(PODS, "one", SPACE), count)
        made = await stage.cost(lambda number: client.create(PODS, pods.pod(f"p-{number}", SPACE)), count)
        return {"get": read, "post": made}


async def by_aiohttp(server: ApiServer, count: int) -> Table:
    """The same reads and creations with aiohttp, which the client's own connections replaced, with the same codec."""
    one, all_ = (f"{server.admin.server}{PODS.path(SPACE, *name)}" for name in (("one",), ()))
    connector = aiohttp.TCPConnector(limit=32, ssl=server.admin.ssl_context() or True)
    async with _client(server) as client, aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        stage = Stage(server, client)
        await _fresh(client)
        await client.create(PODS, pods.pod("one", SPACE))

        async def get(_: int) -> None:
            async with session.get(one, headers=_PLAIN) as answer:
                codec.decode_obj(await answer.read())

        async def post(number: int) -> None:
            body = codec.encode(pods.pod(f"p-{number}", SPACE))
            async with session.post(all_, data=body, headers=_PLAIN | {"Content-Type": "application/json"}) as answer:
                codec.decode_obj(await answer.read())

        await stage.cost(get, 200)
        return {"get": await stage.cost(get, count), "post": await stage.cost(post, count)}


async def writes(server: ApiServer, count: int) -> Table:
    """The ways to create an object and to change its labels."""
    async with _client(server) as client:
        stage = Stage(server, client)
        await _fresh(client)
        found: Table = {}

        def mine(name: str, number: int, turn: str) -> Obj:
            pod = pods.pod(f"{name}-{number}", SPACE)
            pod["metadata"]["labels"] = pod["metadata"].get("labels", {}) | {"turn": turn}
            return pod

        held: dict[int, Obj] = {}

        async def post(number: int) -> None:
            held[number] = await client.create(PODS, mine("post", number, "one"))

        async def put(number: int) -> None:
            held[number]["metadata"]["labels"]["turn"] = "two"
            await client.replace(PODS, held[number])

        async def merge(number: int) -> None:
            await client.patch(PODS, f"post-{number}", {"metadata": {"labels": {"turn": "three"}}}, SPACE)

        found["make: POST"] = await stage.cost(post, count)
        found["make: apply"] = await stage.cost(lambda number: client.apply(PODS, mine("apply", number, "one")), count)
        found["change: PUT of what was read"] = await stage.cost(put, count)
        found["change: merge patch"] = await stage.cost(merge, count)
        found["change: apply"] = await stage.cost(lambda number: client.apply(PODS, mine("apply", number, "two")), count)
        found["no change: apply"] = await stage.cost(lambda number: client.apply(PODS, mine("apply", number, "two")), count)
        return found


def _client(server: ApiServer) -> Client:
    return Client(server.admin, user_agent="bulkhead-bench", field_manager="bulkhead-bench")


async def _fresh(client: Client) -> None:
    """An empty namespace."""
    await client.apply(NAMESPACES, {"metadata": {"name": SPACE}})
    for pod in (await client.list(PODS, SPACE)).items:
        await client.delete(PODS, pod["metadata"]["name"], SPACE, grace_seconds=0)


async def sample_event(server: ApiServer) -> bytes:
    """A watch event of a pod as the server sends it, including managed fields and status."""
    async with _client(server) as client:
        await _fresh(client)
        made = await client.create(PODS, pods.pod("sample", SPACE))
        await client.patch(PODS, "sample", {"status": pods.RUNNING}, SPACE, subresource="status")
        version = made["metadata"]["resourceVersion"]
        async for event in client.watch(PODS, SPACE, resource_version=version):
            return msgspec.json.encode({"type": event.type, "object": msgspec.Raw(bytes(event.raw))})
    raise RuntimeError("watch of one pod: ended without an event")


def measure(server: ApiServer, count: int, calls: int) -> dict[str, Any]:
    """Everything, one after the other."""
    event = asyncio.run(sample_event(server))
    table, missing = codecs(event, pods.pod("p", SPACE), calls)
    loops: dict[str, Table] = {"asyncio": asyncio.run(requests(server, count))}
    loops["asyncio, aiohttp"] = asyncio.run(by_aiohttp(server, count))
    uvloop = _library("uvloop")
    if uvloop is None:
        missing.append("uvloop")
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            loops["uvloop"] = runner.run(requests(server, count))
    kinds = asyncio.run(writes(server, count))
    return {"event_bytes": len(event), "codecs": table, "loops": loops, "writes": kinds, "not_installed": missing}


def as_text(result: dict[str, Any]) -> str:
    """The printed tables, in the form that the decision record uses."""
    lines = [f"One watch event of {result['event_bytes']} bytes; microseconds of CPU", "", "| codec | read | write a pod |"]
    lines.append("| --- | --- | --- |")
    read, write = result["codecs"]["read_event_us"], result["codecs"]["write_pod_us"]
    lines += [f"| {name} | {read[name]:.1f} | {_number(write.get(name))} |" for name in sorted(read, key=read.__getitem__)]
    head = ["", "| | client CPU ms | server CPU ms | a second |", "| --- | --- | --- | --- |"]
    lines += head
    for loop, table in result["loops"].items():
        lines += [_row(f"{loop} {verb.upper()}", cost) for verb, cost in table.items()]
    lines += head
    lines += [_row(name, cost) for name, cost in result["writes"].items()]
    if result["not_installed"]:
        lines += ["", f"Not installed here and so not measured: {', '.join(result['not_installed'])}."]
    return "\n".join(lines)


def _row(name: str, cost: dict[str, float]) -> str:
    return f"| {name} | {cost['client_ms']:.2f} | {cost['server_ms']:.2f} | {cost['per_s']:.0f} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.client_stack", description="What a client's parts cost.")
    parser.add_argument("--requests", type=int, default=500, help="calls of each kind on the server")
    parser.add_argument("--calls", type=int, default=2000, help="calls of each codec")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bulkhead-stack-") as folder:
        server = ApiServer("stack", Path(folder))
        try:
            server.start()
            server.wait()
            result = measure(server, chosen.requests, chosen.calls)
        finally:
            server.stop()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(as_text(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
