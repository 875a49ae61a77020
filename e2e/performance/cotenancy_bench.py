"""Runs the co-tenancy benchmark: neighbours that always do the same, one tenant that is quiet and then storms.

    a rate that leaves the machine room ──> for each way (planes, namespaces), for each storm: quiet, storm, what it
    created removed ──> Reading

The prober of `bulkhead chaos` measures requests in a process of its own, and the storm has another one. This one times pods.
"""

import asyncio
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bulkhead.api.names import SYSTEM_NAMESPACE
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, KubeError
from bulkhead.kube.kubeconfig import KubeConfig
from e2e import workloads
from e2e.machine import CoreSeconds
from e2e.performance.cotenancy_figures import HOST, Phase, Reading
from e2e.performance.sync_setup import NAMESPACE, Setup
from workstation.chaos import judge, measure, observe, prober
from workstation.chaos.measure import Api, Samples, measuring

_PROBE = "probe"
_POD_SECONDS = 60.0
_SETTLE_SECONDS = 5.0
_END_SECONDS = 180.0
# For how long a rate is tried, and how often it is halved before the machine is too small for so many tenants.
_TRY_SECONDS = 20.0
MOST_HALVINGS = 5


class TooSmallError(Exception):
    """The machine has no room for a storm beside what the tenants do all the time."""


@dataclass(frozen=True, slots=True)
class Steady:
    """What each tenant does all the time."""

    requests_per_second: float
    pod_every_seconds: float

    def halved(self) -> "Steady":
        """Half of it."""
        return Steady(self.requests_per_second / 2, self.pod_every_seconds * 2)

    def __str__(self) -> str:
        return f"{self.requests_per_second:g} requests a second and a pod every {self.pod_every_seconds:g} s"


@dataclass(frozen=True, slots=True)
class Plan:
    """How large the run is."""

    tenants: int
    quiet_seconds: float
    storm_seconds: float
    storms: tuple[str, ...]
    ways: tuple[str, ...]
    steady: Steady
    # The share of the CPU that may be busy before a storm: on a machine that is busy all the time a storm shows nothing.
    most_busy: float


@dataclass(frozen=True, slots=True)
class Tenancy:
    """One tenant in one way: its API, and its namespace there; `whole` if the API server is its own."""

    name: str
    client: Client
    namespace: str
    whole: bool


