"""Evictions that disruption budgets refuse, and those that fail because of the host."""

from bulkhead.api import ledger
from bulkhead.api.ledger import Reclaimed
from bulkhead.kube.errors import ApiError
from tests.controller.dispatch.pods import host_pod, show
from tests.controller.dispatch.world import World

# What an API server says of a pod that two budgets select; with status 500, as if it had failed itself.
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def noted(by: float) -> dict[str, str]:
    return {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(by, "ReclaimedBorrowed", ""))}


async def test_a_pod_of_several_budgets_is_deleted_at_its_deadline_and_no_other_waits_for_it() -> None:
    world = World()
    now = world.clock.now().timestamp()
    marked = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    show(world.pods, host_pod("a", version=6, notes=noted(now + 5), status=marked))
    world.host.answer = lambda verb, name: (
        ApiError(500, "", SEVERAL) if verb == "eviction" else host_pod(name, version=9, notes=noted(now + 5), status=marked)
    )
    assert await world.reclaims.carry_out([]) == now + 2
    assert world.writes.away == 0
    assert world.pods.doubts() == []
    world.clock.advance(6)
    await world.reclaims.carry_out([])
    assert [verb for verb, *_ in world.host.asked] == ["eviction", "delete"]


async def test_any_other_failure_of_an_eviction_is_the_hosts() -> None:
    world = World()
    show(world.pods, host_pod("a", version=6, notes=noted(1e10)))
    world.host.answer = lambda *_: ApiError(500, "InternalError", "failed calling webhook")
    await world.reclaims.carry_out([])
    assert world.writes.away == 1
    assert [pod.name for pod in world.pods.doubts()] == ["a"]
