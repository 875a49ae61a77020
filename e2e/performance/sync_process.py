"""A tenant's syncer seen from outside: CPU time and memory from /proc, metrics through the host's API, and its restart.

It changes nothing, except that `restart` kills the process as a crash would.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.resources import PODS
from e2e import machine
from e2e.machine import Process
from e2e.performance.sync_figures import counters

_TICKS = os.sysconf("SC_CLK_TCK")
_SELECTOR = "bulkhead.dev/component=syncer"


class SyncerError(RuntimeError):
    """The syncer is not where it should be; the text says which."""


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds so far and resident memory of one process."""

    pid: int
    cpu_s: float
    rss_mib: float


def spent_s(before: Usage, after: Usage) -> float:
    """CPU seconds between two measurements; an error if they are of two processes."""
    if before.pid != after.pid:
        raise SyncerError(f"syncer: process {before.pid} was replaced by {after.pid} while it was measured")
    return after.cpu_s - before.cpu_s


class Syncer:
    """The syncer of one tenant."""

    def __init__(self, host: Client, tenant: str) -> None:
        self.tenant = tenant
        self._host = host
        self._namespace = names.plane_namespace(tenant)

    async def _pod(self) -> Obj:
        found = (await self._host.list(PODS, self._namespace, label_selector=_SELECTOR)).items
        alive = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
        if len(alive) != 1:
            raise SyncerError(f"tenant {self.tenant}: {len(alive)} syncer pods, expected one")
        return alive[0]

    async def process(self) -> Process:
        uid = (await self._pod())["metadata"]["uid"]
        found = [one for one in machine.processes_of_pod(uid) if one.program.startswith("python")]
        if not found:
            raise SyncerError(f"tenant {self.tenant}: no syncer process in its pod")
        return found[0]

    async def usage(self) -> Usage:
        pid = (await self.process()).pid
        return Usage(pid, machine.cpu_ticks(pid) / _TICKS, machine.rss_kib(pid) / 1024.0)

    async def metrics(self) -> dict[str, float]:
        return counters((await self._get("metrics")).decode())

    async def _get(self, path: str) -> bytes:
        name = (await self._pod())["metadata"]["name"]
        return await self._host.get_raw(f"/api/v1/namespaces/{self._namespace}/pods/{name}:8080/proxy/{path}")

    async def idle_percent(self, seconds: float) -> float:
        """CPU of one core while there is no load, in percent."""
        before, begin = await self.usage(), time.monotonic()
        await asyncio.sleep(seconds)
        after = await self.usage()
        return 100.0 * spent_s(before, after) / (time.monotonic() - begin)

    async def restart(self, *, seconds: float = 90.0) -> float:
        """Kill it. Returns the seconds from the start of the next process until it has synced and processed every key."""
        old = await self.process()
        old.send(signal.SIGKILL)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                new = await self.process()
                if new.pid != old.pid and await self._caught_up():
                    return time.clock_gettime(time.CLOCK_BOOTTIME) - new.started / _TICKS
            except (KubeError, SyncerError):
                pass  # not there yet
            await asyncio.sleep(0.05)
        raise SyncerError(f"tenant {self.tenant}: the syncer was not back {seconds:.0f} s after it was killed")

    async def _caught_up(self) -> bool:
        if (await self._get("readyz")).strip() != b"ok":
            return False
        return (await self.metrics()).get("bulkhead_syncer_queue_depth") == 0

    async def patrol_seconds(self, note: Callable[[str], None], *, seconds: float = 200.0) -> float:
        """How long the next whole round of the patrol takes."""
        rounds, last = "bulkhead_syncer_patrol_rounds_total", "bulkhead_syncer_patrol_round_seconds"
        before = (await self.metrics()).get(rounds)
        if before is None:
            raise SyncerError(f"tenant {self.tenant}: its syncer does not count the patrol's rounds")
        note(f"waiting for a patrol of tenant {self.tenant}")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            page = await self.metrics()
            if page[rounds] > before:
                return page[last]
            await asyncio.sleep(1.0)
        raise SyncerError(f"tenant {self.tenant}: no patrol within {seconds:.0f} s")
