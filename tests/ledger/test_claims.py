"""Claims for devices count against their tenant's quota, once, and no pod is admitted into what they hold."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as drawn

from bulkhead.ledger import given, read
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Claim, Node, Pod, Share, Snapshot, Stage, Tenant, Why
from tests.ledger.junk import CLAIM_FIELDS, junk

GPU, CLASS, OTHER = "nvidia.com/gpu", "gpu.example.com", "imex.example.com"
NOW = 10_000.0
SHARES = {("", GPU): Share(4, borrowing=None)}
TENANT = Tenant("red", cohort="c", shares=SHARES, devices={CLASS: GPU, "mig.example.com": GPU})


def claim(*requests: dict[str, Any], synced: bool = True, namespace: str = "bh-red-work") -> dict[str, Any]:
    meta: dict[str, Any] = {
        "name": "x",
        "namespace": namespace,
        "labels": {"bulkhead.dev/managed-by": "syncer"} if synced else {},
    }
    return {"metadata": meta, "spec": {"devices": {"requests": list(requests)}}}


def exactly(device_class: str, count: int = 1) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}}


def read_claim(obj: dict[str, Any], tenant: Tenant = TENANT) -> Claim | None:
    bare = read.bare_claim(obj)
    return None if bare is None else read.claim_of(bare, {tenant.name: tenant})


CLAIMS: list[tuple[str, dict[str, Any], int | None]] = [
    ("devices of a class that stands for GPUs", claim(exactly(CLASS, 3)), 3),
    ("several requests", claim(exactly(CLASS, 1), exactly("mig.example.com", 2)), 3),
    (
        "alternatives of classes that stand for the same count by the most",
        claim(
            {"name": "r", "firstAvailable": [{"deviceClassName": CLASS, "count": 2}, {"deviceClassName": "mig.example.com"}]}
        ),
        2,
    ),
    ("a class with a number of its own", claim(exactly(OTHER, 4)), None),
    ("beside such a class", claim(exactly(OTHER, 4), exactly(CLASS)), 1),
    ("the scheduler's own claim for what a pod asks for as a resource", claim(exactly(CLASS, 2), synced=False), None),
    ("a namespace without a tenant", claim(exactly(CLASS), namespace="default"), None),
    ("another tenant's, of which nothing is known", claim(exactly(CLASS), namespace="bh-blue-work"), None),
]


@pytest.mark.parametrize(("name", "obj", "wanted"), CLAIMS, ids=[each[0] for each in CLAIMS])
def test_what_a_claim_holds(name: str, obj: dict[str, Any], wanted: int | None) -> None:
    assert read_claim(obj) == (None if wanted is None else Claim("red", {GPU: wanted}))


def test_of_a_claim_nothing_is_kept_that_is_not_counted() -> None:
    """A tenant may have hundreds, of a megabyte of selectors each, and the controller keeps all of all tenants."""
    large = exactly(CLASS, 3)
    large["exactly"]["selectors"] = [{"cel": {"expression": "x" * 10_000}}] * 32
    obj = claim(*[large] * 10)
    assert read_claim(obj) == Claim("red", {GPU: 30})
    assert len(str(read.bare_claim(obj))) < 2000


@drawn(junk(CLAIM_FIELDS))
def test_no_claim_is_too_strange(anything: Any) -> None:
    obj = claim() | {"spec": anything}
    found = read_claim(obj)
    assert found is None or all(type(number) is int and number > 0 for number in found.asks.values())
    read.bare_claim({"metadata": anything, "spec": anything})


def pod(name: str, tenant: str, gpus: int) -> Pod:
    return Pod(name, f"bh-{tenant}-work", name, {GPU: gpus}, Stage.WAITING, NOW - 10, tenant=tenant, virtual_name=name)


def test_a_pod_is_not_admitted_into_what_claims_hold() -> None:
    snapshot = Snapshot(
        tenants={"red": TENANT, "blue": replace(TENANT, name="blue")},
        nodes=(Node("n1", {GPU: 16, "pods": 100}),),
        pods=(pod("a", "blue", 6),),
        claims=(Claim("red", {GPU: 3}),),
    )
    decided = decide(snapshot, NOW)
    assert not decided.admit
    assert decided.verdicts["a"].why is Why.COHORT
    standing = decided.standings["red"]["", GPU]
    assert (standing.used, standing.lent, standing.borrowed) == (3, 0, 0)
    assert [each.pod.uid for each in decide(replace(snapshot, pods=(pod("a", "blue", 5),)), NOW).admit] == ["a"]
    # Positive control.
    assert [each.pod.uid for each in decide(replace(snapshot, claims=()), NOW).admit] == ["a"]


def test_a_pod_and_a_claim_of_one_tenant_count_both_and_each_once() -> None:
    held = replace(pod("a", "red", 2), stage=Stage.BOUND, node="n1", admitted=NOW)
    snapshot = Snapshot({"red": TENANT}, (Node("n1", {GPU: 16}),), (held,), claims=(Claim("red", {GPU: 1}),))
    assert decide(snapshot, NOW).standings["red"]["", GPU].used == 3


def test_what_is_taken_back_leaves_claims_alone() -> None:
    borrowed = replace(pod("a", "blue", 4), stage=Stage.BOUND, node="n1", admitted=NOW - 1000, created=NOW - 1000)
    snapshot = Snapshot(
        tenants={"red": TENANT, "blue": replace(TENANT, name="blue")},
        nodes=(Node("n1", {GPU: 16, "pods": 100}),),
        pods=(borrowed, pod("b", "red", 4)),
        claims=(Claim("blue", {GPU: 4}),),
    )
    assert [each.pod.uid for each in decide(snapshot, NOW).reclaim] == ["a"]


def test_the_note_of_a_quota_says_what_devices_stand_for() -> None:
    meta = {"labels": {"bulkhead.dev/tenant": "red"}, "annotations": {"bulkhead.dev/given": given.write(TENANT)}}
    assert given.tenant_of({"metadata": meta}) == TENANT
    assert "devices" not in given.write(replace(TENANT, devices={}))
