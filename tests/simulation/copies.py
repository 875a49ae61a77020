"""Short stories about copies of ConfigMaps, Secrets and Services that are needed, or no longer needed; by name."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES
from tests.simulation import stories
from tests.simulation.faults import CallFault, WatchFault
from tests.simulation.world import WORK, World


async def copy_of_a_lingering_pod(world: World) -> None:
    """Found: while any pod without a virtual one was still ending on the host, unneeded copies stayed."""
    await stories.everything(world, pods=("web",))
    world.tenant.pod("other")
    await world.settle()
    world.on_host.frozen = {"node-a"}
    world.tenant.delete(PODS, "other", grace=0)
    world.tenant.delete(PODS, "web", grace=0)
    ending = await world.until("both host pods pending deletion", lambda: _ending(world, 2), 5)
    await world.restart()
    await world.wait(5)
    assert world.host.store.all(CONFIG_MAPS, WORK), "its pod may still run"
    world.on_host.delete(next(pod for pod in ending if pod["metadata"]["name"].startswith("web")), grace=0)
    await world.wait(5)
    assert not world.host.store.all(CONFIG_MAPS, WORK)
    world.on_host.frozen = set()
    await world.settle(10)


async def copy_of_a_pod_that_was_replaced(world: World) -> None:
    """Found: a pod that came again under its name, needing less, took the copies from under its predecessor's host pod."""
    await stories.everything(world, pods=("web",))
    world.tenant.delete(PODS, "web", grace=0)
    world.tenant.pod("web")
    await world.settle(10)
    assert not world.host.store.all(CONFIG_MAPS, WORK)


async def pod_gone_before_its_host_pod_is_seen(world: World) -> None:
    """Found: a virtual pod that went before the cache showed its host pod took the copies away that this runs with."""
    await _made_unseen(world, lag=2.0)
    world.tenant.delete(PODS, "web", grace=0)
    await world.settle(10)
    assert not world.host.store.all(CONFIG_MAPS, WORK)


async def pod_gone_and_its_host_pod_never_seen(world: World) -> None:
    """Found by a storm: of a host pod that came and went between two lists no event came, and its copies stayed for ever."""
    await _made_unseen(world, lag=60.0)
    world.on_host.frozen = {"node-a", "node-b"}
    world.tenant.delete(PODS, "web", grace=0)
    await world.wait(5)
    world.on_host.delete(world.on_host.pods()[0], grace=0)
    world.quiet()
    world.relist(world.host)
    await world.settle()
    assert not world.host.store.all(CONFIG_MAPS, WORK)


async def pod_replaced_before_its_host_pod_is_seen(world: World) -> None:
    """Found: a pod that came again, needing less, before its predecessor's host pod was seen, took the copies from that."""
    await _made_unseen(world, lag=5.0)
    world.on_host.report(world.on_host.pods()[0], "Running", "10.244.9.9")
    world.tenant.delete(PODS, "web", grace=0)
    world.tenant.pod("web")
    await world.settle(20)
    assert not world.host.store.all(CONFIG_MAPS, WORK)


async def service_replaced_under_an_old_list(world: World) -> None:
    """Found: while the plane was asked about an earlier Service's copy, the cache moved on, and the present one was deleted."""
    world.tenant.service(80)
    await world.settle()
    world.tenant.delete(SERVICES, "web")
    world.tenant.service(80)
    await world.settle()
    # The list of a replica that is behind shows the first copy; its watch shows at once that one's end and the second.
    world.host_faults.stale = 3
    world.host_faults.arm(WatchFault.GONE)
    world.tenant.service(81)
    await world.until("the watch broken", lambda: world.host_faults.happened["watch gone"], 5, act=False)
    await world.until("a list from the past", lambda: world.host_faults.happened["list stale"], 5, act=False)
    await world.wait(8, act=False)
    world.quiet()
    await world.check()


async def copy_needed_again(world: World, lag: float) -> None:
    """Found: a copy that was just taken away looked as if it were there, and the next pod was made without it."""
    await stories.everything(world, pods=("web",))
    world.host_faults.lag |= {"secrets": lag, "configmaps": lag}
    world.tenant.delete(PODS, "web", grace=0)
    await world.until("the copy of the Secret gone", lambda: not world.host.store.all(SECRETS, WORK), 10, step=0.05)
    world.tenant.pod("next", refers=True)
    await world.settle()


async def copy_perhaps_taken_away(world: World) -> None:
    """Found by a storm: after an unanswered deletion the syncer took a copy for present and created the next pod without it."""
    await stories.everything(world, pods=("web",))
    world.host_faults.lag |= {"secrets": 60.0, "configmaps": 60.0}
    world.tenant.delete(PODS, "web", grace=0)
    await world.until("the host pod gone", lambda: not world.on_host.pods(), 20, step=0.01)
    for _ in range(2):
        world.host_faults.arm(CallFault.LATE, writes=True)
    await world.until("the copy of the Secret gone", lambda: not world.host.store.all(SECRETS, WORK), 20, step=0.01)
    world.tenant.pod("next", refers=True)
    await world.settle(120)
    assert world.host_faults.happened["call late"]


async def _made_unseen(world: World, *, lag: float) -> None:
    """A pod with all that it needs, whose host pod is made and not yet shown by the watch."""
    world.tenant.config("1")
    world.tenant.secret("1")
    await world.settle()
    world.host_faults.lag |= {"pods": lag}
    world.tenant.pod("web", refers=True)
    await world.until("the host pod made", world.on_host.pods, 2, step=0.01)


def _ending(world: World, count: int) -> list[Obj]:
    """The host pods that are pending deletion, once there are so many."""
    found = [pod for pod in world.on_host.pods() if pod["metadata"].get("deletionTimestamp")]
    return found if len(found) == count else []


STORIES: Final[Mapping[str, stories.Story]] = {
    "a copy goes although another pod lingers on the host": copy_of_a_lingering_pod,
    "a copy just taken away is there before the next pod": partial(copy_needed_again, lag=0.0),
    "the same when the host's watches of copies lag": partial(copy_needed_again, lag=5.0),
    "the same if it stays unknown whether it was": copy_perhaps_taken_away,
    "a pod that was replaced keeps its copies to its end": copy_of_a_pod_that_was_replaced,
    "a host pod that was not seen yet keeps its copies": pod_gone_before_its_host_pod_is_seen,
    "nor are they left if it is never seen": pod_gone_and_its_host_pod_never_seen,
    "copies of a replaced pod outlive the pod that was not seen yet": pod_replaced_before_its_host_pod_is_seen,
    "a Service that was replaced keeps its new copy": service_replaced_under_an_old_list,
}
