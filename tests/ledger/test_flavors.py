"""Flavors: which one a workload is given, and what it reads that names a kind of node for which its tenant has no quota."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Flavor, Needs, Node, Pod, Rules, Share, Snapshot, Stage, Tenant

GPU, MIG, KIND, COHORT = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "kind", "research"
FLAVORS = tuple(Flavor(kind, GPU, {KIND: kind}) for kind in ("fast", "slow", "other"))
NODES = tuple(
    Node(f"n-{kind}", {GPU: 8, MIG: 7, "cpu": 64, "pods": 100}, {KIND: kind} if kind != "plain" else {})
    for kind in ("fast", "slow", "other", "plain")
)


def tenant(name: str = "ada", **nominal: int) -> Tenant:
    shares = {(kind, GPU): Share(number, None) for kind, number in nominal.items()}
    return Tenant(name, COHORT, shares=shares | {("", MIG): Share(2, None)}, prefers={GPU: tuple(nominal)})


def pod(uid: str, asks: Mapping[str, int], kind: str = "", **more: object) -> Pod:
    needs = Needs(selector=((KIND, kind),)) if kind else Needs()
    made = Pod(uid, "bh-ada-work", uid, asks, Stage.WAITING, 1.0, "ada", virtual_namespace="default", virtual_name=uid)
    return replace(made, needs=needs, **more)  # type: ignore[arg-type]


def snapshot(*pods: Pod, tenants: tuple[Tenant, ...] = (tenant(fast=4, slow=4),), rules: Rules | None = None) -> Snapshot:
    known = {COHORT: Rules(flavors=FLAVORS)} if rules is None else {COHORT: rules}
    return Snapshot({each.name: each for each in tenants}, NODES, pods, known)


def said(found: Snapshot, uid: str = "w") -> str:
    verdict = decide(found, 100.0).verdicts[uid]
    return f"{verdict.why}: {verdict.message}"


def test_the_preferred_kind_comes_first_and_then_the_next() -> None:
    found = decide(snapshot(*(pod(f"w{number}", {GPU: 4}) for number in range(2))), 100.0)
    assert [(each.node, each.flavor) for each in found.admit] == [("n-fast", "fast"), ("n-slow", "slow")]
    assert {line: each.used for line, each in found.standings["ada"].items() if each.used} == {
        ("fast", GPU): 4,
        ("slow", GPU): 4,
    }


def test_what_is_held_beside_the_kind_is_noted() -> None:
    found = decide(snapshot(pod("w0", {GPU: 4, MIG: 1, "cpu": 1}), pod("w1", {MIG: 1}), pod("w2", {GPU: 4})), 100.0)
    assert {admission.pod.uid: (admission.flavor, admission.unflavored) for admission in found.admit} == {
        "w0": ("fast", (MIG,)),
        "w1": ("", ()),
        "w2": ("slow", ()),
    }


def test_own_quota_of_the_next_kind_comes_before_what_would_be_borrowed_of_the_preferred() -> None:
    found = decide(
        snapshot(
            *(pod(f"w{number}", {GPU: 4}) for number in range(3)), tenants=(tenant(fast=4, slow=4), tenant("bob", fast=4))
        ),
        100.0,
    )
    assert [(each.flavor, dict(each.borrowed)) for each in found.admit] == [
        ("fast", {}),
        ("slow", {}),
        ("fast", {GPU: 4}),
    ]
    assert (found.standings["bob"]["fast", GPU].lent, found.standings["ada"]["slow", GPU].borrowed) == (4, 0)


def test_a_turn_comes_when_another_kind_than_the_one_it_waits_for_may_be_reclaimed() -> None:
    """A history of `test_machine.py`: without a change the owner waited for the turn that comes every half minute."""

    def holds(name: str, kind: str, since: float) -> Pod:
        more = {"namespace": f"bh-{name}-work", "tenant": name, "node": f"n-{kind}", "flavor": kind, "admitted": since}
        return pod(name, {GPU: 8}, stage=Stage.BOUND, **more)

    ripe = 50.0 + Rules().min_runtime
    teams = tenant(fast=8, slow=8), tenant("bob", fast=8), tenant("cyd", slow=0)
    found = snapshot(pod("w", {GPU: 8}), holds("bob", "fast", 0.0), holds("cyd", "slow", 50.0), tenants=teams)
    before = decide(found, 100.0)
    assert ([reclaim.pod.uid for reclaim in before.reclaim], before.next_at) == ([], ripe)
    assert [reclaim.pod.uid for reclaim in decide(found, ripe).reclaim] == ["cyd"]


CANNOT = {
    "a kind that it has no quota of": (
        pod("w", {GPU: 2}, "other"),
        (
            "NeverFits: requests 2 nvidia.com/gpu; 1 node matches, of flavor other; "
            "your quota is for other flavors: 4 of fast and 4 of slow"
        ),
    ),
    "a kind without a quota": (
        pod("w", {GPU: 2}, "elsewhere"),
        "NeverFits: requests 2 nvidia.com/gpu; 0 fast nodes match, and it would not fit even if all nodes were empty",
    ),
    "its second kind, and more than that ever gives": (
        pod("w", {GPU: 5}, "slow"),
        "QuotaExceeded: requests 5 nvidia.com/gpu@slow; your quota is 4: it can never start",
    ),
    "slices for which no quota is large enough": (
        pod("w", {MIG: 3}),
        "QuotaExceeded: requests 3 nvidia.com/mig-1g.10gb; your quota is 2: it can never start",
    ),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_can_never_start_reads_of_the_kind_that_it_names(name: str) -> None:
    asked, text = CANNOT[name]
    assert said(snapshot(asked)) == text
    # The control: of a kind for which there is quota, and no more than that.
    (admitted,) = decide(snapshot(pod("w", {GPU: 2}, "slow")), 100.0).admit
    assert (admitted.node, admitted.flavor) == ("n-slow", "slow")


def test_nodes_of_no_flavor_are_said_to_be_that() -> None:
    on_plain = replace(pod("w", {GPU: 2}), needs=Needs(selector=(("kubernetes.io/hostname", "n-plain"),)))
    named = tuple(replace(each, labels={**each.labels, "kubernetes.io/hostname": each.name}) for each in NODES)
    found = replace(snapshot(on_plain), nodes=named)
    assert said(found).endswith("1 node matches, of no flavor; your quota is for other flavors: 4 of fast and 4 of slow")


def test_nodes_that_are_not_ready_are_a_matter_of_capacity() -> None:
    down = tuple(replace(node, usable=node.name != "n-fast") for node in NODES)
    found = replace(snapshot(pod("w", {GPU: 2}), tenants=(tenant(fast=4),)), nodes=down)
    assert said(found).startswith("NoCapacity: requests 2 nvidia.com/gpu; 0 fast nodes match")


@pytest.mark.parametrize("rules", [Rules(), Rules(flavors=FLAVORS[1:])], ids=["no Cohort", "not in the Cohort"])
def test_of_a_flavor_that_no_cohort_lists_there_are_no_nodes(rules: Rules) -> None:
    found = decide(snapshot(pod("w", {GPU: 2}), tenants=(tenant(fast=4),), rules=rules), 100.0)
    assert not found.admit
    assert found.verdicts["w"].message.endswith("your quota is for other flavors: 4 of fast")


def test_slices_are_counted_beside_gpus_and_not_as_gpus() -> None:
    found = decide(snapshot(pod("w", {MIG: 2}), pod("v", {GPU: 4})), 100.0)
    used = {line: each.used for line, each in found.standings["ada"].items()}
    assert used == {("", MIG): 2, ("fast", GPU): 4, ("slow", GPU): 0}


def borrows_again(slow: Node) -> list[tuple[str, str]]:
    """Which pod starts when borrowed quota of a kind is free again, and its own quota of the other kind is not available."""
    tenants = (tenant(fast=4), tenant("bob", fast=4, slow=8), tenant("cyd", fast=0, slow=8))
    theirs = {"tenant": "bob", "namespace": "bh-bob-work", "priority": 10}
    runs = {"stage": Stage.BOUND, "admitted": 1.0}
    there = snapshot(
        pod("own", {GPU: 4}, "", **theirs, **runs, node="n-fast", flavor="fast"),
        pod("full", {GPU: 8}, "", **runs, tenant="cyd", node="n-slow", flavor="slow"),
        pod("lent", {GPU: 1}, "", **theirs, created=50.0),
        pod("mine", {GPU: 4}),
        tenants=tenants,
    )
    nodes = tuple(slow if each.name == slow.name else each for each in there.nodes)
    return [(each.pod.uid, each.node) for each in decide(replace(there, nodes=nodes), 100.0).admit]


@pytest.mark.parametrize(
    "slow", [NODES[1], replace(NODES[1], usable=False), replace(NODES[1], labels={})], ids=["full", "down", "none"]
)
def test_a_turn_for_the_own_kind_does_not_borrow_another(slow: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the quota that was reclaimed for its owner would go back to the borrower, again and again."""
    assert borrows_again(slow) == [("mine", "n-fast")]
    monkeypatch.setattr("bulkhead.ledger.charging.Charging.is_out_of_turn", lambda *_: False)
    monkeypatch.setattr("bulkhead.ledger.books.Books.could_ever", lambda *_: True)
    assert borrows_again(slow) == [("lent", "n-fast")]
