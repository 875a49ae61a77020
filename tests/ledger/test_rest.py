"""What is missing of a gang that is admitted: it comes to the rack and the flavor that the others have, or it waits."""

from dataclasses import replace
from typing import Any

import pytest

from bulkhead.ledger.decide import decide
from bulkhead.ledger.gangs import members, shape_of
from bulkhead.ledger.model import (
    AdmittedGang,
    Decisions,
    Flavor,
    Gang,
    Node,
    Pod,
    Rules,
    Share,
    Snapshot,
    Stage,
    Tenant,
    Topology,
)

GPU, RACK, KIND, COHORT = "nvidia.com/gpu", "bulkhead.dev/rack", "gpu-kind", "research"
ONE_RACK = Topology(RACK, required=True)
# Two racks, of which each has a node of both kinds.
NODES = tuple(
    Node(f"{kind}-{rack}", {GPU: 8, "pods": 100}, {RACK: rack, KIND: kind}) for kind in ("fast", "slow") for rack in "ab"
)
FLAVORS = tuple(Flavor(kind, GPU, {KIND: kind}) for kind in ("fast", "slow"))


def pod(uid: str, gpus: int = 4, topology: Topology | None = ONE_RACK, **more: Any) -> Pod:
    # Created after the others were admitted, as the successor of one that ended.
    made = Pod(uid, "bh-ada-work", uid, {GPU: gpus}, Stage.WAITING, 50.0, "ada", virtual_namespace="default", virtual_name=uid)
    return replace(made, **{"gang": Gang("g", 2, topology)} | more)


def runs(uid: str, node: str, **more: Any) -> Pod:
    return pod(uid, **{"stage": Stage.BOUND, "node": node, "created": 1.0, "admitted": 1.0} | more)


def noted(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """As they are on the host when all of these were admitted as one gang, and those that wait were made again since."""
    of_gang = [each for each in pods if each.gang is not None and not each.ending]
    if not of_gang or of_gang[0].gang is None:
        return pods
    gang = AdmittedGang(1.0, of_gang[0].gang.size, of_gang[0].gang.topology, members(of_gang))
    return tuple(
        replace(each, admitted_gang=gang, shape=shape_of(each)) if each.gang is not None and each.admitted else each
        for each in pods
    )


def decided(*pods: Pod, flavors: tuple[str, ...] = (), nodes: tuple[Node, ...] = NODES) -> Decisions:
    shares = {(name, GPU): Share(64, 0) for name in flavors or ("",)}
    tenant = Tenant("ada", COHORT, shares=shares, prefers={GPU: flavors} if flavors else {})
    rules = Rules(flavors=FLAVORS if flavors else ())
    return decide(Snapshot({"ada": tenant}, nodes, noted(pods), {COHORT: rules}), 100.0)


def goes_to(*pods: Pod, **more: Any) -> str | None:
    """The node of the pod `w`; None where it waits."""
    return next((each.node for each in decided(*pods, **more).admit if each.pod.uid == "w"), None)


def full(*nodes: str) -> tuple[Pod, ...]:
    return tuple(replace(runs(f"on-{node}", node, gpus=8), gang=None) for node in nodes)


def only(*names: str) -> tuple[Node, ...]:
    return tuple(replace(node, usable=node.name in names) for node in NODES)


@pytest.mark.parametrize(("there", "beside", "tighter"), [("fast-a", "slow-a", "slow-b"), ("slow-b", "fast-b", "fast-a")])
def test_it_comes_to_the_rack_of_those_that_run_or_are_on_their_way(there: str, beside: str, tighter: str) -> None:
    on_its_way = pod("r", stage=Stage.ADMITTED, admitted=60.0, pinned=there)
    for first in (runs("r", there), on_its_way):
        assert goes_to(first, pod("w", 8), *full(tighter)) == beside


def test_it_waits_while_its_rack_is_full_though_another_one_is_free() -> None:
    gang = runs("r", "slow-b"), pod("w", 8)
    assert goes_to(*gang, *full("fast-b")) is None
    # The controls: room in its rack, and a gang that only likes to be in one.
    assert goes_to(*gang) == "fast-b"
    likes = tuple(replace(each, gang=Gang("g", 2, Topology(RACK, required=False))) for each in gang)
    assert goes_to(*likes, *full("fast-b")) in {"fast-a", "slow-a"}


def test_what_is_ending_says_no_more_where_the_gang_is() -> None:
    gang = (
        runs("old", "fast-a", ending=True, gang=Gang("g", 3, ONE_RACK)),
        runs("r", "fast-b", gang=Gang("g", 3, ONE_RACK)),
        pod("w", gang=Gang("g", 3, ONE_RACK)),
    )
    assert goes_to(*gang, nodes=only("fast-a", "slow-a")) is None
    assert goes_to(*gang, nodes=only("fast-b", "slow-b")) == "fast-b"


def test_it_comes_to_its_rack_and_to_the_flavor_of_those_that_run() -> None:
    gang = runs("r", "slow-b", flavor="slow"), pod("w", 4, flavor="")
    kinds = {"flavors": ("fast", "slow")}
    assert goes_to(*gang, **kinds) == "slow-b"
    # Neither for a node of the preferred kind in its rack, nor for one of its kind in another rack.
    assert goes_to(*gang, **kinds, nodes=only("fast-a", "fast-b", "slow-a")) is None
    free = tuple(replace(each, gang=None) for each in gang)
    assert goes_to(*free, **kinds, nodes=only("fast-a", "fast-b", "slow-a")) in {"fast-a", "fast-b"}


def test_where_no_node_of_the_gang_is_known_any_rack_will_do() -> None:
    assert goes_to(runs("r", "gone"), pod("w")) is not None
    bare = tuple(replace(node, labels={}) for node in NODES if node.name == "fast-a") + NODES[1:]
    assert goes_to(runs("r", "fast-a"), pod("w"), nodes=bare) is not None


def test_what_it_can_only_borrow_is_not_put_off_to_another_turn() -> None:
    """It has no place in the order of waiting workloads: no other turn would try it again."""
    ada = Tenant(
        "ada", COHORT, shares={("fast", GPU): Share(8), ("slow", GPU): Share(0, None)}, prefers={GPU: ("fast", "slow")}
    )
    bob = Tenant("bob", COHORT, shares={("slow", GPU): Share(16, None)})
    pods = runs("r", "fast-a", topology=None), pod("w", topology=None)
    tenants, rules = {"ada": ada, "bob": bob}, {COHORT: Rules(flavors=FLAVORS)}
    (admitted,) = decide(Snapshot(tenants, only("slow-a"), pods, rules), 100.0).admit
    assert (admitted.node, dict(admitted.borrowed)) == ("slow-a", {GPU: 4})
