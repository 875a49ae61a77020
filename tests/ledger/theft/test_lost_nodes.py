"""How users of other schedulers lost GPUs: nodes that go, hang or come again, and pods that do not end.

    slurm-bridge 36   a pod that never became ready kept its GPU while that was given out again
    slurm-bridge 16   GPUs were given out while the pod that had them was still ending
    slurm-bridge 43   after any node was deleted, the pods on all others died
    slurm-bridge 49   a pod without a kubelet never ended, and its GPUs never came back

Here a pod holds its devices until the host's API has forgotten it, whatever the pod or its node reports. That must neither give
out a GPU twice nor keep its owner waiting for ever.
"""

from dataclasses import replace

import pytest

from bulkhead.ledger.books import OVERDUE_SECONDS
from bulkhead.ledger.model import Cause, Node, Pod, Share, Stage, Tenant, Why
from tests.ledger.world import COHORT, GPU, World, nodes

LINE = ("", GPU)


class Losing(World):
    """A world in which kubelets fall silent: what they run is neither ended nor forgotten."""

    def watched(self, seconds: float, of: str) -> float | None:
        """Let the ledger and all actors act, until a pod of a tenant is admitted. Returns after how long."""
        began = self.now
        while self.now <= began + seconds:
            decisions = self.decide()
            if any(each.pod.tenant == of for each in decisions.admit):
                return self.now - began
            self.apply(decisions)
            self.step(5.0)
        return None

    def used_on(self, node: str) -> int:
        return sum(pod.asks[GPU] for pod in self.held() if node in {pod.node, pod.pinned})


def lending(count: int = 3, nominal: int = 16) -> Losing:
    """The thief runs on two of the nodes, on all that the lender has."""
    world = Losing(nodes=nodes(count))
    world.tenants = {
        "lender": Tenant("lender", COHORT, shares={LINE: Share(nominal)}),
        "thief": Tenant("thief", COHORT, shares={LINE: Share(0, None)}),
    }
    for _ in range(2):
        world.create("thief", 8)
        world.settle()
        world.now += 500.0
    return world


def newest(world: World) -> Pod:
    return max(world.held(), key=lambda pod: pod.created)


def test_what_is_taken_back_from_a_lost_node_and_never_ends_is_not_waited_for() -> None:
    world = lending()
    world.silence(newest(world).node)
    world.create("lender", 8)
    (back,) = world.decide().reclaim
    assert back.pod.node in world.silent
    # Twice the bound: the one that is lost had its chance, and then another one goes.
    took = world.watched(2 * world.rules.reclaim_within + OVERDUE_SECONDS + 60.0, "lender")
    assert took is not None
    # Lost pods still count: their processes may still run.
    assert world.used("thief", LINE) + 8 <= 16
    assert {pod.node for pod in world.held() if pod.tenant == "thief"} == {back.pod.node}


def test_nor_is_what_its_tenant_deleted_itself() -> None:
    world = lending()
    lost = newest(world)
    # The host has not noticed yet that the kubelet is silent.
    world.silence(lost.node, noticed=False)
    world.delete(lost, 30.0)
    world.create("lender", 8)
    for late in (0.0, 30.0, OVERDUE_SECONDS):
        # An end that is a little late is still the next thing to happen.
        world.now += late
        assert not world.decide().reclaim
    assert world.watched(30.0 + OVERDUE_SECONDS + world.rules.reclaim_within + 60.0, "lender") is not None


def test_what_a_drain_ends_is_waited_for_and_nothing_else_is_taken_back_for_it() -> None:
    world = lending()
    drained = newest(world)
    world.nodes[drained.node] = replace(world.nodes[drained.node], usable=False)
    world.delete(drained, 30.0)
    world.create("lender", 8)
    assert not world.decide().reclaim
    assert world.watched(60.0, "lender") is not None
    assert world.used("thief", LINE) == 8
    # The control: a node that is not ready ends nothing, so its quota is taken back like any other.
    world = lending()
    lost = newest(world)
    world.silence(lost.node)
    world.delete(lost, 30.0)
    world.create("lender", 8)
    assert world.decide().reclaim


def test_no_message_names_a_start_that_has_passed() -> None:
    world = Losing(nodes=nodes(1))
    world.tenants = {name: Tenant(name, name, shares={LINE: Share(8)}) for name in ("ada", "bob", "cyd")}
    # It has a time limit, at which its kubelet would have ended it.
    world.add("ada", "limited", 8, stage=Stage.BOUND, node="n0", admitted=0.0, ends_by=world.now + 100.0)
    world.silence("n0", noticed=False)
    world.create("bob", 8)
    assert [each.starts_by for each in world.decide().verdicts.values()] == [world.now + 100.0]
    world.now += 100.0 + OVERDUE_SECONDS + 1.0
    assert [each.starts_by for each in world.decide().verdicts.values()] == [None]


