"""Pods that never had the gate, or lost it without the ledger: they count, gain nothing by it, and are evicted first.

The host's policies refuse both to syncers, tenants and admins (`tests/chart`). Here a pod got past them all the same: because a
policy was off, the pod is older than its tenant's cohort, or a syncer is of an older release.
"""

import pytest

from bulkhead.ledger.model import Cause, Pod, Share, Stage, Tenant, Why
from tests.ledger.world import COHORT, GPU, World, nodes

LINE = ("", GPU)


def world_of(nominal: int = 16, count: int = 2) -> World:
    world = World(nodes=nodes(count))
    world.tenants = {
        "lender": Tenant("lender", COHORT, shares={LINE: Share(nominal)}),
        "thief": Tenant("thief", COHORT, shares={LINE: Share(0, None)}),
        "other": Tenant("other", COHORT, shares={LINE: Share(0, None)}),
    }
    return world


def stripped(world: World, tenant: str, gpus: int, node: str = "n0", stage: Stage = Stage.BOUND) -> Pod:
    """Without the gate, and without a note of the ledger's."""
    return world.add(tenant, "stripped", gpus, stage=stage, node=node if stage is Stage.BOUND else "")


@pytest.mark.parametrize("stage", [Stage.BOUND, Stage.ADMITTED])
def test_what_runs_without_the_gate_counts_like_all_else(stage: Stage) -> None:
    world = world_of()
    stripped(world, "thief", 8, stage=stage)
    standing = world.decide().standings
    assert (standing["thief"][LINE].used, standing["thief"][LINE].borrowed) == (8, 8)
    assert standing["lender"][LINE].lent == 8
    # It cannot be borrowed a second time.
    world.create("other", 8)
    world.create("other", 8)
    assert [each.pod.asks[GPU] for each in world.decide().admit] == [8]


def test_it_is_reclaimed_for_its_lender() -> None:
    world = world_of()
    pod = stripped(world, "thief", 8)
    world.now += 500.0
    world.create("lender", 8)
    world.create("lender", 8)
    decisions = world.decide()
    assert {each.node for each in decisions.admit} == {"n1"}
    assert [(each.pod.uid, each.cause) for each in decisions.reclaim] == [(pod.uid, Cause.BORROWED)]


def test_a_tenant_that_strips_a_gate_has_no_turn_before_others() -> None:
    """Its pod without a node counts from now on; the room on nodes goes to the workload that has a right to it."""
    world = world_of(nominal=8, count=1)
    stripped(world, "thief", 8, stage=Stage.ADMITTED)
    world.create("lender", 8)
    decisions = world.decide()
    # It has not run for its minimum: then it goes.
    assert not decisions.admit
    world.now += world.rules.min_runtime + 1.0
    assert [each.pod.tenant for each in world.decide().reclaim] == ["thief"]
    world.settle()
    assert world.used("lender", LINE) == 8


def test_beyond_the_ceiling_nothing_more_of_its_tenant_starts() -> None:
    world = world_of(nominal=8)
    world.tenants["thief"] = Tenant("thief", COHORT, shares={LINE: Share(0, 4)})
    stripped(world, "thief", 8)
    world.create("thief", 1)
    world.create("other", 1)
    decisions = world.decide()
    assert not decisions.admit
    assert {each.why for each in decisions.verdicts.values()} == {Why.QUOTA, Why.COHORT}


def test_no_pod_without_a_note_completes_a_gang() -> None:
    """A gang is the set that was noted when it was admitted: a stripped pod of its name is not a member."""
    world = world_of(nominal=8)
    world.create("thief", 4, pods=2)
    world.settle()
    (gang,) = {pod.virtual_name for pod in world.held()}
    like = next(pod for pod in world.held())
    assert like.gang is not None
    world.add("thief", gang, 8, like.gang, stage=Stage.BOUND, node="n1")
    world.now += 500.0
    world.create("lender", 8)
    world.settle()
    assert world.used("lender", LINE) == 8
