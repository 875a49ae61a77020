"""Short stories about pods that wait for the ledger; by name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.objects import key_of
from bulkhead.kube.resources import PODS
from tests.simulation import stories
from tests.simulation.ledgeractor import gated
from tests.simulation.sides import origin_of
from tests.simulation.world import SPACE, WORK, World

_MERGE: Final = "application/merge-patch+json"


def _gang(world: World, name: str, size: int, *, priority: int = 0) -> list[str]:
    names = [f"{name}-{number}" for number in range(size)]
    for each in names:
        world.tenant.pod(each, gpus=1, gang=(name, size), priority=priority)
    return names


def _on_host(world: World) -> dict[str, Obj]:
    return {origin_of(each).name: each for each in world.on_host.pods() if marks.is_mirrored(each)}


def _running(world: World, *names: str) -> Callable[[], bool]:
    def so() -> bool:
        there = _on_host(world)
        return all(name in there and there[name]["status"].get("phase") == "Running" for name in names)

    return so


async def better_one_comes(world: World, crash: str = "") -> None:
    """A worse pod that waits gives its place, whenever the syncer dies, and waits until the better one is done."""
    for calls in range(1, 9 if crash else 2):
        world.on_host.ledger.idle = True
        world.tenant.pod("low", gpus=4)
        await world.settle(60)
        assert list(_on_host(world)) == ["low"]
        if crash and world.life is not None:
            world.life.crash_at = (len(world.trace) + calls, crash)
        world.tenant.pod("high", gpus=3, priority=5)
        await world.wait(10)
        if world.crashed.is_set():
            await world.restart()
        await world.settle(60)
        assert list(_on_host(world)) == ["high"]
        world.on_host.ledger.idle = False
        await world.until("the better one runs", _running(world, "high"))
        world.on_host.finish(_on_host(world)["high"], "Succeeded")
        await world.until("the worse one runs", _running(world, "low"), 60)
        for name in ("low", "high"):
            world.tenant.delete(PODS, name, grace=0)
        await world.check()
    assert not crash or world.lives > 4


async def admitted_meanwhile(world: World) -> None:
    """The ledger is faster than a syncer whose watch lags: what it has admitted is not taken back."""
    world.on_host.ledger.idle = True
    world.tenant.pod("low", gpus=4)
    await world.settle(60)
    world.host_faults.lag["pods"] = 8.0
    world.on_host.ledger.idle = False
    world.act()
    assert not gated(_on_host(world)["low"])
    world.tenant.pod("high", gpus=4, priority=5)
    await world.wait(20)
    assert _running(world, "low")()
    world.quiet()
    await world.check()


async def gangs_stay_whole(world: World) -> None:
    """Of two gangs with room for one the better is on the host, whole; the other one comes when it is done."""
    world.on_host.ledger.idle = True
    worse = _gang(world, "worse", 3)
    await world.settle(60)
    better = _gang(world, "better", 4, priority=1)
    await world.settle(60)
    assert sorted(_on_host(world)) == better
    world.on_host.ledger.idle = False
    await world.until("the better gang runs", _running(world, *better))
    for name in better:
        world.on_host.finish(_on_host(world)[name], "Succeeded")
    await world.until("the other gang runs", _running(world, *worse), 60)
    huge = _gang(world, "huge", 5, priority=9)
    await world.settle(60)
    assert not set(huge) & set(_on_host(world))
    await world.check()


async def nobody_slips_in(world: World) -> None:
    """While a large pod waits for what is in use, neither a worse one nor half of a gang takes the rest before it."""
    world.tenant.pod("runs", gpus=2)
    await world.until("it runs", _running(world, "runs"))
    gang = _gang(world, "gang", 3)
    await world.settle(60)
    assert list(_on_host(world)) == ["runs"]
    world.tenant.pod("small", gpus=1)
    await world.settle(60)
    assert list(_on_host(world)) == ["runs"]
    # It does not help a pod that requests no GPU.
    world.tenant.pod("other")
    await world.until("another one runs", _running(world, "other"))
    world.on_host.finish(_on_host(world)["runs"], "Succeeded")
    await world.until("all run", _running(world, *gang, "small"), 60)
    await world.check()


async def never_whole(world: World) -> None:
    """Pods of a gang that is larger than the quota, of which some would fit alone, stay in the plane and say so."""
    for name, number in (("small", 2), ("large", 3)):
        world.tenant.pod(name, gpus=number, gang=("odd", 2), priority=9)
        await world.settle(60)
    await world.check()
    assert not _on_host(world)
    world.tenant.pod("other", gpus=4)
    await world.until("another one runs", _running(world, "other"))
    await world.check()


async def taken_back(world: World, *, finalizer: bool) -> None:
    """What ran is evicted and says why; what never had a node waits at the gate again, whatever holds its host pod."""
    world.tenant.pod("runs", gpus=2)
    await world.until("it runs", _running(world, "runs"))
    await world.settle(60)
    world.on_host.schedules = False
    world.tenant.pod("admitted", gpus=2)
    await world.until("it is admitted", lambda: "admitted" in (there := _on_host(world)) and not gated(there["admitted"]))
    world.on_host.ledger.idle = True
    first = _on_host(world)["admitted"]
    if finalizer:
        _hold(world, first, ["example.com/held"])
    for name in ("runs", "admitted"):
        world.on_host.ledger.take_back(_on_host(world)[name])
    await world.wait(10)
    if finalizer:
        _hold(world, first, None)
    await world.settle(60)
    assert list(_on_host(world)) == ["admitted"]
    assert gated(_on_host(world)["admitted"])
    assert world.plane.get(PODS, "runs", SPACE) is None
    world.on_host.ledger.idle, world.on_host.schedules = False, True
    await world.until("it runs after all", _running(world, "admitted"))
    await world.check()


def _hold(world: World, host: Obj, finalizers: list[str] | None) -> None:
    body = {"metadata": {"finalizers": finalizers}}
    world.host.do("PATCH", PODS, body, namespace=WORK, name=key_of(host).name, user="somebody", content_type=_MERGE)


async def held_back(world: World) -> None:
    """Pods that their tenant holds back, as its own queues do, block no other pod, on the host or before it."""
    for name in ("held", "later"):
        world.tenant.pod(name, gpus=4, priority=5, gate="example.com/mine")
        await world.settle(60)
    assert list(_on_host(world)) == ["held"]
    world.tenant.pod("ready", gpus=3)
    await world.until("it runs", _running(world, "ready"), 60)
    assert list(_on_host(world)) == ["ready"]
    world.tenant.lift_gates("later")
    await world.settle(60)
    world.on_host.finish(_on_host(world)["ready"], "Succeeded")
    await world.until("what was held back longer runs", _running(world, "later"), 60)
    world.on_host.finish(_on_host(world)["later"], "Succeeded")
    await world.settle(60)
    world.tenant.lift_gates("held")
    await world.until("the other one runs", _running(world, "held"), 60)
    await world.check()


async def ends_while_it_waits(world: World) -> None:
    """A pod that its tenant marks as ended, while it waits as the first, no longer blocks other pods."""
    world.tenant.pod("runs", gpus=2)
    await world.until("it runs", _running(world, "runs"))
    world.tenant.pod("large", gpus=3, priority=5)
    await world.settle(60)
    world.tenant.pod("small", gpus=1)
    await world.settle(60)
    assert list(_on_host(world)) == ["runs"]
    world.plane.do("PATCH", PODS, {"status": {"phase": "Failed"}}, namespace=SPACE, name="large", subresource="status",
                   user="tenant", content_type=_MERGE)  # fmt: skip
    await world.until("the small one runs", _running(world, "small"), 20)
    world.tenant.delete(PODS, "large", grace=0)
    await world.check()


async def another_word(world: World) -> None:
    """Pods that say something else of a gang than the others are tried again as soon as those are gone."""
    world.on_host.ledger.idle = True
    world.tenant.pod("first", gpus=1, gang=("odd", 3))
    await world.settle(60)
    for name in ("second", "third"):
        world.tenant.pod(name, gpus=1, gang=("odd", 2))
    await world.wait(10)
    assert list(_on_host(world)) == ["first"]
    world.on_host.ledger.idle = False
    world.tenant.delete(PODS, "first", grace=0)
    await world.until("the others run", _running(world, "second", "third"), 20)
    await world.check()


async def told_anew(world: World) -> None:
    """Each new verdict is shown, and the tenant's own gate goes before the ledger's."""
    world.on_host.ledger.gpus = 1
    world.tenant.pod("waits", gpus=2, gate="example.com/mine")
    await world.settle(60)
    for free in (1, 0, 1):
        world.on_host.ledger.gpus = free
        await world.settle(60)
    world.tenant.lift_gates("waits")
    world.on_host.ledger.gpus = 4
    await world.until("it runs", _running(world, "waits"))
    await world.check()


STORIES: Final[Mapping[str, stories.Story]] = {
    "a worse pod gives its place to a better one": better_one_comes,
    "nor is it forgotten when the syncer dies before a call": partial(better_one_comes, crash="before"),
    "nor when it dies after one": partial(better_one_comes, crash="after"),
    "what the ledger has admitted is not taken back": admitted_meanwhile,
    "gangs are on the host whole or not at all": gangs_stay_whole,
    "no pod slips in before a gang that waits": nobody_slips_in,
    "a gang that is never whole stays away": never_whole,
    "pods that their tenant holds back block no other": held_back,
    "a pod that is marked ended while it waits blocks no other": ends_while_it_waits,
    "a pod that changes its gang is tried again without the former members": another_word,
    "what is taken back runs no second time, and what never ran waits again": partial(taken_back, finalizer=False),
    "nor does it end what never ran when something holds its host pod": partial(taken_back, finalizer=True),
    "what the ledger says is shown": told_anew,
}
