"""Short stories about one object that something goes wrong with, with those about bindings, copies, resizes and a whole side.

Those that say "Found" showed a fault of the syncer once.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from bulkhead.api import names
from bulkhead.kube.objects import uid_of
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS, SERVICE_ACCOUNTS
from tests.simulation import bindings, copies, ledgeractor, ledgers, outages, resizes, stories, virtualtime
from tests.simulation.faults import CallFault, WatchFault
from tests.simulation.world import SPACE, WORK, Tenant, World


async def host_pod_from_before_it_ran(world: World) -> None:
    """Found: a list from before a pod was placed took its start back; when the host pod went, the pod waited for ever."""
    world.tenant.pod("web")
    await world.until("the host pod made", world.on_host.pods, 5, act=False)
    unplaced = world.host.store.version
    await world.settle()
    world.host_faults.arm(WatchFault.GONE)
    world.on_host.report(world.on_host.pods()[0], "Running")
    world.host_faults.stale = world.host.store.version - unplaced
    await world.until("the watch broken", lambda: world.host_faults.happened["watch gone"], 2, step=0.01, act=False)
    world.host_faults.lag["pods"] = 20.0
    await world.wait(5, act=False)
    assert world.plane.store.all(PODS)[0]["status"].get("startTime"), "its start was taken back"
    world.on_host.remove_node("node-a")
    world.quiet()
    await world.check()
    assert not world.plane.store.all(PODS)


async def space_labelled_meanwhile(world: World) -> None:
    """Found: a label of the namespace that changed while a host pod was being made was taken for one that it was made with."""
    for step in range(40):
        world.tenant.pod(f"web-{step}")
        # Later and later: some of these labels come while the create is on its way.
        await world.wait(0.001 * step, act=False)
        world.tenant.label_space(f"step-{step}")
    await world.check()
    assert len(world.on_host.pods()) == 40


async def waiting_for_room(world: World) -> None:
    """Found: a pod that waited for quota was given a token at each try."""
    world.tenant.pod("big", gpus=3)
    await world.settle()
    world.tenant.pod("late", gpus=3, token=True)
    await world.until("the pod says that it waits", lambda: _unscheduled(world, "late"))
    await world.wait(100)
    assert not _tokens_asked_for(world)
    world.tenant.delete(PODS, "big", grace=0)
    await world.check()
    assert _tokens_asked_for(world)


async def token_taken_away(world: World) -> None:
    """Found: a token Secret that an outside hand deleted was remembered as written."""
    world.tenant.pod("web", token=True)
    await world.settle()
    name = world.host.store.all(SECRETS, WORK)[0]["metadata"]["name"]
    world.host.do("DELETE", SECRETS, {}, namespace=WORK, name=name, user="somebody")
    await world.settle()


async def token_of_an_ended_pod(world: World) -> None:
    """A pod that has ended, and is kept for its result, keeps no token."""
    world.tenant.pod("job", token=True)
    await world.until("the pod runs with its token", lambda: _running(world) and world.host.store.all(SECRETS, WORK))
    world.on_host.finish(world.on_host.pods()[0], "Succeeded")
    await world.check()
    assert world.on_host.pods()[0]["status"]["phase"] == "Succeeded"
    assert not world.host.store.all(SECRETS, WORK)


async def wrong_clock(world: World, skew: float) -> None:
    """Found: a token that was given while the clock was ahead was not renewed before it expired."""
    world.tenant.pod("before", token=True)
    await world.settle()
    world.clock.skew = skew
    world.tenant.pod("meanwhile", token=True)
    await world.wait(120)
    world.clock.skew = 0.0
    for _ in range(20):
        await world.wait(250)
        assert not world.oracle.differences()
    assert len(world.host.store.all(SECRETS, WORK)) == 2


async def late_copy_of_the_plane(world: World, lag: float) -> None:
    """Found: a pod that was placed and evicted before the plane's events came ran a second time."""
    world.tenant.pod("web")
    await world.until("the host pod made", world.on_host.pods, 5, step=0.1, act=False)
    world.plane_faults.lag["pods"] = lag
    await world.until("the pod placed", lambda: (world.plane.get(PODS, "web", SPACE) or {})["spec"].get("nodeName"), 5)
    for pod in world.on_host.pods():
        world.on_host.delete(pod)
    await world.wait(2 * lag)
    world.quiet()
    await world.settle()
    assert not world.plane.store.all(PODS)


