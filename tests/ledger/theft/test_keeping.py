"""Devices reserved for the first waiting workload are idle: only for one that can start, and for a while if unknown when."""

from dataclasses import replace

import pytest

from bulkhead.ledger.admit import KEPT_WITHOUT_FORECAST_SECONDS
from bulkhead.ledger.model import AdmittedGang, Flavor, Gang, Needs, Node, Pod, Rules, Share, Stage, Tenant, Topology, Why
from tests.ledger.world import COHORT, GPU, KIND, RACK, World, nodes

LINE = ("", GPU)


def broken(count: int = 2) -> World:
    """On each node something small runs for ever; each tenant has quota for all."""
    world = World(nodes=nodes(count))
    world.tenants = {name: Tenant(name, name, shares={LINE: Share(64)}) for name in ("ada", "bob", "cyd")}
    for node in world.nodes:
        world.add("ada", f"runs-on-{node}", 1, stage=Stage.BOUND, node=node, created=0.0, admitted=0.0)
    return world


def starts(world: World) -> list[str]:
    return [each.pod.tenant for each in world.decide().admit]


def test_room_that_may_never_come_free_is_kept_for_a_while_and_then_used() -> None:
    world = broken(1)
    world.create("bob", 8)
    world.now += 1.0
    world.create("cyd", 4)
    # At first it is kept: otherwise small work would for ever be put into what comes free.
    decisions = world.decide()
    assert (starts(world), decisions.next_at) == ([], world.now + KEPT_WITHOUT_FORECAST_SECONDS)
    world.apply(decisions)
    world.now += KEPT_WITHOUT_FORECAST_SECONDS - 1.0
    assert starts(world) == []
    world.now += 1.0
    decisions = world.decide()
    assert [each.pod.tenant for each in decisions.admit] == ["cyd"]
    # It waits on, reads why, and has its turn where it fits; its time does not begin again.
    (said,) = decisions.verdicts.values()
    assert said.why is Why.CAPACITY
    world.apply(decisions)
    world.now += 10.0
    world.create("cyd", 1)
    assert starts(world) == ["cyd"]
    for pod in world.held():
        world.end(pod)
    assert "bob" in starts(world)


def test_a_recreated_pod_waits_behind_pods_that_waited_meanwhile() -> None:
    world = broken(1)
    world.create("bob", 8)
    world.apply(world.decide())
    world.now += 100.0
    world.create("cyd", 4)
    world.now += 1.0
    for pod in [each for each in world.pods.values() if each.tenant == "bob"]:
        world.end(pod)
        world.create("bob", 8)
    assert starts(world) == ["cyd"]


def test_a_pod_that_chose_its_node_keeps_nothing_of_it_while_its_neighbour_runs_on() -> None:
    world = broken(2)
    name = world.create("bob", 8)
    for pod in [each for each in world.pods.values() if each.virtual_name == name]:
        world.pods[pod.uid] = replace(pod, needs=Needs(selector=(("bulkhead.dev/rack", "r0"), ("host", "n0"))))
    world.nodes["n0"] = replace(world.nodes["n0"], labels=world.nodes["n0"].labels | {"host": "n0"})
    world.now += 1.0
    for _ in range(2):
        world.create("cyd", 7)
    assert starts(world) == ["cyd", "cyd"]


def test_the_first_of_one_cohort_is_not_the_first_of_another() -> None:
    world = broken(2)
    for name in ("bob", "cyd"):
        world.create(name, 8)
        world.now += 1.0
    # A node is kept for each of them: small work of a third cohort is not put there.
    world.create("ada", 4)
    assert starts(world) == []
    # The control: for bob alone one node is kept.
    for pod in [each for each in world.pods.values() if each.tenant == "cyd"]:
        world.end(pod)
    assert starts(world) == ["ada"]


@pytest.mark.parametrize("tenant", ["", "ada"])
def test_room_of_the_hosts_own_pods_is_not_waited_for(tenant: str) -> None:
    """An agent on each node, or a plane: a workload that needs the whole node never starts there, yet kept its place."""
    world = broken(0)
    world.nodes = nodes(2)
    for node in world.nodes:
        world.pods[node] = Pod(node, "x", node, {GPU: 1}, Stage.BOUND, 0.0, tenant=tenant, node=node, admitted=0.0)
    world.create("bob", 8)
    world.now += 1.0
    world.create("cyd", 7)
    decisions = world.decide()
    never = [each for each in decisions.verdicts.values() if each.why is Why.NEVER]
    assert (len(never), [each.pod.tenant for each in decisions.admit]) == ((1, ["cyd"]) if not tenant else (0, ["cyd"]))


def test_a_pod_with_quota_of_a_flavor_does_not_wait_behind_pods_that_may_not_have_it() -> None:
    """A pod that joins a gang goes to the flavor of that alone: it kept out who could start within nominal on another."""
    fast, slow = ("fast", GPU), ("slow", GPU)
    world = World(nodes={kind: Node(kind, {GPU: 8, "cpu": 1 << 20, "pods": 110}, {KIND: kind}) for kind in ("fast", "slow")})
    world.rules = Rules(flavors=tuple(Flavor(kind, GPU, {KIND: kind}) for kind in ("fast", "slow")))
    prefers = {GPU: ("fast", "slow")}
    world.tenants = {
        "ada": Tenant("ada", COHORT, shares={fast: Share(8, None), slow: Share(8, None)}, prefers=prefers),
        "bob": Tenant("bob", COHORT, weight=100, shares={fast: Share(8, None), slow: Share(0, None)}, prefers=prefers),
    }
    gang = AdmittedGang(1.0, 1, None, (("s", 1),))
    runs = {"stage": Stage.BOUND, "node": "fast", "admitted": 1.0, "flavor": "fast", "admitted_gang": gang, "shape": "s"}
    world.add("ada", "g", 8, Gang("g", 1), **runs)
    world.add("ada", "g", 7, Gang("g", 1))
    world.now += 1.0
    world.create("bob", 8)
    world.now += 1.0
    world.create("ada", 4)
    assert starts(world) == ["ada"]


def test_how_much_cpu_others_leave_on_nodes_is_not_told() -> None:
    """Asking for a little more each time measures a neighbour; of accelerators the numbers are what tenants plan by."""
    world = broken(1)
    world.nodes = {name: replace(each, allocatable=each.allocatable | {"cpu": 8321}) for name, each in world.nodes.items()}
    world.create("bob", 1, asks={GPU: 1, "cpu": 8000})
    (text,) = {each.message for each in world.decide().verdicts.values()}
    assert "none of them has room for it now" in text
    assert "7321" not in text
    assert "free" not in text
    # Nor for how many small pods there is room where the most is free.
    (waiting,) = [pod for pod in world.pods.values() if pod.tenant == "bob"]
    world.end(waiting)
    for gpus in (0, 1):
        gang = [world.add("cyd", "g", 0, Gang("g", 3, Topology(RACK, required=True))) for _ in range(3)]
        for pod in gang:
            world.pods[pod.uid] = replace(pod, asks={GPU: gpus, "cpu": 2700} if gpus else {"cpu": 2700})
        (text,) = {each.message for each in world.decide().verdicts.values() if each.why is Why.TOPOLOGY}
        assert "none of 1 such domains has room for it now" in text
        for pod in gang:
            world.end(pod)
    # The control: of what is short in accelerators it says how much is free.
    world = broken(1)
    world.create("bob", 8)
    assert "7 nvidia.com/gpu are free there" in next(each.message for each in world.decide().verdicts.values())
