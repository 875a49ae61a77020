"""Which of a tenant's workers of Slurm goes back first, and that it does in whole decisions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Node, Pod, Share, Snapshot, Stage, Tenant
from bulkhead.ledger.order import by_loss, sort_out

GPU = "nvidia.com/gpu"
NOW = 10_000.0


def pod(
    name: str, tenant: str = "slurm", *, gpus: int = 2, loss: int | None = None, age: float = 1000.0, priority: int = 0
) -> Pod:
    return Pod(
        uid=name,
        namespace=f"bh-{tenant}-work",
        name=name,
        asks={GPU: gpus},
        stage=Stage.BOUND,
        created=NOW - age,
        tenant=tenant,
        node="n1",
        virtual_namespace="slurm",
        virtual_name=name,
        priority=priority,
        admitted=NOW - age,
        slurm_worker=name.startswith("w"),
        loss=loss,
    )


def order(*pods: Pod) -> list[str]:
    return [group.pods[0].name for group in by_loss(sort_out(pods).groups)]


ORDERS = [
    ("without a word of Slurm the newest goes first", [pod("w1", age=9), pod("w2", age=5)], ["w2", "w1"]),
    ("the cheapest goes first", [pod("w1", age=9, loss=0), pod("w2", age=5, loss=1)], ["w1", "w2"]),
    ("what runs nothing goes before newer pods", [pod("w1", age=9, loss=-1), pod("p", age=1)], ["w1", "p"]),
    (
        "workers change places among themselves alone",
        [pod("w1", age=9, loss=0), pod("p", age=7), pod("w2", age=5, loss=3)],
        ["w1", "p", "w2"],
    ),
    ("priority first", [pod("w1", age=9, loss=-1, priority=5), pod("w2", age=5, loss=7)], ["w2", "w1"]),
    (
        "a worker without a report keeps its place",
        [pod("w1", age=9, loss=0), pod("w2", age=5), pod("w3", age=7, loss=1)],
        ["w2", "w1", "w3"],
    ),
]


@pytest.mark.parametrize(("name", "pods", "wanted"), ORDERS, ids=[each[0] for each in ORDERS])
def test_which_victim_goes_first(name: str, pods: list[Pod], wanted: list[str]) -> None:
    assert order(*pods) == wanted


@given(st.lists(st.tuples(st.none() | st.integers(-1, 6), st.integers(0, 2), st.integers(1, 50)), max_size=12))
def test_no_victim_is_lost_and_the_cheapest_of_a_priority_is_never_behind(drawn: list[tuple[int | None, int, int]]) -> None:
    pods = [pod(f"w{at}", loss=loss, priority=priority, age=float(age)) for at, (loss, priority, age) in enumerate(drawn)]
    found = order(*pods)
    assert sorted(found) == sorted(each.name for each in pods)
    known = {each.name: each for each in pods}
    told = [known[name] for name in found if known[name].loss is not None]
    assert [each.priority for each in (known[name] for name in found)] == sorted(each.priority for each in pods)
    for priority in {each.priority for each in told}:
        losses = [max(each.loss or 0, -1) for each in told if each.priority == priority]
        assert losses == sorted(losses)


def test_an_owner_gets_back_the_gpus_of_the_cheapest_worker() -> None:
    workers = [pod("w0", loss=2, age=900), pod("w1", loss=0, age=800), pod("w2", loss=-1, age=1000), pod("w3", loss=1, age=700)]
    waiting = replace(pod("owner", "owner", gpus=2), stage=Stage.WAITING, node="", admitted=None)
    shares = {("", GPU): Share(4, borrowing=None)}
    snapshot = Snapshot(
        tenants={name: Tenant(name, cohort="c", shares=shares) for name in ("slurm", "owner")},
        nodes=(Node("n1", {GPU: 8, "pods": 100}),),
        pods=(*workers, waiting),
    )
    assert [each.pod.name for each in decide(snapshot, NOW).reclaim] == ["w2"]
    unsaid = replace(snapshot, pods=(*(replace(each, loss=None) for each in workers), waiting))
    assert [each.pod.name for each in decide(unsaid, NOW).reclaim] == ["w3"]
    two = replace(snapshot, pods=(*workers, replace(waiting, asks={GPU: 4})))
    assert sorted(each.pod.name for each in decide(two, NOW).reclaim) == ["w1", "w2"]
