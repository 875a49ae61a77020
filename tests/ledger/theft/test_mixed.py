"""Pods, MIG profiles, claims for devices and workers of Slurm on the same nodes, killed at every write.

On each node stand eight whole GPUs and seven slices of another one, in one quota each. Whatever dies when: no device is given
to two, no tenant passes its ceiling, and who lends has its own back in the end.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from bulkhead.ledger.model import Claim, Node, Pod, Share, Snapshot, Stage, Tenant
from tests.ledger.world import COHORT, GPU, World

MIG = "nvidia.com/mig-1g.10gb"
LINES = (("", GPU), ("", MIG))


@dataclass
class Mixed(World):
    """Nodes with several kinds of devices, and claims that hold some."""

    claims: list[Claim] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        return replace(super().snapshot(), claims=tuple(self.claims))

    def _bind(self, pod: Pod) -> None:
        """As the host's scheduler does, by every resource."""
        for node in sorted(self.nodes.values(), key=lambda each: each.name):
            held = self.on(node.name, but=pod.uid)
            fits = all(held[name] + amount <= node.allocatable.get(name, 0) for name, amount in pod.asks.items())
            if pod.pinned in {"", node.name} and node.usable and fits:
                self.pods[pod.uid] = replace(pod, stage=Stage.BOUND, node=node.name)
                return

    def on(self, node: str, but: str = "") -> Counter[str]:
        found: Counter[str] = Counter()
        for pod in self.pods.values():
            if node in {pod.node, pod.pinned} and pod.uid != but:
                found.update(pod.asks)
        return found

    def holds(self, tenant: str, resource: str) -> int:
        claimed = sum(each.asks.get(resource, 0) for each in self.claims if each.tenant == tenant)
        return claimed + sum(pod.asks.get(resource, 0) for pod in self.held() if pod.tenant == tenant)

    def check(self) -> None:
        for node in self.nodes.values():
            held = self.on(node.name)
            assert all(held[name] <= node.allocatable[name] for name in (GPU, MIG)), (node.name, held)
        for resource in (GPU, MIG):
            total = sum(
                share.nominal for each in self.tenants.values() for (_, name), share in each.shares.items() if name == resource
            )
            assert sum(self.holds(name, resource) for name in self.tenants) <= total, resource


def shared() -> Mixed:
    """Three tenants; the lender has most of both, and others run on all of it: pods, slices, workers, a gang, a claim."""
    room = {GPU: 8, MIG: 7, "cpu": 1 << 20, "pods": 110}
    world = Mixed(nodes={name: Node(name, room, {"bulkhead.dev/rack": "r0"}) for name in ("n0", "n1")})
    world.tenants = {
        "lender": Tenant("lender", COHORT, shares={("", GPU): Share(10), ("", MIG): Share(10)}),
        "slurm": Tenant("slurm", COHORT, shares={("", GPU): Share(2, None), ("", MIG): Share(0, None)}),
        "claims": Tenant(
            "claims", COHORT, shares={("", GPU): Share(4), ("", MIG): Share(4, None)}, devices={"gpu.example.com": GPU}
        ),
    }
    world.rules = replace(world.rules, min_runtime=0.0)
    world.claims = [Claim("claims", {GPU: 3})]
    for loss in (-1, 3):
        world.add("slurm", "gpu", 2, slurm_worker=True, loss=loss, virtual_namespace="slurm")
    world.create("slurm", 2, pods=2)
    world.create("slurm", 0, asks={MIG: 3, "cpu": 1000})
    world.create("claims", 0, asks={MIG: 4, "cpu": 1000})
    world.create("claims", 1, asks={GPU: 1, MIG: 2, "cpu": 1000})
    return world


def comes_back(world: Mixed) -> None:
    """The lender wants all of it, in whole GPUs and in slices, and its claims its own."""
    for _ in range(5):
        world.create("lender", 2)
    for _ in range(10):
        world.create("lender", 0, asks={MIG: 1, "cpu": 1000})


def test_without_a_death_every_tenant_ends_with_its_own() -> None:
    world = shared()
    world.settle()
    world.check()
    assert (world.holds("slurm", GPU), world.holds("slurm", MIG), world.holds("claims", MIG)) == (8, 3, 6)
    comes_back(world)
    world.settle()
    world.check()
    assert (world.holds("lender", GPU), world.holds("lender", MIG)) == (10, 10)
    # No tenant's nominal quota was touched, and no claim; the pod with the borrowed slices was evicted, with its GPU.
    assert world.holds("slurm", GPU) == 2
    assert (world.holds("claims", GPU), world.holds("claims", MIG)) == (3, 4)


@pytest.mark.parametrize("stubborn", [False, True])
def test_killed_at_every_write_nothing_is_given_twice_and_nothing_is_lost(stubborn: bool) -> None:
    """The first process dies after so many writes of each turn, over and over; then one comes that lives."""
    for dies_after in range(9):
        world = shared()
        world.settle()
        comes_back(world)
        if stubborn:
            world.stubborn = {pod.uid for pod in world.held()}
        for _ in range(40):
            world.apply(world.decide(), dies_after)
            world.check()
            world.step(7.0)
            world.check()
        world.settle()
        world.check()
        assert (world.holds("lender", GPU), world.holds("lender", MIG)) == (10, 10), dies_after
        assert (world.holds("claims", GPU), world.holds("claims", MIG)) == (3, 4), dies_after


def test_a_claim_that_comes_while_a_pod_waits_is_charged_before_it() -> None:
    """No gate keeps it: what it holds is its tenant's from then on, and no pod of its tenant is admitted into it."""
    world = shared()
    world.pods.clear()
    world.create("claims", 2, asks={GPU: 2, "cpu": 1000})
    (text,) = {each.message for each in world.decide().verdicts.values()}
    assert "1 of your quota of 4 are free" in text
    # The control: without the claim it starts at once.
    world.claims = []
    assert [each.pod.asks[GPU] for each in world.decide().admit] == [2]


def test_a_slice_is_not_a_gpu() -> None:
    """What is lent of one kind is not owed in another, and a pod that asks for both waits for both."""
    world = shared()
    world.pods.clear()
    world.claims = []
    world.create("slurm", 2, asks={GPU: 2, MIG: 8, "cpu": 1000})
    decisions = world.decide()
    assert not decisions.admit
    (said,) = decisions.verdicts.values()
    assert MIG in said.message
    world.create("claims", 4, asks={GPU: 4, "cpu": 1000})
    assert [each.pod.tenant for each in world.decide().admit] == ["claims"]
