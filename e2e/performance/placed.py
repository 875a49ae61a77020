"""What it costs to note on the host that it has placed a pod: `python -m e2e.performance.placed`.

It needs neither root nor the embedded host: it starts its own etcd and kube-apiserver. The syncer's `PlacedPods` notes invented
UIDs, once as sixteen workers do in a burst of pods, and once one pod after another. Time is CPU time of this process, of the
API server and of etcd, less what they take while nothing happens. The control is one merge patch of a pod's status for each
pod, as a kubelet sends them. It judges nothing.

    control: patches of pods ── burst: 16 at a time ── one after another ──> build/results/placed.json and a table
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube.client import MERGE_PATCH, Client
from bulkhead.kube.resources import NAMESPACES, PODS
from bulkhead.work.clock import SystemClock
from e2e import machine
from e2e.performance import pods
from syncer.write.budget import WriteBudget
from syncer.write.identity import PlaneIdentity
from syncer.write.placed import PlacedPods
from tests.kit.servers import ApiServer

RESULTS: Final = machine.RESULTS / "placed.json"
SPACE: Final = "bh-placed"
_AT_ONCE: Final = 16
_TICK_MS: Final = 10.0
_IDLE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU time in milliseconds."""

    client: float
    apiserver: float
    etcd: float

    def less(self, other: "Spent", times: float = 1.0) -> "Spent":
        return Spent(
            self.client - other.client * times, self.apiserver - other.apiserver * times, self.etcd - other.etcd * times
        )


class Counting(WriteBudget):
    """A budget without limits that counts writes and their bytes."""

    def __init__(self) -> None:
        super().__init__(SystemClock(), rate=1e9, burst=1e9, byte_rate=1e12, byte_burst=1e12)
        self.writes = 0
        self.bytes = 0

    async def take(self, *, urgent: bool = False) -> None:  # noqa: ARG002 -- no write waits here
        self.writes += 1

    def spend(self, size: int) -> None:
        self.bytes += size


class Bench:
    """All parts, on one API server."""

    def __init__(self, server: ApiServer, client: Client, number: int) -> None:
        self._server = server
        self._client = client
        self._number = number
        self._idle = Spent(0.0, 0.0, 0.0)
        # The pods of the plane, so that the record asks it about none.
        self._there: set[str] = set()

    def _spent(self) -> Spent:
        ticks = (machine.cpu_ticks(self._server.pid(name)) for name in ("kube-apiserver", "etcd"))
        return Spent(time.process_time() * 1000, *(tick * _TICK_MS for tick in ticks))

    async def run(self) -> dict[str, dict[str, float]]:
        await self._client.create(NAMESPACES, {"metadata": {"name": SPACE}})
        await self._rest()
        return {
            "a patch of a pod's status (control)": await self._control(),
            "16 at a time": await self._noted(_AT_ONCE),
            "one after another": await self._noted(1),
        }

    async def _rest(self) -> None:
        """Measure what the servers take while nothing happens, in a second."""
        before = self._spent()
        await asyncio.sleep(_IDLE_SECONDS)
        taken = self._spent().less(before)
        self._idle = Spent(0.0, taken.apiserver / _IDLE_SECONDS, taken.etcd / _IDLE_SECONDS)

    async def _control(self) -> dict[str, float]:
        names = [f"p{number}" for number in range(self._number)]

        async def create(name: str) -> None:
            await self._client.create(PODS, pods.pod(name, SPACE))

        async def patch(name: str) -> None:
            status: Obj = {"status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}
            await self._client.patch(PODS, name, status, SPACE, subresource="status", content_type=MERGE_PATCH)

        await each(names, create, _AT_ONCE)
        return await self._measured(names, patch, _AT_ONCE)

    async def _noted(self, at_once: int) -> dict[str, float]:
        """A syncer that has just started, with as many pods in its record as the part before left."""
        budget = Counting()
        identity = PlaneIdentity(self._client, self._client, SPACE, SystemClock())
        uids = [str(uuid.uuid4()) for _ in range(self._number)]
        self._there.update(uids)
        placed = PlacedPods(self._client, self._client, SPACE, budget=budget, identity=identity, cached=lambda: self._there)
        await placed.load()
        found = await self._measured(uids, placed.note, at_once)
        return found | {"writes": round(budget.writes / self._number, 3), "bytes": round(budget.bytes / self._number)}

    async def _measured(self, items: list[str], work: Callable[[str], Awaitable[None]], at_once: int) -> dict[str, float]:
        before, begin = self._spent(), time.monotonic()
        await each(items, work, at_once)
        seconds = time.monotonic() - begin
        spent = self._spent().less(before).less(self._idle, seconds)
        number = len(items)
        return {
            "syncer_ms": round(spent.client / number, 3),
            "apiserver_ms": round(spent.apiserver / number, 3),
            "etcd_ms": round(spent.etcd / number, 3),
            "pods_per_s": round(number / seconds, 1),
        }


async def each(items: list[str], work: Callable[[str], Awaitable[None]], at_once: int) -> None:
    """Do `work` for all items, a few at a time."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


async def measure(folder: Path, number: int) -> dict[str, dict[str, float]]:
    """Start a server, and measure on it."""
    server = ApiServer("placed", folder)
    try:
        server.start()
        await asyncio.to_thread(server.wait)
        async with Client(server.admin, user_agent="bench", field_manager="bench") as client:
            return await Bench(server, client, number).run()
    finally:
        server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.placed", description="The cost of the record of placed pods.")
    parser.add_argument("--pods", type=int, default=2000)
    chosen = parser.parse_args()
    print(f"notes of {chosen.pods} pods, about half a minute", flush=True)
    with tempfile.TemporaryDirectory(prefix="bulkhead-bench-") as folder:
        found = asyncio.run(measure(Path(folder), chosen.pods))
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(table(found), f"\n{RESULTS}", sep="")
    return 0


def table(found: dict[str, dict[str, float]]) -> str:
    """The figures for a pod, as Markdown."""
    columns = ("syncer_ms", "apiserver_ms", "etcd_ms", "writes", "bytes", "pods_per_s")
    lines = [f"| | {' | '.join(columns)} |", f"|{' --- |' * (len(columns) + 1)}"]
    lines += [f"| {name} | {' | '.join(str(row.get(column, '')) for column in columns)} |" for name, row in found.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
