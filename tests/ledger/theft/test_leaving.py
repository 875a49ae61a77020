"""A pod that is being deleted holds its devices until it is gone. A tenant does not choose for others how long that may be."""

from dataclasses import replace

import pytest

from bulkhead.ledger.model import Cause, Needs, Share, Tenant, Why
from tests.ledger.world import COHORT, GPU, World, nodes

LINE = ("", GPU)


def lent(count: int = 1) -> World:
    """The thief runs on all of it; the lender waits for the first node."""
    world = World(nodes=nodes(count))
    world.tenants = {
        "lender": Tenant("lender", COHORT, shares={LINE: Share(8 * count)}),
        "thief": Tenant("thief", COHORT, shares={LINE: Share(0, None)}),
    }
    for _ in range(count):
        world.create("thief", 8)
    world.settle()
    world.now += 500.0
    return world


@pytest.mark.parametrize("grace", [3600.0, 30.0])
def test_a_pod_that_its_tenant_deletes_with_an_hour_of_grace_is_taken_back_by_the_deadline(grace: float) -> None:
    world = lent()
    (stays,) = world.held()
    world.delete(stays, grace)
    world.create("lender", 8)
    decisions = world.decide()
    # With as much grace as a reclaim leaves anyway there is nothing to take back.
    assert [each.cause for each in decisions.reclaim] == ([Cause.BORROWED] if grace > 180.0 else [])
    began = world.now
    world.settle()
    assert [pod.tenant for pod in world.held()] == ["lender"]
    assert world.now <= began + world.rules.reclaim_within + 60.0


def test_an_hour_of_grace_is_an_end_that_is_known() -> None:
    """Its own quota is never reclaimed; waiting users read when it ends."""
    world = lent()
    world.tenants["thief"] = Tenant("thief", COHORT, shares={LINE: Share(8)})
    (stays,) = world.held()
    world.delete(stays, 3600.0)
    world.create("lender", 8)
    decisions = world.decide()
    assert not decisions.reclaim
    assert [each.starts_by for each in decisions.verdicts.values()] == [world.now + 3600.0]


def test_nodes_that_one_tenants_pods_avoid_are_not_avoided_by_others() -> None:
    """Own anti-affinity lets an admission fail at will: two such nodes were closed to all pods that looked like it."""
    world = World(nodes=nodes(2))
    world.tenants = {name: Tenant(name, COHORT, shares={LINE: Share(8)}) for name in ("ada", "thief")}
    world.avoid = {("thief", Needs()): frozenset({"n0", "n1"})}
    for name in ("ada", "thief"):
        world.create(name, 8)
    decisions = world.decide()
    assert [each.pod.tenant for each in decisions.admit] == ["ada"]
    # The node is avoided for a while: that is not a reason to report that the pod can never start.
    assert {each.why for each in decisions.verdicts.values()} == {Why.CAPACITY}
    world.avoid = {}
    assert sorted(each.pod.tenant for each in world.decide().admit) == ["ada", "thief"]


def test_a_pod_that_avoids_a_node_is_placed_by_itself_after_others_found_no_room() -> None:
    """What was found for one tenant is not believed for another that may go elsewhere."""
    world = World(nodes=nodes(1))
    world.tenants = {name: Tenant(name, COHORT, shares={LINE: Share(8)}) for name in ("ada", "bob")}
    world.avoid = {("ada", Needs()): frozenset({"n0"})}
    world.create("ada", 8)
    world.now += 1.0
    world.create("bob", 8)
    # The room is not kept for workloads to which the node is closed.
    assert [each.pod.tenant for each in world.decide().admit] == ["bob"]
    assert replace(world.nodes["n0"]).usable
