"""Which free devices count as reserved for a workload that waits: only those that are kept from others, each of them once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulkhead.api import labels, ledger
from bulkhead.api.quotalines import ReservedRoom
from bulkhead.ledger import read
from bulkhead.ledger.admit import KEPT_WITHOUT_FORECAST_SECONDS
from bulkhead.ledger.books import Books, Done
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Cause, Flavor, Moved, Node, Pod, Rules, Share, Snapshot, Stage, Tenant
from bulkhead.ledger.order import single
from bulkhead.ledger.reserved import Reservation, reserved_rooms
from tests.ledger.test_decide import NOW, snapshot_of
from tests.ledger.world import COHORT, GPU

LINE = ("", GPU)
# Tenants, nodes and pods as in data/decisions.yaml; then how many GPUs are reserved, by tenant.
CASES: list[tuple[str, dict[str, Any], Mapping[str, int]]] = [
    ("a workload that starts reserves nothing", {"tenants": {"ada": 8}, "nodes": 1, "waiting": ["ada 8"]}, {}),
    (
        "what is free on the node that a workload waits for",
        {"tenants": {"ada": 16, "bob": 8}, "nodes": 2, "running": ["bob 5 n0", "bob 3 n1"], "waiting": ["ada 8"]},
        {"ada": 5},
    ),
    (
        "no more than the workload asks for",
        {"tenants": {"ada": 16, "bob": 8}, "nodes": 1, "running": ["bob 5 n0"], "waiting": ["ada 2 x3"]},
        {"ada": 3},
    ),
    (
        "of two workloads each what is left for it, the first one first",
        {
            "tenants": {"ada": 16, "bob": 16},
            "nodes": 2,
            "running": ["bob 5 n0", "bob 3 n1"],
            "waiting": ["ada 8 age 500", "bob 8 age 400"],
        },
        {"ada": 5},
    ),
    (
        "not the room of what goes ahead and ends before",
        {
            "tenants": {"ada": 16, "bob": 16},
            "nodes": 1,
            "running": ["bob 5 n0 ends 900"],
            "waiting": ["ada 8 age 500", "bob 2 lasts 100 age 400"],
        },
        {"ada": 1},
    ),
    (
        "not what is still held by a pod that is taken back",
        {"tenants": {"ada": 8, "bob": 0}, "nodes": 1, "running": ["bob 5 n0 leaving 60"], "waiting": ["ada 8"]},
        {"ada": 3},
    ),
    (
        "a tenant that waits for its own quota",
        {"tenants": {"ada": {"nominal": 8, "borrowing": 0}}, "nodes": 2, "running": ["ada 5 n0"], "waiting": ["ada 8"]},
        {},
    ),
    (
        "quota without nodes",
        {
            "tenants": {"ada": 4, "bob": 4},
            "rules": {"fair_preemption": False},
            "nodes": 2,
            "running": ["bob 6 n0"],
            "waiting": ["ada 6"],
        },
        {},
    ),
    ("what can never start", {"tenants": {"ada": 16}, "nodes": 2, "running": ["ada 4 n0"], "waiting": ["ada 16"]}, {}),
]  # fmt: skip


def reserved(snapshot: Snapshot) -> dict[str, int]:
    """How many GPUs are reserved, by tenant."""
    found: dict[str, int] = {}
    for room in decide(snapshot, NOW).reserved:
        found[room.tenant] = found.get(room.tenant, 0) + sum(room.devices.values())
    return found


@pytest.mark.parametrize(("name", "case", "wanted"), CASES, ids=[name for name, _, _ in CASES])
def test_what_counts_as_reserved(name: str, case: dict[str, Any], wanted: Mapping[str, int]) -> None:
    assert reserved(snapshot_of(case)) == wanted


WAITS: dict[str, Any] = {
    "tenants": {"ada": 16, "bob": 16},
    "nodes": 1,
    "running": ["bob 5 n0"],
    "waiting": ["ada 8 age 500", "bob 1 age 400"],
}


def test_what_is_reserved_is_in_truth_kept_from_others() -> None:
    snapshot = snapshot_of(WAITS)
    assert reserved(snapshot) == {"ada": 3}
    assert decide(snapshot, NOW).admit == ()
    # Without the first workload the other one starts in that room.
    alone = replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod.uid != "w0"))
    assert [admission.pod.uid for admission in decide(alone, NOW).admit] == ["w1"]
    assert reserved(alone) == {}


def test_room_that_was_reserved_for_long_enough_is_released() -> None:
    snapshot = replace(snapshot_of(WAITS), kept_since={"w0": NOW - KEPT_WITHOUT_FORECAST_SECONDS})
    assert reserved(snapshot) == {}


def test_a_tenant_that_is_gone_reserves_nothing() -> None:
    snapshot = snapshot_of(WAITS)
    left = tuple(pod for pod in snapshot.pods if pod.tenant != "ada")
    assert reserved(replace(snapshot, tenants={"bob": snapshot.tenants["bob"]}, pods=left)) == {}


def test_it_is_told_by_namespace_and_owner_of_each_pod() -> None:
    snapshot = snapshot_of(WAITS | {"waiting": ["ada 4 x2"]})
    owned = tuple(
        pod if pod.stage is not Stage.WAITING else replace(pod, virtual_namespace="ml", owner=f"Job/{pod.uid}")
        for pod in snapshot.pods
    )
    assert decide(replace(snapshot, pods=owned), NOW).reserved == (ReservedRoom("ada", "ml", "Job/w0", {LINE: 3}),)


def test_it_is_told_by_flavor() -> None:
    flavor = Flavor("h100", GPU, {"kind": "h100"})
    share = {("h100", GPU): Share(16, borrowing=None)}
    tenants = {name: Tenant(name, COHORT, shares=share) for name in ("ada", "bob")}
    node = Node("n0", {GPU: 8, "rdma/hca": 2, "pods": 9}, labels={"kind": "h100"})
    runs = pod("r0", "bob", {GPU: 5}, stage=Stage.BOUND, node="n0", flavor="h100", admitted=NOW - 50)
    waits = pod("w0", "ada", {GPU: 8, "rdma/hca": 1, "cpu": 1000})
    snapshot = Snapshot(tenants, (replace(node, allocatable={**node.allocatable, "cpu": 9000}),), (runs, waits))
    (room,) = decide(replace(snapshot, rules={COHORT: Rules(flavors=(flavor,))}), NOW).reserved
    assert room.devices == {("h100", GPU): 3, ("", "rdma/hca"): 1}


def pod(uid: str, tenant: str, asks: Mapping[str, int], **more: Any) -> Pod:
    made = Pod(
        uid, f"bh-{tenant}-work", uid, asks, Stage.WAITING, NOW - 100, tenant=tenant, virtual_name=uid, owner=f"Pod/{uid}"
    )
    return replace(made, **more)


def test_the_place_of_a_pod_that_is_moved_for_another_tenant_is_not_charged_to_its_own() -> None:
    moved = Moved(
        pod("r0", "bob", {GPU: 4}, stage=Stage.BOUND, node="n0", maker="m", admitted=NOW - 900), "n1", NOW - 5, NOW + 60
    )
    snapshot = snapshot_of({"tenants": {"ada": 8, "bob": 8}, "nodes": 2})
    assert decide(replace(snapshot, moved=(moved,)), NOW).reserved == ()


def test_what_moves_holds_its_devices_until_it_is_gone() -> None:
    case = {"tenants": {"ada": 24}, "nodes": 2, "running": ["ada 2 n0 age 900", "ada 5 n1 age 900"], "waiting": ["ada 8"]}
    snapshot = snapshot_of(case | {"rules": {"max_moves": 4}})
    snapshot = replace(snapshot, pods=tuple(replace(pod, maker="m") if pod.uid == "r0" else pod for pod in snapshot.pods))
    assert [(reclaim.pod.uid, reclaim.cause) for reclaim in decide(snapshot, NOW).reclaim] == [("r0", Cause.MOVED)]
    assert reserved(snapshot) == {"ada": 6}


def host_pod(namespace: str, **noted: str) -> dict[str, Any]:
    limits = {"limits": {GPU: "8"}, "requests": {GPU: "8"}}
    return {
        "metadata": {"uid": "w9", "name": "w9", "namespace": namespace, "annotations": noted},
        "spec": {"schedulingGates": [{"name": ledger.GATE}], "containers": [{"name": "c", "resources": limits}]},
    }


def test_a_tenant_cannot_charge_another() -> None:
    """Whatever a pod says of its owner and namespace, the namespace on the host says which tenant it belongs to."""
    owners = '[{"controller": true, "kind": "Tenant", "name": "ada", "uid": "u", "apiVersion": "bulkhead.dev/v1alpha1"}]'
    noted = {labels.VIRTUAL_OWNERS: owners, labels.VIRTUAL_NAMESPACE: "bh-ada-work", labels.VIRTUAL_NAME: "ada/train"}
    found = read.pod_of(host_pod("bh-bob-work", **noted))
    assert found is not None
    snapshot = snapshot_of(WAITS | {"waiting": []})
    assert decide(replace(snapshot, pods=(*snapshot.pods, found)), NOW).reserved == (
        ReservedRoom("bob", "bh-ada-work", "Tenant/ada", {LINE: 3}),
    )


def test_a_pod_has_the_owner_that_metering_gives_it_while_it_waits() -> None:
    owners = '[{"controller": true, "kind": "Job", "name": "train", "uid": "u"}]'
    owned = read.pod_of(host_pod("bh-bob-work", **{labels.VIRTUAL_OWNERS: owners, labels.VIRTUAL_NAME: "train-0"}))
    single = read.pod_of(host_pod("bh-bob-work", **{labels.VIRTUAL_NAME: "train-0"}))
    assert owned is not None
    assert single is not None
    assert (owned.owner, owned.maker, single.owner) == ("Job/train", "u", "Pod/train-0")


RUNNING = st.lists(
    st.tuples(st.sampled_from(("ada", "bob")), st.sampled_from((1, 2, 4)), st.sampled_from(("", " ends 300"))), max_size=8
)
WAITING = st.lists(
    st.tuples(st.sampled_from(("ada", "bob", "cyd")), st.sampled_from((1, 3, 8)), st.sampled_from(("", " x2", " lasts 100"))),
    max_size=6,
)


@given(running=RUNNING, waiting=WAITING, quota=st.sampled_from((4, 16, 32)))
@settings(max_examples=120, deadline=None)
def test_no_more_is_reserved_than_is_free_and_asked_for_by_the_tenant_itself(
    running: list[tuple[str, int, str]], waiting: list[tuple[str, int, str]], quota: int
) -> None:
    free, runs = {"n0": 8, "n1": 8}, []
    for tenant, gpus, rest in running:
        node = next((name for name, room in free.items() if room >= gpus), None)
        if node is not None:
            free[node] -= gpus
            runs.append(f"{tenant} {gpus} {node}{rest}")
    waits = [f"{tenant} {gpus}{rest}" for tenant, gpus, rest in waiting]
    snapshot = snapshot_of(
        {"tenants": dict.fromkeys(("ada", "bob", "cyd"), quota), "nodes": 2, "running": runs, "waiting": waits}
    )
    decisions = decide(snapshot, NOW)
    admitted = {admission.pod.uid for admission in decisions.admit}
    used = sum(admission.pod.asks[GPU] for admission in decisions.admit)
    asked: dict[str, int] = {}
    for held_back in snapshot.pods:
        if held_back.stage is Stage.WAITING and held_back.uid not in admitted:
            asked[held_back.tenant] = asked.get(held_back.tenant, 0) + held_back.asks[GPU]
    found = reserved(snapshot)
    assert sum(found.values()) <= sum(free.values()) - used
    assert all(amount <= asked.get(tenant, 0) for tenant, amount in found.items())


def test_asking_what_is_reserved_changes_nothing() -> None:
    books = Books(snapshot_of(WAITS | {"waiting": []}), NOW)
    done = Done(single(pod("w0", "ada", {GPU: 2})), {LINE: 2}, ("n0",), reserved=True)
    books.do(done)
    for _ in range(2):
        (room,) = reserved_rooms(books, [Reservation(done, {})])
        assert room.devices == {LINE: 2}
        assert books.now.board.free("n0", GPU) == 1
        assert books.now.account.entry("ada", LINE).reserved == 2
