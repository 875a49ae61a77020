"""The load of the synchronisation benchmark: the same generator, whether its pods go into host namespaces or into planes.

It creates pods and watches them; it decides nothing and cleans up nothing. All times are of one monotonic clock, which is finer
than the API's timestamps: `sent` when the request leaves, `ready` when the watch shows Ready.

It writes and watches with the platform's own client on both sides, so both figures of a ratio include that client.

    Target (client, namespace) x pods ── 20 writers in all ──> create ──> watch per target ──> Sample
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from bulkhead.api.podphase import is_ready
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, Timeout, Unavailable
from bulkhead.kube.objects import Key, Meta
from bulkhead.kube.resources import PODS
from bulkhead.kube.watch import WatchEvent
from e2e.performance import pods
from e2e.performance.sync_figures import Sample

WRITERS = 20
READY_DEADLINE = 180.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where pods are created: one namespace behind one client."""

    client: Client
    namespace: str


class LoadError(RuntimeError):
    """The load did not finish; the text says what was missing."""


@dataclass(slots=True)
class Sight:
    """What one watch saw: when a pod first existed, and when it was Ready."""

    added: dict[Key, float] = field(default_factory=dict)
    ready: dict[Key, float] = field(default_factory=dict)
    gone: set[Key] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, event: WatchEvent, now: float, name: Callable[[Meta], Key | None]) -> None:
        key = name(event.meta)
        if event.type == "BOOKMARK" or key is None:
            return
        if event.type == "DELETED":
            self.gone.add(key)
        else:
            self.added.setdefault(key, now)
            if key not in self.ready and is_ready(event.object()):
                self.ready[key] = now
        self.changed.set()


def own_key(meta: Meta) -> Key:
    return meta.key


@contextlib.asynccontextmanager
async def watching(target: Target, name: Callable[[Meta], Key | None] = own_key) -> AsyncIterator[Sight]:
    """Watch from now to the end of the block."""
    sight = Sight()
    version = (await target.client.list(PODS, target.namespace, limit=1)).resource_version

    async def follow() -> None:
        at = version
        while True:
            events = target.client.watch(PODS, target.namespace, resource_version=at)
            async with contextlib.aclosing(events):
                async for event in events:
                    sight.take(event, time.monotonic(), name)
                    at = event.meta.resource_version or at

    task = asyncio.create_task(follow())
    try:
        yield sight
        if task.done():
            task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, KubeError):
            await task


async def burst(targets: Sequence[Target], count: int, prefix: str, *, sights: Sequence[Sight]) -> list[Sample]:
    """`count` pods in each target, all created at once. Returns when every pod was seen Ready."""
    waiting = iter([(target, f"{prefix}-{number}") for number in range(count) for target in targets])
    sent: dict[tuple[int, Key], tuple[float, float]] = {}

    async def writer() -> None:
        for target, name in waiting:
            begin = time.monotonic()
            await target.client.create(PODS, pods.pod(name, target.namespace))
            sent[(id(target), Key(target.namespace, name))] = (begin, time.monotonic())

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(writer())
    return await _all_ready(targets, sights, sent)


async def steady(target: Target, rate: float, seconds: float, prefix: str, *, sight: Sight) -> list[Sample]:
    """`rate` pods a second, each at its own time, whether or not the former ones are ready."""
    sent: dict[tuple[int, Key], tuple[float, float]] = {}
    begin = time.monotonic()

    async def one(number: int) -> None:
        at = time.monotonic()
        await target.client.create(PODS, pods.pod(f"{prefix}-{number}", target.namespace))
        sent[(id(target), Key(target.namespace, f"{prefix}-{number}"))] = (at, time.monotonic())

    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
            group.create_task(one(number))
    return await _all_ready([target], [sight], sent)


async def _all_ready(
    targets: Sequence[Target], sights: Sequence[Sight], sent: dict[tuple[int, Key], tuple[float, float]]
) -> list[Sample]:
    by_target = dict(zip((id(target) for target in targets), sights, strict=True))
    for target, sight in zip(targets, sights, strict=True):
        wanted = {key for owner, key in sent if owner == id(target)}
        await _seen(sight, wanted, target.namespace)
    return [Sample(str(key), begin, done, by_target[owner].ready[key]) for (owner, key), (begin, done) in sorted(sent.items())]


async def _seen(sight: Sight, wanted: set[Key], where: str) -> None:
    deadline = time.monotonic() + READY_DEADLINE
    while missing := wanted - sight.ready.keys():
        sight.changed.clear()
        left = deadline - time.monotonic()
        if left <= 0:
            names = ", ".join(sorted(key.name for key in missing)[:5])
            raise LoadError(f"{where}: {len(missing)} of {len(wanted)} pods not Ready within {READY_DEADLINE:.0f} s: {names}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left, 1.0)):
                await sight.changed.wait()


async def clear(target: Target, *, seconds: float = 240.0) -> None:
    """Delete every pod of a namespace and wait until none is left."""
    path = PODS.path(target.namespace)
    deadline = time.monotonic() + seconds
    done = False
    while not done:
        try:
            # One request for all pods. With twenty planes on two cores it takes longer than the API server's minute.
            await target.client.transport.request("DELETE", path, params={"gracePeriodSeconds": "0"})
            done = True
        except (Timeout, Unavailable):
            # Pods that it has deleted stay deleted.
            if time.monotonic() > deadline:
                raise
    await empty(target, seconds=seconds)


async def empty(target: Target, *, seconds: float = 240.0, label_selector: str | None = None) -> None:
    deadline = time.monotonic() + seconds
    while left := (await target.client.list(PODS, target.namespace, label_selector=label_selector)).items:
        if time.monotonic() > deadline:
            raise LoadError(f"{target.namespace}: {len(left)} pods still there {seconds:.0f} s after their deletion")
        await asyncio.sleep(0.3)