async def squatters(world: World) -> None:
    """Objects of others have the names that ours would have: they stay as they are."""
    uid = world.settings.tenant_uid
    for r, kind, name, body in (
        (PODS, "Pod", "web", {"spec": {"containers": [{"name": "x", "image": "y:1"}]}}),
        (CONFIG_MAPS, "ConfigMap", "config", {"data": {"whose": "not yours"}}),
    ):
        meta = {"name": names.host_name(uid, kind, SPACE, name), "namespace": WORK}
        world.host.do("POST", r, {"metadata": meta} | body, user="somebody")
    world.tenant.config("1")
    world.tenant.pod("web", refers=True)
    await world.until("the pod says that its name is taken", lambda: _unscheduled(world, "web"))
    world.tenant.delete(PODS, "web", grace=0)
    world.tenant.delete(CONFIG_MAPS, "config")
    await world.wait(5)
    await world.restart()
    await world.ready()
    await world.wait(5)
    world.oracle.raise_violations()
    assert len(world.host.store.all(CONFIG_MAPS, WORK)) == 1
    assert [pod for pod in world.on_host.pods() if not pod["metadata"].get("labels")]


async def cordons(world: World, *, lag: float) -> None:
    """Host and tenant cordon, and the syncer dies: no cordon is forgotten, and pods wait or move as they must."""
    world.plane_faults.lag |= {"nodes": lag}
    world.tenant.pod("before")
    await world.settle(60)
    placed = world.on_host.pods()[0]["spec"]["nodeName"]
    for name in ("node-a", "node-b"):
        world.tenant.cordon(name, True)
    await world.wait(2 * lag + 2)
    world.tenant.pod("waits", token=True)
    await world.settle(60)
    where = [pod["spec"].get("nodeName") for pod in world.on_host.pods()]
    assert sorted(map(str, where)) == ["None", placed]
    world.on_host.cordon("node-a", True)
    await world.settle(60)
    await world.restart((3, "after"))
    world.on_host.cordon("node-a", False)
    world.tenant.cordon("node-b", False)
    await world.wait(2 * lag + 5)
    await world.restart()
    await world.settle(60)
    assert {pod["spec"].get("nodeName") for pod in world.on_host.pods()} == {placed, "node-b"}
    world.on_host.cordon("node-b", True)
    await world.settle(60)
    await world.stop()
    world.on_host.cordon("node-b", False)
    await world.start()
    await world.check()


async def tainted_while_it_was_made(world: World) -> None:
    """Found by a storm: a taint that a tenant put on a node in the moments of its making went with the server's own."""
    for calls in range(1, 8):
        world.on_host.remove_node("node-b")
        await world.settle()
        world.on_host.add_node("node-b")
        await world.until("the node in the plane", lambda: world.plane.get(NODES, "node-b"), 2, step=0.001)
        await world.wait(0.002 * calls)
        world.tenant.taint("node-b", True)
        await world.settle()


async def uncordoned_before_it_is_seen(world: World) -> None:
    """Found by a storm: a host pod made for cordons that ended before the cache showed it kept away from all nodes for ever."""
    await world.ready()
    for name in ("node-a", "node-b"):
        world.tenant.cordon(name, True)
    await world.settle()
    world.host_faults.lag["pods"] = 60.0
    world.host_faults.arm(CallFault.LATE, writes=True)
    world.tenant.pod("web")
    await world.until("the host pod made", world.on_host.pods, 5)
    world.tenant.cordon("node-b", False)
    await world.wait(30)
    assert world.host_faults.happened["call late"]
    world.quiet()
    await world.check()
    assert [pod["spec"].get("nodeName") for pod in world.on_host.pods()] == ["node-b"]


async def claim_deleted(world: World) -> None:
    """Found by a storm: a syncer that died after the host claim was deleted left the tenant's volume in the plane for ever."""
    for calls in range(1, 9):
        world.tenant.claim("data")
        world.tenant.pod("web", claim="data")
        await world.settle(60)
        world.tenant.delete(PERSISTENT_VOLUME_CLAIMS, "data")
        world.tenant.delete(PODS, "web", grace=0)
        assert world.life is not None
        world.life.crash_at = (len(world.trace) + calls, "after")
        await world.wait(5)
        if world.crashed.is_set():
            await world.restart()
        await world.settle(60)
    assert world.lives > 4


async def two_spaces(world: World) -> None:
    """Objects of one name in two namespaces are two."""
    world.plane.do("POST", NAMESPACES, {"metadata": {"name": "other"}})
    world.plane.do("POST", SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "other"}})
    other = Tenant(world.plane, "other")
    for tenant in (world.tenant, other):
        tenant.config(tenant.space)
        tenant.secret(tenant.space)
        tenant.pod("web", refers=True, token=True)
    await world.check()
    world.plane.do("DELETE", NAMESPACES, {}, name="other")
    await world.check()
    assert len(world.on_host.pods()) == 1