@dataclass
class Pods:
    """How long the pods of one neighbour took to run: when each began, and its milliseconds; None for one that did not."""

    found: list[tuple[float, float | None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Watched:
    """What is measured all the time in one way."""

    way: str
    host: Client
    samples: Samples
    pods: Mapping[str, Pods]


class Bench:
    """One run."""

    def __init__(self, setup: Setup, plan: Plan, note: Callable[[str], None]) -> None:
        self._setup = setup
        self._plan = plan
        self._note = note

    async def run(self) -> tuple[list[Reading], Steady]:
        """All readings, way by way, and what the tenants did all the time. Raises TooSmallError."""
        readings: list[Reading] = []
        steady: Steady | None = None
        async with AsyncExitStack() as stack:
            host = await stack.enter_async_context(_client(self._setup.host))
            for way in self._plan.ways:
                tenancies = await self._tenancies(stack, way, host)
                steady = steady or await self._bearable(way, host, tenancies)
                readings += await self._way(way, host, tenancies, steady)
        return readings, steady or self._plan.steady

    async def _bearable(self, way: str, host: Client, tenancies: list[Tenancy]) -> Steady:
        """The rate of the plan, or the first half of a half of it that leaves room for a storm. Both ways have the same."""
        steady = self._plan.steady
        for _ in range(MOST_HALVINGS + 1):
            async with self._working(way, host, tenancies, steady):
                await asyncio.sleep(_SETTLE_SECONDS)
                idle = CoreSeconds.now()
                await asyncio.sleep(_TRY_SECONDS)
                busy = CoreSeconds.now().busy_since(idle)
            self._note(f"{way}: {steady} of each: CPU busy {busy:.0%}, at most {self._plan.most_busy:.0%}")
            if busy <= self._plan.most_busy:
                return steady
            steady = steady.halved()
        raise TooSmallError(f"{busy:.0%} of the CPU is busy before any storm, at {steady}")

    async def _tenancies(self, stack: AsyncExitStack, way: str, host: Client) -> list[Tenancy]:
        if way == "namespaces":
            return [Tenancy(name, host, name, whole=False) for name in self._setup.natives[: self._plan.tenants]]
        opened = await asyncio.to_thread(self._setup.planes, self._plan.tenants)
        return [Tenancy(name, await stack.enter_async_context(_client(path)), NAMESPACE, whole=True) for name, path in opened]

    @asynccontextmanager
    async def _working(self, way: str, host: Client, tenancies: list[Tenancy], steady: Steady) -> AsyncIterator[Watched]:
        """All tenants but the first do their steady work, and are measured."""
        neighbours = tenancies[1:]
        apis = []
        for tenancy in neighbours:
            await _probe_object(tenancy.client, tenancy.namespace)
            apis.append(Api(tenancy.name, tenancy.client, tenancy.namespace, _PROBE, writes=True))
        await _probe_object(host, "default")
        apis.append(Api(HOST, host, "default", _PROBE, writes=True))
        pods = {tenancy.name: Pods() for tenancy in neighbours}
        async with measuring(apis, period=1 / steady.requests_per_second) as samples:
            every = steady.pod_every_seconds
            tasks = [asyncio.create_task(_pods(tenancy, pods[tenancy.name], every)) for tenancy in neighbours]
            try:
                yield Watched(way, host, samples, pods)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _way(self, way: str, host: Client, tenancies: list[Tenancy], steady: Steady) -> list[Reading]:
        found = []
        async with self._working(way, host, tenancies, steady) as watched:
            for storm in self._plan.storms:
                if storm == "webhooks" and not tenancies[0].whole:
                    self._note(f"{way}: {storm}: a namespace cannot have one, left out")
                    continue
                found.append(await self._storm(watched, storm, tenancies[0]))
        return found

    async def _storm(self, watched: Watched, storm: str, first: Tenancy) -> Reading:
        way, host, samples, pods = watched.way, watched.host, watched.samples, watched.pods
        self._note(f"{way}: quiet for {self._plan.quiet_seconds:g} s")
        await asyncio.sleep(_SETTLE_SECONDS)
        begin, idle = measure.now(), CoreSeconds.now()
        await asyncio.sleep(self._plan.quiet_seconds)
        busy = [CoreSeconds.now().busy_since(idle)]
        before = _phase(samples, pods, begin, measure.now())
        started = await observe.pods(host, SYSTEM_NAMESPACE)
        self._note(f"{way}: {storm} for {self._plan.storm_seconds:g} s")
        moments: list[float] = []
        done = await _stormed(first, storm, self._plan.storm_seconds, moments, busy)
        during = _phase(samples, pods, moments[0], moments[1])
        after = await observe.pods(host, SYSTEM_NAMESPACE)
        others = set(started) - {first.name}
        restarts = sum(judge.started(started[name], after.get(name)) for name in others)
        reading = Reading(way, storm, before, during, restarts, done, *busy)
        self._note(f"{way}: {storm}: {done}; CPU busy {busy[0]:.0%}, then {busy[1]:.0%}")
        return reading


async def _pods(tenancy: Tenancy, pods: Pods, every: float) -> None:
    """Create a pod in each period, whether or not the one before runs."""
    run = uuid.uuid4().hex[:6]
    number = 0
    async with asyncio.TaskGroup() as tasks:
        while True:
            number += 1
            tasks.create_task(_pod(tenancy, pods, f"steady-{run}-{number}"))
            await asyncio.sleep(every)


def _client(path: Path) -> Client:
    return Client(KubeConfig.from_file(path), user_agent="cotenancy", field_manager="cotenancy", timeout=30.0)


async def _probe_object(client: Client, namespace: str) -> None:
    with suppress(AlreadyExists):
        await client.create(kinds.CONFIG_MAPS, {"metadata": {"name": _PROBE}}, namespace)


async def _stormed(first: Tenancy, storm: str, seconds: float, moments: list[float], busy: list[float]) -> str:
    """Let the first tenant storm, and note when it began and ended, and how busy the machine was: what it did."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "e2e.performance.cotenancy_storm"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    order = {"config": prober.encode(first.client.config), "namespace": first.namespace, "whole": first.whole, "storm": storm}
    process.stdin.write(json.dumps(order).encode() + b"\n")
    await process.stdout.readline()
    moments.append(measure.now())
    idle = CoreSeconds.now()
    await asyncio.sleep(seconds)
    moments.append(measure.now())
    busy.append(CoreSeconds.now().busy_since(idle))
    process.stdin.close()
    try:
        async with asyncio.timeout(_END_SECONDS):
            done = (await process.stdout.read()).decode().strip()
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        return "it did not remove what it created in time"
    return done


async def _pod(tenancy: Tenancy, pods: Pods, name: str) -> None:
    begin = time.monotonic()
    pod = workloads.pod(name, workloads.pod_spec(where=workloads.SIMULATED), namespace=tenancy.namespace)
    took: float | None = None
    with suppress(KubeError, TimeoutError):
        async with asyncio.timeout(_POD_SECONDS):
            made = await tenancy.client.create(kinds.PODS, pod)
            await _running(tenancy, name, str(made["metadata"]["resourceVersion"]))
            took = (time.monotonic() - begin) * 1000
    pods.found.append((begin, took))
    with suppress(KubeError):
        await tenancy.client.delete(kinds.PODS, name, tenancy.namespace, grace_seconds=0)


async def _running(tenancy: Tenancy, name: str, version: str) -> None:
    events = tenancy.client.watch(
        kinds.PODS, tenancy.namespace, resource_version=version, field_selector=f"metadata.name={name}"
    )
    async with aclosing(events):
        async for event in events:
            if event.type == "MODIFIED" and event.object()["status"].get("phase") == "Running":
                return


def _phase(samples: Samples, pods: Mapping[str, Pods], begin: float, end: float) -> dict[str, Phase]:
    """What each subject measured between two moments."""
    found: dict[str, Phase] = {}
    for subject in (*pods, HOST):
        own = [sample for sample in samples.found if sample.subject == subject and begin <= sample.at <= end]
        times = [took for at, took in pods[subject].found if begin <= at <= end] if subject in pods else []
        found[subject] = Phase(
            requests_ms=tuple(sample.seconds * 1000 for sample in own if not sample.error),
            reads_ms=tuple(sample.seconds * 1000 for sample in own if not sample.error and not sample.write),
            request_errors=sum(bool(sample.error) for sample in own),
            pods_ms=tuple(took for took in times if took is not None),
            pod_errors=sum(took is None for took in times),
        )
    return found
