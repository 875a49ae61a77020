"""Short stories about pods that change in place while watches lag; by name."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from bulkhead.kube.resources import PODS
from tests.simulation import stories
from tests.simulation.world import World


async def resized(world: World, *, lag: float) -> None:
    """Found by upstream's conformance: a resize was reported as seen by the node before the host pod had it."""
    await stories.everything(world, pods=("web",))
    world.host_faults.lag |= {"pods": lag}
    for cpu in ("200m", "150m"):
        world.tenant.resize("web", cpu)
        await world.wait(0.5)
        world.tenant.label("web", cpu)
        await world.settle(60)
    await world.check()
    assert world.plane.store.all(PODS)[0]["status"]["observedGeneration"] == 3


async def resized_before_it_was_made(world: World) -> None:
    """Found by a storm: a host pod was made as the plane itself wanted it, and then resized to what an older copy asked for."""
    await world.ready()
    world.host_faults.away = True
    world.tenant.pod("web")
    await world.wait(1)
    world.plane_faults.lag["pods"] = 60.0
    for cpu in ("150m", "200m"):
        world.tenant.resize("web", cpu)
    world.host_faults.away = False
    await world.until("the host pod made", world.on_host.pods, 60, act=False)
    await world.wait(20, act=False)
    await world.settle(120)
    assert world.on_host.pods()[0]["metadata"]["generation"] == 1, "resized to a size that is no longer requested"


async def debugged_before_it_was_made(world: World) -> None:
    """Found by a storm: a pod made with containers for debugging, which no create may have, was reported as having them."""
    await world.ready()
    world.host_faults.away = True
    world.tenant.pod("web")
    world.tenant.debug("web", "shell")
    await world.wait(1)
    world.host_faults.away = False
    world.host_faults.lag["pods"] = 60.0
    await world.until("the host pod made", world.on_host.pods, 60)
    await world.wait(5)
    await _shown_in_one(world)
    assert world.plane.store.all(PODS)[0]["status"]["observedGeneration"] == 2


async def resized_and_back(world: World) -> None:
    """Found by a storm: resized back before the first resize was seen to arrive, a pod was reported as the newest too early."""
    await stories.everything(world, pods=("web",))
    world.host_faults.lag |= {"pods": 60.0}
    world.tenant.resize("web", "200m")
    await world.until("the host pod resized", lambda: _cpu(world) == "200m", 5)
    world.tenant.resize("web", "100m")
    await world.wait(1)
    await _shown_in_one(world)
    assert world.plane.store.all(PODS)[0]["status"]["observedGeneration"] == 3


def _cpu(world: World) -> str:
    """What the only host pod asks for."""
    (pod,) = world.on_host.pods()
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


async def _shown_in_one(world: World) -> None:
    """A list shows what the watch would have shown one by one."""
    world.quiet()
    world.relist(world.host)
    await world.settle(120)
    await world.check()


STORIES: Final[Mapping[str, stories.Story]] = {
    "a resize is reported as seen when the host's pod has it": partial(resized, lag=0.0),
    "the same when the host's watch of pods lags": partial(resized, lag=5.0),
    "nor is a pod resized to a size that is no longer requested": resized_before_it_was_made,
    "a container for debugging is not reported as seen when it is not there": debugged_before_it_was_made,
    "a resize is not reported as seen when it is taken back before it is seen to arrive": resized_and_back,
}
