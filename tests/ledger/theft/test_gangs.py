"""A gang is fixed when it is admitted: no tenant gains by deleting its pods and creating others under its name.

A lender with a nominal quota stands against a borrower with none. Each case has its control: what the same pods get without the
trick, or a successor that is right.
"""

from dataclasses import replace

import pytest

from bulkhead.ledger.gangs import shape_of
from bulkhead.ledger.model import Expression, Gang, Needs, Pod, Rules, Share, Stage, Tenant, Topology, Why
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


def test_recreated_larger_members_wait_behind_pods_within_nominal_quota() -> None:
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


def test_a_larger_member_does_not_pass_pods_that_wait_for_the_room_even_within_its_tenants_nominal() -> None:
    world = World(nodes=nodes(1))
    world.tenants = {name: Tenant(name, COHORT, shares={LINE: Share(8)}) for name in ("lender", "thief")}
    gang(world, "g", 0, 2)
    runs = world.create("lender", 8)
    world.settle()
    world.tenants["lender"] = Tenant("lender", COHORT, shares={LINE: Share(16)})
    world.create("lender", 8)
    world.now += 1.0
    remade(world, of(world, "g")[1], gpus=8)
    world.end(of(world, runs)[0])
    assert [each.pod.tenant for each in world.decide().admit] == ["lender"]


def test_what_a_member_that_comes_back_says_of_the_topology_does_not_bind_it() -> None:
    world = shared(count=4)
    gang(world, "g", 2, 2)
    (there, lost) = of(world, "g")
    rack = world.nodes[there.node].labels[RACK]
    for node in world.nodes.values():
        if node.labels[RACK] == rack:
            world.add(
                "lender",
                f"on-{node.name}",
                8 if node.name != there.node else 6,
                stage=Stage.BOUND,
                node=node.name,
                admitted=1.0,
            )
    back = remade(world, lost, gang=Gang("g", 64, Topology(RACK, required=True)))
    (admitted,) = world.decide().admit
    assert (admitted.pod.uid, admitted.gang) == (back.uid, there.admitted_gang)


def test_a_member_that_can_never_start_has_no_quota_kept_that_others_could_borrow() -> None:
    world = World(nodes=nodes(4))
    world.tenants = {
        "thief": Tenant("thief", COHORT, shares={LINE: Share(16)}),
        "lender": Tenant("lender", COHORT, shares={LINE: Share(8, None)}),
    }
    gang(world, "g", 8, 2, Topology(RACK, required=True))
    lost = of(world, "g")[1]
    remade(world, lost)
    # Of its rack the node is gone, and another one has room.
    world.nodes[lost.node] = replace(world.nodes[lost.node], usable=False)
    for _ in range(2):
        world.create("lender", 8)
    assert [each.pod.tenant for each in world.decide().admit] == ["lender", "lender"]


def test_a_gang_that_is_taken_back_is_not_completed_in_the_same_turn() -> None:
    """The member would stay when the others go, and those would come back as its members, for ever."""
    world = World(nodes=nodes(2))
    world.tenants = {
        "lender": Tenant("lender", COHORT, shares={LINE: Share(32)}),
        "thief": Tenant("thief", COHORT, shares={LINE: Share(0, None)}),
        "other": Tenant("other", COHORT, weight=100, shares={LINE: Share(0, None)}),
    }
    gang(world, "g", 4, 2)
    world.now += 500.0
    (stays, lost) = of(world, "g")
    elsewhere = next(name for name in world.nodes if name != stays.node)
    world.add("lender", "fills", 4, stage=Stage.BOUND, node=elsewhere, admitted=1.0)
    remade(world, lost)
    world.create("other", 8)
    decisions = world.decide()
    assert [each.pod.uid for each in decisions.reclaim] == [stays.uid]
    assert decisions.admit == ()


def test_a_member_that_came_back_makes_its_gang_no_younger() -> None:
    world = shared()
    gang(world, "g", 8, 3)
    world.now += 1000.0
    remade(world, of(world, "g")[0])
    world.settle()
    assert [pod.stage for pod in of(world, "g")] == [Stage.BOUND] * 3
    world.create("lender", 8)
    assert len(world.decide().reclaim) == 3


def test_of_two_gangs_the_one_with_the_least_important_pod_goes_first() -> None:
    world = shared(count=2)
    gang(world, "low", 4, 2)
    world.now += 10.0
    gang(world, "high", 4, 2)
    for name, priorities in (("low", (0, 9)), ("high", (5, 5))):
        for pod, priority in zip(of(world, name), priorities, strict=True):
            world.pods[pod.uid] = replace(pod, priority=priority)
    world.now += 500.0
    world.create("lender", 8)
    assert {each.pod.virtual_name for each in world.decide().reclaim} == {"low"}


def test_a_pod_that_ran_beside_a_gone_gang_counts_for_the_next_one_of_its_name() -> None:
    world = shared()
    made = gang(world, "g", 1, 3)
    world.add("thief", "g", 1, made)
    world.settle()
    beside = next(pod for pod in of(world, "g") if pod.alone)
    for pod in of(world, "g"):
        if pod is not beside:
            world.end(pod)
    for _ in range(2):
        world.add("thief", "g", 1, made)
    new = world.decide().admit
    assert [len(each.gang.members) if each.gang else None for each in new] == [1, 1]
    assert {each.gang.size for each in new if each.gang} == {2}
    # The control: without it two of three are not enough.
    world.end(beside)
    assert world.decide().admit == ()


def test_a_gang_that_is_made_again_smaller_does_not_wait_for_the_size_of_pods_that_cannot_end() -> None:
    world = shared()
    gang(world, "g", 8, 3)
    lost = of(world, "g")[0]
    world.silence(lost.node)
    for pod in of(world, "g"):
        if pod is lost:
            world.delete(pod, 30.0)
        else:
            world.end(pod)
    world.now += 600.0
    for _ in range(2):
        world.add("thief", "g", 8, Gang("g", 2))
    assert [admitted.gang.size for admitted in world.decide().admit if admitted.gang] == [2, 2]
    # The control: as long as a pod of the former gang stays, the others are its members, or start by themselves.
    world = shared()
    gang(world, "g", 8, 3)
    for pod in of(world, "g")[1:]:
        world.end(pod)
    for _ in range(2):
        world.add("thief", "g", 8, Gang("g", 2))
    assert [admitted.gang.size for admitted in world.decide().admit if admitted.gang] == [3, 3]


def test_a_member_is_the_same_whatever_nodes_its_tenant_has_cordoned_and_another_wherever_else_it_may_go() -> None:
    plain = Pod("u", "bh-thief-work", "p", {GPU: 1}, Stage.WAITING, 0.0, tenant="thief")

    def named(operator: str) -> Pod:
        return replace(plain, needs=Needs(terms=((Expression("metadata.name", operator, ("n1",), of_name=True),),)))

    assert shape_of(named("NotIn")) == shape_of(plain)
    others = [
        named("In"),
        replace(plain, needs=Needs(terms=((),))),
        replace(plain, asks={GPU: 2}),
        replace(plain, asks={GPU: 1, "cpu": 1}),
    ]
    assert len({shape_of(each) for each in (plain, *others)}) == 5
    zone = Expression("zone", "In", ("a",))
    both = replace(plain, needs=Needs(terms=((zone, Expression("metadata.name", "NotIn", ("n1",), of_name=True)),)))
    assert shape_of(both) == shape_of(replace(plain, needs=Needs(terms=((zone,),)))) != shape_of(plain)
