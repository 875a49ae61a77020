"""Objects without end, and watches without end, at the target's API, up to the experiment's amount."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import AlreadyExists, KubeError
from bulkhead.kube.objects import Resource
from workstation.chaos import objects, observe
from workstation.chaos.faults.scene import Fault, Scene, emptied, works
from workstation.chaos.judge import Proof
from workstation.chaos.record import Entry

_WRITERS: Final = 8
_PAUSE_SECONDS: Final = 0.2
_SLOW_SECONDS: Final = 90.0
_AGAIN_SECONDS: Final = 5.0
# The part of the amount that must have arrived: a slow machine may not take all of it in the time of the fault.
_LEAST_SHARE: Final = 0.25
_LEAST_WATCHES: Final = 0.5


@dataclass(frozen=True, slots=True)
class Flood(Fault):
    """Objects of one kind; `make` gives the manifest of the n-th one in a run."""

    kind: Resource
    make: Callable[[str, int], Obj]

    async def inject(self, scene: Scene) -> list[Proof]:
        """Write as fast as the target accepts, and count what a list shows afterwards."""
        amount = scene.experiment.amount
        entry = () if self.kind.namespaced else (Entry(self.kind.kind, scene.target),)
        await scene.will(f"creates up to {amount} objects of kind {self.kind.kind}", *entry)
        numbers, refusals = iter(range(amount)), [""]
        clock = asyncio.get_running_loop().time
        end = clock() + scene.seconds + _SLOW_SECONDS
        seconds, there = scene.seconds, 0
        # On a slow machine it takes longer until there is a flood.
        while there < amount * _LEAST_SHARE and clock() < end:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
                    for _ in range(_WRITERS):
                        tasks.create_task(self._write(scene, numbers, refusals))
            with suppress(KubeError):
                there = await self._count(scene)
            seconds = _AGAIN_SECONDS
        shown = there >= amount * _LEAST_SHARE
        why = f"; it refused the last one: {refusals[-1][:200]}" if refusals[-1] and not shown else ""
        return [Proof(shown, f"the target has {there} of {amount} objects of kind {self.kind.kind}{why}")]

    async def _count(self, scene: Scene) -> int:
        namespace = scene.space if self.kind.namespaced else None
        return len((await scene.plane.list_metadata(self.kind, namespace, label_selector=scene.selector)).items)

    async def _write(self, scene: Scene, numbers: Iterator[int], refusals: list[str]) -> None:
        for number in numbers:
            try:
                await scene.plane.create(self.kind, self.make(scene.run, number))
            except AlreadyExists:
                continue
            except KubeError as error:
                # An overloaded plane refuses for a while.
                refusals[:] = [str(error)]
                await asyncio.sleep(_PAUSE_SECONDS)

    async def lift(self, scene: Scene) -> None:
        """Delete all of it."""
        await emptied(scene, self.kind)

    async def recovered(self, scene: Scene) -> str:
        """Nothing is left of it, and the target works."""
        namespace = scene.space if self.kind.namespaced else None
        try:
            found = await scene.plane.list_metadata(self.kind, namespace, label_selector=scene.selector)
        except KubeError as error:
            return str(error)
        names = [item["metadata"]["name"] for item in found.items if item["metadata"]["name"] != objects.PROBE]
        return f"{len(names)} objects of the flood are still there" if names else await works(scene)


@dataclass(frozen=True, slots=True)
class WatchStorm(Fault):
    """Watches of ConfigMaps, each on a connection of its own."""

    async def inject(self, scene: Scene) -> list[Proof]:
        """Open them, and read from the target's metrics how many it serves."""
        amount = scene.experiment.amount
        await scene.will(f"opens up to {amount} watches")
        version = (await scene.plane.list_metadata(kinds.CONFIG_MAPS, scene.space)).resource_version
        watches = [asyncio.create_task(self._watch(scene, version)) for _ in range(amount)]
        try:
            await asyncio.sleep(scene.seconds / 2)
            proof = await self._counted(scene, amount)
            await asyncio.sleep(scene.seconds / 2)
        finally:
            for task in watches:
                task.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
        return [proof]

    async def _watch(self, scene: Scene, version: str) -> None:
        while True:
            with suppress(KubeError):
                events = scene.plane.watch(kinds.CONFIG_MAPS, scene.space, resource_version=version)
                async with aclosing(events):
                    async for _ in events:
                        pass
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _counted(self, scene: Scene, amount: int) -> Proof:
        # Each member of a plane of three serves a part of them, and has metrics of its own.
        members = max(1, len(await observe.own_pods(scene.host, scene.target, "plane")))
        metrics = (await scene.plane.get_raw("/metrics")).decode(errors="replace")
        served = watches_served(metrics, "configmaps")
        where = f", on one of its {members} API servers" if members > 1 else ""
        shown = served >= amount * _LEAST_WATCHES / members
        return Proof(shown, f"the target's metrics count {served} watches of ConfigMaps{where}")

    async def lift(self, scene: Scene) -> None:
        """Nothing to undo: they have ended."""

    async def recovered(self, scene: Scene) -> str:
        """The target works."""
        return await works(scene)


def watches_served(metrics: str, resource: str) -> int:
    """How many watches of a resource an API server serves, by its own metrics."""
    count = 0.0
    for line in metrics.splitlines():
        if line.startswith("apiserver_longrunning_requests{") and f'resource="{resource}"' in line and 'verb="WATCH"' in line:
            with suppress(ValueError):
                count += float(line.rpartition(" ")[2])
    return int(count)


def config_map(run: str, number: int) -> Obj:
    """One of many."""
    return objects.config_map(run, f"flood-{number}", "x" * 500)


def event(run: str, number: int) -> Obj:
    """One of many."""
    return objects.event(run, f"flood-{number}")