def test_what_is_lost_is_taken_back_once_and_not_again_and_again() -> None:
    world = lending()
    lost = newest(world)
    world.silence(lost.node)
    world.create("lender", 8)
    said: list[str] = []
    for _ in range(200):
        decisions = world.decide()
        said += [each.pod.uid for each in decisions.reclaim]
        world.apply(decisions)
        world.step(5.0)
    # Decided once for each: not again and again for what cannot be taken.
    assert len(said) == len(set(said)) == 2


def test_the_quota_of_what_is_lost_comes_back_when_the_host_forgets_it() -> None:
    world = lending()
    for pod in world.held():
        world.silence(pod.node)
    world.create("lender", 8)
    assert world.watched(2 * world.rules.reclaim_within + OVERDUE_SECONDS + 300.0, "lender") is None
    (text,) = {each.message for uid, each in world.decide().verdicts.items() if world.pods[uid].tenant == "lender"}
    assert "reclaimed within" not in text
    # The host's garbage collector takes the pods of a node that was deleted.
    gone = min(world.silent)
    del world.nodes[gone]
    for pod in [each for each in world.held() if each.node == gone]:
        world.end(pod)
    assert world.watched(60.0, "lender") is not None


@pytest.mark.parametrize("again", [0, 1])
def test_a_deleted_node_that_comes_again_has_what_runs_on_it_and_all_others_run_on(again: int) -> None:
    """43: nothing of other nodes goes. And a node of the same name is not empty while the host has pods of it."""
    world = lending()
    there = newest(world)
    before = {pod.uid for pod in world.held()}
    node = world.nodes.pop(there.node)
    decisions = world.decide()
    assert not decisions.reclaim
    if again:
        world.nodes[node.name] = node
    world.create("lender", 8)
    world.create("lender", 8)
    world.tenants["lender"] = Tenant("lender", COHORT, shares={LINE: Share(32)})
    decisions = world.decide()
    # No other pod goes to the node on which its pod still runs; the third node is free.
    assert {each.node for each in decisions.admit} == {"n1"}
    assert before <= {pod.uid for pod in world.held()}
    assert world.used_on(node.name) == 8


@pytest.mark.parametrize(
    "state",
    [
        {"stage": Stage.BOUND},  # crashes again and again, or never becomes ready
        {"stage": Stage.BOUND, "ending": True, "ends_at": 0.0, "ends_by": 0.0},  # had to be gone long ago
        {"stage": Stage.BOUND, "ending": True, "ends_at": 1e9, "ends_by": 1e9},
        {"stage": Stage.BOUND, "reclaim_by": 0.0, "reclaim_cause": Cause.BORROWED.value},
        {"stage": Stage.ADMITTED, "pinned": "n0"},
    ],
)
@pytest.mark.parametrize("usable", [True, False])
def test_whatever_a_pod_is_its_gpus_are_its_own(state: dict[str, object], usable: bool) -> None:
    """36 and 16: what gives a GPU back is that the pod is gone, and nothing that it says of itself."""
    world = Losing(nodes=nodes(1))
    world.tenants = {name: Tenant(name, name, shares={LINE: Share(8)}) for name in ("ada", "bob")}
    world.nodes["n0"] = replace(world.nodes["n0"], usable=usable)
    node = {} if state["stage"] is Stage.ADMITTED else {"node": "n0"}
    world.add("ada", "odd", 4, admitted=world.now, **(node | state))
    world.create("bob", 8)
    world.create("bob", 4)
    # Quota of all of them is free: room alone keeps them.
    assert sum(each.pod.asks[GPU] for each in world.decide().admit) <= (4 if usable else 0)
    for pod in [each for each in world.held() if each.tenant == "ada"]:
        world.end(pod)
    world.nodes["n0"] = Node("n0", world.nodes["n0"].allocatable, world.nodes["n0"].labels)
    assert sum(each.pod.asks[GPU] for each in world.decide().admit) == 8


def test_a_quota_that_only_the_lost_hold_is_told_as_that() -> None:
    world = lending(count=3)
    for pod in world.held():
        world.silence(pod.node)
        world.delete(pod, 0.0)
    world.now += OVERDUE_SECONDS + 1.0
    world.create("lender", 8)
    decisions = world.decide()
    assert not decisions.reclaim
    (said,) = decisions.verdicts.values()
    assert said.why in {Why.QUOTA, Why.COHORT}
