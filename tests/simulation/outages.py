"""Short stories about a whole side, host or plane, that lies, loses what it had, or does not answer; by name."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from bulkhead.kube.resources import PODS
from tests.simulation import stories
from tests.simulation.faults import CallFault
from tests.simulation.world import World


async def empty_lists(world: World, *, restart: bool) -> None:
    """A plane that answers every list with nothing, and is the same plane otherwise, deletes nothing."""
    await stories.everything(world)
    world.plane_faults.empty = frozenset({"pods", "services", "configmaps", "secrets"})
    if restart:
        await world.restart()
    else:
        world.relist()
    await world.until("empty lists", lambda: world.plane_faults.happened["list empty"] >= 4, 60)
    await world.wait(200)
    world.oracle.raise_violations()
    assert len(world.on_host.pods()) == 2
    world.quiet()
    world.relist()
    await world.check(150)


async def lost_plane(world: World, *, restart: bool) -> None:
    """A plane that lost its data is another plane: nothing is deleted on the host, and what is new runs."""
    await stories.everything(world)
    world.lose()
    if restart:
        await world.restart()
    await _quarantined(world, 200)


async def restored_plane(world: World, *, restart: bool) -> None:
    """A plane that was restored from before the pods is quarantined: they live on."""
    backup = world.plane.store.snapshot()
    await stories.everything(world)
    # A plane that has counted past the record again cannot be distinguished from one that was never restored.
    for step in range(100):
        world.tenant.label("web", f"step-{step}")
    await world.wait(10)
    world.restore(backup)
    if restart:
        await world.restart()
    await _quarantined(world, 300)


async def lost_answers(world: World, side: str) -> None:
    """Every third write of one side happens, and its answer is lost."""
    faults = world.host_faults if side == "host" else world.plane_faults
    for at in range(0, 60, 3):
        faults.arm(CallFault.LOST, at, writes=True)
    await stories.everything(world)
    world.tenant.delete(PODS, "web")
    world.tenant.pod("more", token=True, refers=True)
    await world.check(90)
    assert faults.happened["call lost"] > 3


async def one_error(world: World, side: str) -> None:
    """One write of one side is refused, once, and nothing else happens that would bring the key back."""
    faults = world.host_faults if side == "host" else world.plane_faults
    world.tenant.pod("first")
    await world.settle()
    faults.arm(CallFault.REFUSED, 0, writes=True)
    world.tenant.pod("web")
    await world.settle(20)
    assert faults.happened["call refused"] == 1


async def throttled(world: World) -> None:
    """For a while half of all calls are answered by 429."""
    for faults in (world.host_faults, world.plane_faults):
        faults.calls, faults.call_rate = (CallFault.THROTTLED,), 0.5
    world.tenant.config("1")
    world.tenant.pod("web", refers=True)
    await world.wait(60)
    assert min(faults.happened["call throttled"] for faults in (world.host_faults, world.plane_faults)) > 0
    world.quiet()
    await world.check(60)


async def away_for_minutes(world: World, side: str) -> None:
    """One side does not answer for five minutes, while the other goes on."""
    await stories.everything(world)
    faults, api = (world.host_faults, world.host) if side == "host" else (world.plane_faults, world.plane)
    faults.away = True
    world.cut(api)
    await world.until("a call that fails", lambda: faults.happened["call refused"], 60)
    await world.wait(60)
    world.tenant.delete(PODS, "db")
    world.tenant.pod("more", refers=True)
    world.on_host.delete(world.on_host.pods()[0])
    await world.wait(240)
    world.quiet()
    await world.check(60)


async def _quarantined(world: World, seconds: float) -> None:
    """Before long the plane is quarantined, and nothing was or will be deleted."""
    session = world.session
    assert session is not None
    await world.until("the plane in quarantine", lambda: session.identity.quarantine, seconds)
    await world.wait(seconds)
    world.oracle.raise_violations()
    assert session.identity.quarantine
    assert len(world.on_host.pods()) == 2


STORIES: Final[Mapping[str, stories.Story]] = {
    "empty lists delete nothing": partial(empty_lists, restart=False),
    "empty lists delete nothing after a restart": partial(empty_lists, restart=True),
    "a plane without its data deletes nothing": partial(lost_plane, restart=False),
    "a plane without its data deletes nothing after a restart": partial(lost_plane, restart=True),
    "a restored plane deletes nothing": partial(restored_plane, restart=False),
    "a restored plane deletes nothing after a restart": partial(restored_plane, restart=True),
    "a key that met an error of the host is tried again": partial(one_error, side="host"),
    "the same for an error of the plane": partial(one_error, side="plane"),
    "answers of the host lost": partial(lost_answers, side="host"),
    "answers of the plane lost": partial(lost_answers, side="plane"),
    "half of all calls throttled": throttled,
    "the host away for five minutes": partial(away_for_minutes, side="host"),
    "the plane away for five minutes": partial(away_for_minutes, side="plane"),
}
