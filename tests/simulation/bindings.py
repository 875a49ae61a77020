"""Short stories about pods that the tenant binds itself, and about what the host remembers of places."""

from collections.abc import Mapping
from typing import Final

from bulkhead.kube.objects import uid_of
from bulkhead.kube.resources import CONFIG_MAPS, PODS
from syncer.write.placed import RECENT
from tests.simulation import stories
from tests.simulation.world import SPACE, TENANT, World


async def bound_by_the_tenant(world: World) -> None:
    """A pod runs where the tenant bound it, before or after its host pod was made, whenever the syncer dies."""
    await world.ready()
    for calls in range(1, 12):
        for when in ("before", "after"):
            name = f"web-{calls}-{when}"
            world.on_host.schedules = False
            world.tenant.pod(name, refers=calls % 3 == 0)
            if calls % 2:
                await world.until("the host pod made", world.on_host.pods, 60)
            assert world.life is not None
            world.life.crash_at = (len(world.trace) + calls, when)
            world.tenant.bind(name, "node-b")
            await world.wait(3)
            if world.crashed.is_set():
                await world.restart()
            # Bound in the plane, and pinned on the host; from here on it is placed, and the process dies once more.
            await world.settle(60)
            world.life.crash_at = (len(world.trace) + calls % 4, when)
            world.on_host.schedules = True
            await world.wait(3)
            if world.crashed.is_set():
                await world.restart()
            world.life.crash_at = None
            await world.settle(60)
            assert [pod["spec"].get("nodeName") for pod in world.on_host.pods()] == ["node-b"]
            world.tenant.delete(PODS, name, grace=0)
            await world.settle(60)
            assert not world.on_host.pods()
    assert world.lives > 6


async def lost_while_away(world: World) -> None:
    """A placed pod whose host pod went while the syncer was away does not run again, whatever its tenant says of it."""
    world.on_host.frozen = {"node-a", "node-b"}  # no kubelet says that it started
    world.tenant.pod("mine")
    world.tenant.pod("yours")
    world.tenant.bind("mine", "node-b")
    await world.until("both placed", lambda: _noted(world) == 2)
    await world.settle()
    first = {uid_of(pod) for pod in world.on_host.pods()}
    await world.stop()
    for pod in world.on_host.pods():
        world.on_host.delete(pod, grace=0)
    world.tenant.claims_placed("yours", "False")
    world.tenant.claims_placed("mine", "False")
    await world.start()
    await world.check()
    assert not {uid_of(pod) for pod in world.on_host.pods()} - first, "a pod that was placed ran a second time"
    assert not world.plane.store.all(PODS), "the plane did not report that they are lost"


async def record_taken_away(world: World) -> None:
    """An outside hand takes the record away: what runs goes on, and is noted again as soon as the syncer knows of it."""
    world.tenant.pod("web")
    await world.settle()
    await world.stop()
    world.host.do("DELETE", CONFIG_MAPS, {}, namespace=f"bh-{TENANT}", name=RECENT, user="somebody")
    await world.start()
    await world.check()
    assert _noted(world) == 1
    assert (world.plane.get(PODS, "web", SPACE) or {})["status"]["phase"] == "Running"


def _noted(world: World) -> int:
    found = world.host.get(CONFIG_MAPS, RECENT, f"bh-{TENANT}")
    return len(found["data"]["uids"].split()) if found else 0


STORIES: Final[Mapping[str, stories.Story]] = {
    "a pod runs where its tenant bound it, whenever the syncer dies": bound_by_the_tenant,
    "a placed pod that is lost while the syncer is away does not run again": lost_while_away,
    "the record of placed pods taken away": record_taken_away,
}
