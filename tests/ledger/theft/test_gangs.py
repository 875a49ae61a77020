"""What a gang is, is fixed when it is admitted: nobody gains by deleting its pods and making others under its name.

A lender with a nominal quota stands against a borrower with none. Each case has its control: what the same pods get without the
trick, or what comes back rightly.
"""

from dataclasses import replace

import pytest

from bulkhead.ledger.model import Gang, Pod, Rules, Share, Stage, Tenant, Topology, Why
from tests.ledger.world import COHORT, GPU, RACK, World, nodes

LINE = ("", GPU)


def shared(borrower: int = 0, count: int = 3) -> World:
    """Nodes of eight GPUs each, all of them the lender's nominal but for the borrower's own."""
    world = World(nodes=nodes(count))
    world.tenants = {
        "lender": Tenant("lender", COHORT, shares={LINE: Share(8 * count - borrower)}),
        "thief": Tenant("thief", COHORT, shares={LINE: Share(borrower, None)}),
    }
    return world


def gang(world: World, name: str, gpus: int, pods: int, topology: Topology | None = None) -> Gang:
    made = Gang(name, pods, topology)
    for _ in range(pods):
        world.add("thief", name, gpus, made)
    world.settle()
    return made


def of(world: World, name: str) -> list[Pod]:
    return sorted((pod for pod in world.pods.values() if pod.virtual_name == name), key=lambda pod: pod.uid)


def remade(world: World, pod: Pod, **more: object) -> Pod:
    """Its tenant deletes a pod, and makes another one of its name."""
    world.end(pod)
    return world.add(pod.tenant, pod.virtual_name, **{"gpus": pod.asks[GPU], "gang": pod.gang} | more)  # type: ignore[arg-type]


def held_by(world: World, tenant: str) -> int:
    return world.used(tenant, LINE)


def test_members_that_are_made_again_larger_wait_behind_whoever_has_nominal_quota() -> None:
    world = shared()
    small = gang(world, "g", 0, 4)
    for _ in range(3):
        world.create("lender", 8)
    world.now += 1.0
    for pod in of(world, "g")[1:]:
        remade(world, pod, gpus=8)
    decisions = world.decide()
    assert [each.pod.tenant for each in decisions.admit] == ["lender"] * 3
    world.settle()
    assert (held_by(world, "lender"), held_by(world, "thief")) == (24, 0)
    # The control: as they were, they come back beside the lender's pods.
    for pod in [each for each in of(world, "g") if each.stage is Stage.WAITING]:
        remade(world, pod, gpus=0)
    world.settle()
    assert [pod.stage for pod in of(world, "g")] == [Stage.BOUND] * 4
    assert small.size == 4


def test_larger_members_that_fit_nowhere_keep_nothing_from_the_lender() -> None:
    """Their places were kept, and the lender read that all of its quota was free while it waited."""
    world = shared()
    gang(world, "g", 0, 4, Topology(RACK, required=True))
    for pod in of(world, "g")[1:]:
        remade(world, pod, gpus=8)
    world.now += 1.0
    for _ in range(3):
        world.create("lender", 8)
    world.settle()
    assert held_by(world, "lender") == 24


def test_members_that_come_back_with_other_needs_are_judged_like_any_other_pod() -> None:
    world = shared()
    gang(world, "g", 2, 2)
    somewhere = Topology(RACK, required=True)
    for pod in of(world, "g")[1:]:
        back = remade(world, pod)
        world.pods[back.uid] = replace(
            back, needs=replace(back.needs, selector=(("disk", "fast"),)), gang=Gang("g", 2, somewhere)
        )
    waits = next(pod for pod in of(world, "g") if pod.stage is Stage.WAITING)
    said = world.settle().verdicts[waits.uid]
    assert said.why is Why.NEVER, said
    world.create("lender", 8)
    world.create("lender", 8)
    world.settle()
    assert held_by(world, "lender") == 16


def test_what_one_later_pod_says_of_the_size_changes_nothing_for_the_gang() -> None:
    world = shared()
    gang(world, "g", 2, 2)
    world.add("thief", "g", 2, Gang("g", 64, Topology(RACK, required=True)))
    lost = of(world, "g")[0]
    remade(world, lost)
    world.settle()
    assert [pod.stage for pod in of(world, "g")] == [Stage.BOUND] * 3
    # Whichever came first took the place that was free; the other one is a pod by itself.
    assert sorted(pod.alone for pod in of(world, "g")) == [False, False, True]


def test_a_member_comes_back_before_other_borrowers_as_long_as_its_tenant_borrows_no_more() -> None:
    world = shared(count=1)
    world.rules = Rules(fair_preemption=False)
    world.tenants["other"] = Tenant("other", COHORT, shares={LINE: Share(0, None)}, weight=100)
    gang(world, "g", 2, 2)
    world.create("other", 5)
    world.now += 1.0
    back = remade(world, of(world, "g")[0])
    assert [each.pod.uid for each in world.decide().admit] == [back.uid]
    # Who could take it back at once, for fairness, comes first.
    world.rules = Rules(fair_preemption=True)
    assert [each.pod.tenant for each in world.decide().admit] == ["other"]
    world.rules = Rules(fair_preemption=False)
    # Had its tenant borrowed something else since, the one who borrows less would have come first.
    single = world.add("thief", "x", 0)
    world.pods[single.uid] = replace(single, asks={GPU: 1}, stage=Stage.BOUND, node="elsewhere", admitted=world.now)
    assert [each.pod.tenant for each in world.decide().admit] == ["other"]


def young(world: World, name: str) -> None:
    """A pod more, without GPUs."""
    world.add("thief", name, 0, of(world, name)[0].gang)


def important(world: World, name: str) -> None:
    world.add("thief", name, 0, of(world, name)[0].gang, priority=1000)


def anew(world: World, name: str) -> None:
    """A member of it, again."""
    remade(world, next(pod for pod in of(world, name) if pod.stage is Stage.BOUND))


def nothing(world: World, name: str) -> None:
    """The control."""
    del world, name


@pytest.mark.parametrize("trick", [young, important, anew, nothing])
def test_a_borrowed_gang_is_taken_back_whatever_its_tenant_adds_to_it(trick: object) -> None:
    world = shared()
    rules = world.rules = Rules()
    gang(world, "g", 8, 3)
    world.create("lender", 24 // 3)
    began = world.now
    while held_by(world, "lender") == 0:
        assert world.now <= began + rules.min_runtime + rules.reclaim_within + 60.0, "the lender waits for ever"
        trick(world, "g")  # type: ignore[operator]
        for _ in range(5):
            world.apply(world.decide())
            world.step(10.0)
    assert held_by(world, "lender") == 8


def test_a_pod_of_high_priority_shields_no_gang_from_what_others_lend() -> None:
    """Of two gangs the one goes whose least important pod is less important, whatever else it holds."""
    world = shared(count=2)
    gang(world, "high", 8, 1)
    world.now += 10.0
    gang(world, "low", 8, 1)
    for pod in of(world, "high"):
        world.pods[pod.uid] = replace(pod, priority=5)
    world.add("thief", "low", 0, of(world, "low")[0].gang, priority=9)
    world.settle()
    world.now += 500.0
    world.create("lender", 8)
    assert {each.pod.virtual_name for each in world.decide().reclaim if each.pod.asks[GPU]} == {"low"}