async def replaced_while_away(world: World) -> None:
    """The syncer was away while every pod was deleted by force and recreated, without what it needed before."""
    await stories.everything(world)
    earlier = {uid_of(pod) for pod in world.on_host.pods()}
    await world.stop()
    for name in ("web", "db"):
        world.tenant.delete(PODS, name, grace=0)
    await world.wait(2)
    world.tenant.pod("web")
    world.on_host.frozen = {"node-a"}
    await world.start()
    await world.until("the earlier host pods pending deletion", lambda: _all_end(world, earlier), 15)
    world.on_host.frozen = set()
    await world.check()


async def deleted_while_away(world: World) -> None:
    """The syncer was away while all was deleted: what ran with a copy goes before the copy does."""
    await stories.everything(world)
    await world.stop()
    for name in ("web", "db"):
        world.tenant.delete(PODS, name, grace=0)
    await world.start()
    await world.check()


async def late_copy_of_the_host(world: World) -> None:
    """A pod is replaced while the copy of the host is ten seconds old."""
    await stories.everything(world)
    world.host_faults.lag["pods"] = 10.0
    for _ in range(4):
        world.tenant.delete(PODS, "web", grace=0)
        await world.wait(1)
        world.tenant.pod("web", refers=True)
        await world.wait(9)
    world.quiet()
    await world.check()


async def host_events_again(world: World) -> None:
    """The host's watch shows the last pod again while the next one of its name runs."""
    await stories.everything(world, pods=("web",))
    for number in range(3):
        world.tenant.delete(PODS, "web", grace=0)
        await world.wait(1)
        world.tenant.pod("web")
        await world.settle(60)
        world.host_faults.arm(WatchFault.REPLAY)
        world.on_host.report(world.on_host.pods()[0], "Running", "10.244.9.9")
        await world.until("events again", lambda number=number: world.host_faults.happened["watch replay"] > number, 5)
        await world.wait(5)
        world.oracle.raise_violations()
    await world.check()


def _unscheduled(world: World, name: str) -> str:
    """The reason for which a pod says that it does not run."""
    conditions = (world.plane.get(PODS, name, SPACE) or {})["status"].get("conditions") or ()
    return next(
        (each.get("reason", "") for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"), ""
    )


def _running(world: World) -> bool:
    return any(pod["status"].get("phase") == "Running" for pod in world.on_host.pods())


def _tokens_asked_for(world: World) -> list[str]:
    return [call for call in world.trace if call.endswith("/token")]


def _all_end(world: World, uids: set[str]) -> bool:
    there = [pod for pod in world.on_host.pods() if uid_of(pod) in uids]
    return len(there) == len(uids) and all(pod["metadata"].get("deletionTimestamp") for pod in there)


_OWN: Final[Mapping[str, stories.Story]] = {
    "a pod that ran is not shown as new again": host_pod_from_before_it_ran,
    "a namespace's new label reaches pods in the making": space_labelled_meanwhile,
    "a pod that waits for room is given no token": waiting_for_room,
    "a token that was taken away is recreated": token_taken_away,
    "a pod that has ended keeps no token": token_of_an_ended_pod,
    "no token expires because the clock was ahead": partial(wrong_clock, skew=3600.0),
    "no token expires because the clock was behind": partial(wrong_clock, skew=-7200.0),
    "a placed pod does not run again when the plane's watches lag": partial(late_copy_of_the_plane, lag=3.0),
    "nor when they lag a lot": partial(late_copy_of_the_plane, lag=20.0),
    "nothing of others is adopted": squatters,
    "a claim takes its volume with it, whenever the syncer dies": claim_deleted,
    "one name in two namespaces is two objects": two_spaces,
    "a cordon of host or tenant is never forgotten": partial(cordons, lag=0.0),
    "nor when its watch of nodes lags": partial(cordons, lag=5.0),
    "nor a taint of a node that is just being made": tainted_while_it_was_made,
    "nor for a pod whose creation was not seen": uncordoned_before_it_is_seen,
    "pods replaced while the syncer was away": replaced_while_away,
    "pods deleted while the syncer was away": deleted_while_away,
    "pods replaced while the host's watches lag": late_copy_of_the_host,
    "the host's events come again": host_events_again,
}
_ALL: Final = (_OWN, bindings.STORIES, copies.STORIES, resizes.STORIES, outages.STORIES, ledgers.STORIES)
STORIES: Final[Mapping[str, stories.Story]] = {name: story for part in _ALL for name, story in part.items()}
# Of two stories of one name only the last would be played.
assert len(STORIES) == sum(map(len, _ALL)), "two stories have one name"


def play(name: str, seed: int = 7) -> None:
    """One story in a world of its own."""

    async def whole() -> None:
        async with World.open(seed, **(ledgeractor.SETTINGS if name in ledgers.STORIES else {})) as world:
            await STORIES[name](world)
            world.oracle.raise_violations()

    virtualtime.run(whole)
