"""Fixed sequences of what tenant and host do; time passes between the steps whether the syncer keeps up or not."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bulkhead.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES
from tests.simulation.world import WORK, World

BEAT = 2.5

Story = Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Played:
    """How the story went."""

    calls: int
    restarts: int
    seconds: float


async def everything(world: World, *, pods: tuple[str, ...] = ("web", "db")) -> None:
    """Pods with all that they need, running, and a Service."""
    world.tenant.config("1")
    world.tenant.secret("1")
    world.tenant.service(80)
    for name in pods:
        world.tenant.pod(name, refers=True, token=name == "web")
    await world.settle(60)
    # What a story says is kept, or goes, has to be there first.
    assert len(world.on_host.pods()) == len(pods)
    assert world.host.store.all(CONFIG_MAPS, WORK)
    assert world.host.store.all(SECRETS, WORK)
    assert world.host.store.all(SERVICES, WORK)


async def life_of_a_pod(world: World) -> None:
    """Created with all that it needs, run, changed, deleted by the tenant and by the host, replaced by another of its name."""
    tenant = world.tenant
    tenant.config("one")
    tenant.secret("one")
    tenant.service(80)
    tenant.pod("web", refers=True, token=True)
    await world.wait(BEAT)
    tenant.config("two")
    tenant.secret("two")
    tenant.service(81)
    tenant.label("web", "changed")
    await world.wait(BEAT)
    tenant.delete(PODS, "web", grace=5)
    tenant.pod("db", refers=True)
    await world.wait(BEAT)
    tenant.pod("web", gpus=2)
    for pod in world.on_host.pods():
        world.on_host.delete(pod)
    await world.wait(BEAT)
    tenant.pod("job", token=True)
    await world.wait(BEAT)
    for pod in world.on_host.pods():
        world.on_host.finish(pod, "Succeeded")
    tenant.pod("last", refers=True, gpus=4)
    await world.wait(BEAT)
    tenant.delete(PODS, "job", grace=0)
    tenant.delete(PODS, "last", grace=0)
    tenant.pod("last", gpus=1)
    await world.wait(BEAT)
    tenant.delete(CONFIG_MAPS, "config")
    tenant.delete(SECRETS, "secret")
    tenant.delete(SERVICES, "web")
    await world.wait(BEAT)


async def played(crash_at: tuple[int, str] | None = None, seed: int = 1) -> Played:
    """The story with one crash, or none, and everything that must hold afterwards."""
    async with World.open(seed, start=False) as world:
        await world.start(crash_at)
        again = asyncio.create_task(_restarted(world))
        try:
            await life_of_a_pod(world)
            calls = len(world.trace)
            await world.check()
        finally:
            again.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await again
        return Played(calls, world.lives - 1, world.clock.monotonic())


async def traced(seed: int = 1) -> list[str]:
    """Every call of the story, in order."""
    async with World.open(seed) as world:
        await life_of_a_pod(world)
        return list(world.trace)


async def _restarted(world: World) -> None:
    await world.crashed.wait()
    await world.restart()
