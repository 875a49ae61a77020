"""The ledger on a real API server with a real kube-scheduler, and kwok for the kubelets of 500 nodes with 8 GPUs; no root.

    700 victims at once ──> many single pods ──> one gang of 512 ──> a full cluster: one GPU is reclaimed, pods that cannot run
    ask why ──> 10,000 pods

All of it runs on one machine, as in the other benchmarks. The shapes are those that KAI and Kueue publish (500 nodes x 8, a
gang of 512). The ledger is a process of its own, so that its memory and CPU can be told apart. The generator uses the
platform's client and its names, and the test bed of the ledger's tests. It measures how fast the ledger is, not whether it is
right.
"""

import asyncio
import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict
from bulkhead.kube.resources import PODS
from controller.dispatch.apply import run_bounded
from e2e import machine
from e2e.performance import ledger_process
from e2e.performance.ledger_victims import LENT, Victims
from tests.kit.kubeconfigs import to_yaml
from tests.kit.ledgerhost import LedgerHost, gated, verdict
from tests.kit.servers import ApiServer, with_pod_groups

Note = Callable[[str], None]
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_WAIT: Final = 240.0
_RACK: Final = "bulkhead.dev__rack"


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of the load."""

    nodes: int = 500
    gpus: int = 8
    singles: int = 2000
    gang: int = 512
    pods: int = 10_000
    reclaims: int = 5
    verdicts: int = 20
    idle_seconds: float = 30.0
    victims: int = 704  # pods of one GPU each, on nodes of their own
    only_victims: bool = False  # skip the parts after the victims


async def measure(folder: Path, shape: Shape, note: Note) -> dict[str, Any]:
    """All parts, one after another on one cluster."""
    server = ApiServer("bench", folder / "server", with_pod_groups("10.96.0.0/16"))
    try:
        server.start()
        await asyncio.to_thread(server.wait)
        server.start_scheduler(scheduler_config(folder, server))
        server.start_kwok()
        async with Client(server.admin, user_agent="bench", field_manager="bench") as client:
            bench = Bench(client, folder, shape, note)
            await bench.prepare(server)
            return await bench.run()
    finally:
        server.stop()


def scheduler_config(folder: Path, server: ApiServer) -> Path:
    """The stock scheduler without its limit of 50 requests a second, which would otherwise determine the result."""
    kubeconfig = folder / "scheduler.kubeconfig"
    kubeconfig.write_bytes(to_yaml(server.admin))
    path = folder / "scheduler.json"
    said = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 2000, "burst": 4000},
    }
    path.write_text(json.dumps(said))
    return path


class Bench:
    """One cluster and its parts."""

    def __init__(self, client: Client, folder: Path, shape: Shape, note: Note) -> None:
        self._host = LedgerHost(client)
        self._client = client
        self._folder = folder
        self._shape = shape
        self._note = note
        self._teams: list[str] = []

    async def prepare(self, server: ApiServer) -> None:
        """Nodes in racks of 16, and ten tenants that lend each other all their quota."""
        host, shape = self._host, self._shape
        (self._folder / "kubeconfig").write_bytes(to_yaml(server.admin))
        await host.install()
        lent = {LENT.replace("/", "__"): "yes"}

        async def node(number: int) -> None:
            marks = {_RACK: f"rack-{number // 16}"} | (lent if number * shape.gpus < shape.victims else {})
            await host.node(f"n{number}", shape.gpus, **marks)

        await run_bounded(range(shape.nodes), node)
        cohort = await host.cohort("bench", reclaim={"minRuntime": "0s", "within": "10s"})
        total = shape.nodes * shape.gpus
        # The first tenant owns no more than it lends. The syncer would keep the ceilings; there is no syncer here.
        for number in range(10):
            self._teams.append(await host.tenant(f"team{number}", total // 10, cohort, ceiling=1_000_000))
        self._note(f"{shape.nodes} nodes with {shape.gpus} GPUs, {len(self._teams)} tenants")

    async def run(self) -> dict[str, Any]:
        kubeconfig, number = self._folder / "kubeconfig", self._shape.singles
        victims = Victims(self._client, self._host, kubeconfig, victims=self._shape.victims, gpus=self._shape.gpus)
        found = await victims.measure(self._note)
        if self._shape.only_victims:
            return found
        begin = time.monotonic()
        created = await self._create([(self._teams[at % 10], f"s{at}", 1) for at in range(number)])
        self._note(f"{number} pods wait: created in {created - begin:.1f} s")
        found["create_per_s"] = round(number / (created - begin), 1)
        await self._host.member()
        async with ledger_process.running(kubeconfig) as process:
            found |= await self._singles(time.monotonic())
            found["small_rss_mib"] = round(machine.rss_kib(process.pid) / 1024, 1)
            found |= await self._gang()
            found |= await self._full()
            found |= await self._many(process.pid)
        return found | {"process": process.spent}

    async def _singles(self, begin: float) -> dict[str, Any]:
        """Pods of one GPU from ten tenants, all at the gate: from the start of the ledger's process to the last admission."""
        number = self._shape.singles
        admitted = await self._reaches(number, lambda pod: not gated(pod), 0.25)
        running = await self._reaches(number, _runs, 0.25)
        self._note(f"{number} pods: admitted in {admitted - begin:.1f} s, all run after {running - begin:.1f} s")
        await self._clear()
        return {
            "admit_per_s": round(number / (admitted - begin), 1),
            "run_per_s": round(number / (running - begin), 1),
        }

    async def _gang(self) -> dict[str, Any]:
        """One gang of pods with half a node each: from the first creation until all of it runs."""
        number, half = self._shape.gang, self._shape.gpus // 2
        begin = time.monotonic()
        gang = ("big", number)
        made = asyncio.create_task(self._create([(self._teams[0], f"g{at}", half) for at in range(number)], gang))
        running = await self._reaches(number, _runs, 0.25)
        created = await made
        self._note(f"a gang of {number}: created in {created - begin:.1f} s, runs after {running - begin:.1f} s")
        await self._clear()
        return {"gang512_s": round(running - begin, 1), "gang512_after_creation_s": round(running - created, 1)}

    async def _full(self) -> dict[str, Any]:
        """All GPUs are held, most of them borrowed. An owner requests one; and pods that cannot run ask why."""
        shape = self._shape
        await self._create([(self._teams[0], f"f{at}", shape.gpus) for at in range(shape.nodes - 1)])
        await self._reaches(shape.nodes - 1, _runs, 0.5)
        # The newest pods are small: each is the victim if one GPU is needed.
        await self._create([(self._teams[0], f"one{at}", 1) for at in range(shape.gpus)])
        await self._reaches(shape.nodes - 1 + shape.gpus, _runs, 0.5)
        self._note("the cluster is full")
        took = [await self._until(self._teams[1], f"r{at}", 1, _runs) for at in range(shape.reclaims)]
        self._note(f"one GPU is reclaimed in {statistics.median(took):.2f} s")
        told = [await self._until(self._teams[0], f"v{at}", 1, _told) for at in range(shape.verdicts)]
        told += [await self._until(self._teams[2], f"v{at}", 2 * shape.gpus, _told) for at in range(shape.verdicts)]
        self._note(f"a pod knows why it waits after {statistics.median(told):.2f} s")
        await self._clear()
        return {
            "reclaim_one_s": round(statistics.median(took), 2),
            "reclaim_one_max_s": round(max(took), 2),
            "verdict_s": round(statistics.median(told), 2),
            "verdict_max_s": round(max(told), 2),
        }

    async def _many(self, pid: int) -> dict[str, Any]:
        """Ten thousand pods; all GPUs are held and the other pods wait at the gate. Memory, and CPU while little happens."""
        shape = self._shape
        total = shape.nodes * shape.gpus
        await self._create([(self._teams[at % 10], f"m{at}", 1) for at in range(shape.pods)])
        await self._reaches(min(total, shape.pods), _runs, 1.0)
        await self._reaches(max(0, shape.pods - total), _told, 1.0)
        self._note(f"{shape.pods} pods are there")
        before, begin = machine.cpu_ticks(pid), time.monotonic()
        await asyncio.sleep(shape.idle_seconds)
        idle = (machine.cpu_ticks(pid) - before) / _TICKS / (time.monotonic() - begin)
        before, begin = machine.cpu_ticks(pid), time.monotonic()
        took = [await self._until(self._teams[3], f"x{at}", 1, _told) for at in range(5)]
        busy = (machine.cpu_ticks(pid) - before) / _TICKS / (time.monotonic() - begin)
        return {
            "ledger_rss_mib": round(machine.rss_kib(pid) / 1024, 1),
            "ledger_idle_cpu_percent": round(100 * idle, 2),
            "ledger_busy_cpu_percent": round(100 * busy, 1),
            "verdict_among_10000_s": round(statistics.median(took), 2),
        }

    async def _until(self, tenant: str, name: str, gpus: int, reached: Callable[[Obj], bool]) -> float:
        """Seconds from the creation of one pod until it has reached this state."""
        begin = time.monotonic()
        await self._host.run(tenant, name, gpus)
        while not reached(await self._host.get(tenant, name) or {}):
            if time.monotonic() - begin > _WAIT:
                raise TimeoutError(f"{name} of {tenant}")
            await asyncio.sleep(0.02)
        return time.monotonic() - begin

    async def _create(self, wanted: list[tuple[str, str, int]], gang: tuple[str, int] | None = None) -> float:
        """Create pods, a few at a time; returns when that was done."""
        await run_bounded(wanted, lambda item: self._pod(*item, gang=gang))
        return time.monotonic()

    async def _pod(self, tenant: str, name: str, gpus: int, gang: tuple[str, int] | None) -> None:
        """Create one pod; tried again if the quota has changed meanwhile, by another creation or by the ledger."""
        for _ in range(20):
            with contextlib.suppress(Conflict):
                await self._host.run(tenant, name, gpus, gang=gang)
                return
        raise TimeoutError(f"{name} of {tenant} is not created")

    async def _reaches(self, number: int, reached: Callable[[Obj], bool], pause: float) -> float:
        """Wait until this number of pods have reached a state. Returns when that was seen."""
        deadline = time.monotonic() + _WAIT
        while True:
            count = 0
            for team in self._teams:
                count += sum(map(reached, (await self._client.list(PODS, names.work_namespace(team), limit=5000)).items))
            if count >= number:
                return time.monotonic()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} of {number} pods have got there")
            await asyncio.sleep(pause)

    async def _clear(self) -> None:
        """Delete all pods and wait until none is left."""
        for team in self._teams:
            space = names.work_namespace(team)
            left = [pod["metadata"]["name"] for pod in await self._host.pods(team)]
            await run_bounded(left, lambda name, space=space: self._client.delete(PODS, name, space))  # type: ignore[misc]
        await self._reaches_none()

    async def _reaches_none(self) -> None:
        deadline = time.monotonic() + _WAIT
        while any([await self._host.pods(team) for team in self._teams]):
            if time.monotonic() > deadline:
                raise TimeoutError("pods are left")
            await asyncio.sleep(0.5)


def _runs(pod: Obj) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running")


def _told(pod: Obj) -> bool:
    return verdict(pod) is not None
