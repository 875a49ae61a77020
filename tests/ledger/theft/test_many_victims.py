"""A workload that needs what hundreds of others borrow gets it in one decision. Kueue 13148: one stopped for 700 victims.

The test counts what a decision does, not how long it takes: it looks for nodes a bounded number of times, and at each victim a
bounded number of times, however many there are. `make bench NAME=ledger` measures seconds.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest.mock import patch

import pytest

from bulkhead.ledger.model import Cause, Decisions, Gang, Share, Stage, Tenant, Topology
from bulkhead.ledger.place import Board
from bulkhead.ledger.reclaim import Search
from tests.ledger.world import COHORT, GPU, RACK, World, nodes

LINE = ("", GPU)


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """How often nodes are looked for, and groups at."""
    found: Counter[str] = Counter()

    def counted(what: str, of: type, name: str) -> object:
        real = getattr(of, name)

        def call(*args: object, **more: object) -> object:
            found[what] += 1
            return real(*args, **more)

        return patch.object(of, name, call)

    with counted("places", Board, "place"), counted("looks", Search, "_take"):  # type: ignore[attr-defined]
        yield found


def lent(victims: int, thieves: int = 1) -> World:
    """Single pods of one GPU each hold all that the lender has."""
    world = World(nodes=nodes(-(-victims // 8), per_rack=8))
    names = [f"thief-{number}" for number in range(thieves)]
    world.tenants = {"lender": Tenant("lender", COHORT, shares={LINE: Share(victims)})}
    world.tenants |= {name: Tenant(name, COHORT, shares={LINE: Share(0, None)}) for name in names}
    for number in range(victims):
        made = {"stage": Stage.BOUND, "node": f"n{number // 8}", "created": 0.1 * number, "admitted": 0.1 * number}
        world.add(names[number % thieves], f"job-{number}", 1, **made)
    return world


def decided(world: World) -> tuple[Decisions, Counter[str]]:
    with counting() as found:
        decisions = world.decide()
    return decisions, found


@pytest.mark.parametrize("thieves", [1, 7])
@pytest.mark.parametrize(("pods", "gpus"), [(88, 8), (704, 1), (1, 8)])
def test_hundreds_go_in_one_decision_and_no_more_than_are_needed(pods: int, gpus: int, thieves: int) -> None:
    world = lent(704, thieves)
    gang = Gang("large", pods) if pods > 1 else None
    for _ in range(pods):
        world.add("lender", "large", gpus, gang)
    decisions, found = decided(world)
    assert len(decisions.reclaim) == pods * gpus
    assert {each.cause for each in decisions.reclaim} == {Cause.BORROWED}
    assert found["places"] <= 16
    assert found["looks"] <= 2 * 704


def test_twice_as_many_victims_are_twice_the_work() -> None:
    work = []
    for victims in (352, 704, 1408):
        world = lent(victims, thieves=4)
        for _ in range(victims // 8):
            world.add("lender", "large", 8, Gang("large", victims // 8))
        decisions, found = decided(world)
        assert len(decisions.reclaim) == victims
        work.append(found)
    for less, more in pairwise(work):
        assert more["looks"] <= 2.2 * less["looks"]
        assert more["places"] <= less["places"] + 8


def test_a_queue_of_single_pods_takes_back_one_each_without_looking_at_all_for_each() -> None:
    world = lent(704, thieves=4)
    for number in range(200):
        world.create("lender", 1)
        world.now += 0.01 * number
    taken: set[str] = set()
    for _ in range(8):
        decisions, found = decided(world)
        taken |= {each.pod.uid for each in decisions.reclaim}
        # Each tries a few places; it does not go through the 704 for each of the 200.
        assert found["looks"] <= 20 * 200
        assert found["places"] <= 20 * 200
        world.apply(decisions)
    assert len(taken) == 200


def test_what_would_not_help_is_given_up_after_a_bounded_search() -> None:
    """Domains that others' own pods break: taking everything back would not make the gang fit."""
    world = lent(704, thieves=4)
    world.tenants["own"] = Tenant("own", COHORT, shares={LINE: Share(704)})
    for number in range(0, 88, 8):
        uid = next(uid for uid, pod in world.pods.items() if pod.node == f"n{number}")
        pod = world.pods.pop(uid)
        world.add("own", "stays", 1, stage=Stage.BOUND, node=pod.node, created=0.0, admitted=0.0)
    for _ in range(8):
        world.add("lender", "rack", 8, Gang("rack", 8, Topology(RACK, required=True)))
    decisions, found = decided(world)
    assert not decisions.reclaim
    assert found["places"] <= 400
    assert found["looks"] <= 30_100
