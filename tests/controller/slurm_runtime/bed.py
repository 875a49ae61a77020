"""A plane, a slurmrestd and a cluster between them, none of them real but the cluster."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from controller.inside.calls import Plane
from controller.slurm.board import Board
from controller.slurm.cluster import Cluster, Order
from controller.slurm.decide.status import Found
from controller.slurm.lease.fleet import Free
from controller.slurm.spec import SlurmSpec
from tests.controller.slurm_runtime.plane import FakePlane
from tests.controller.slurm_runtime.slurmrestd import KEY, FakeSlurmrestd, job, node, number
from tests.controller.slurm_runtime.world import START, node_set, slurm_spec
from tests.kit import slurmsamples as samples
from tests.kit.fakeclock import FakeClock

KEYS = replace(samples.KEYS, jwt=KEY)


class Bed:
    """A plane, a slurmrestd and a cluster between them."""

    def __init__(self, plane: FakePlane, fake: FakeSlurmrestd) -> None:
        self.plane = plane
        self.fake = fake
        self.clock = FakeClock(START)
        self.free: dict[str, Free] = {}
        self.board = Board()
        self.cluster = Cluster("team-a", self.clock, lambda _: self.free, self.board)

    async def reconcile(self, *node_sets: Any, on: bool = True, **changes: Any) -> Found:
        spec = replace(slurm_spec(*node_sets), **changes)
        return await self.cluster.reconcile(cast(Plane, self.plane), Order(spec, KEYS, on=on))

    def register(self, *workers: str) -> None:
        self.plane.start(*workers)
        for name in workers:
            seconds = int(self.clock.now().timestamp())
            self.fake.nodes.setdefault(name, node(name) | {"slurmd_start_time": number(seconds), "last_busy": number(seconds)})

    def run(self, job_id: int, name: str, **more: Any) -> None:
        ends = int((self.clock.now() + timedelta(hours=1)).timestamp())
        self.fake.jobs[job_id] = job(job_id, "RUNNING", nodes=name, end_time=number(ends)) | more
        self.fake.nodes[name] |= {"state": ["ALLOCATED", "DYNAMIC_NORM"], "alloc_cpus": 8}

    def end(self, job_id: int) -> None:
        ended = self.fake.jobs.pop(job_id)
        found = self.fake.nodes[ended["nodes"]]
        found |= {"state": sorted({*found["state"]} - {"ALLOCATED"} | {"IDLE"}), "alloc_cpus": 0}

    def workers(self) -> list[str]:
        return sorted(name for name, pod in self.plane.of("Pod").items() if "ordinal" in str(pod["metadata"]["labels"]))


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not what():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


def order() -> Order:
    spec: SlurmSpec = slurm_spec(node_set())
    return Order(spec, KEYS)
