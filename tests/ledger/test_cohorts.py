"""The status of a Cohort: the sum of its tenants, what waits, and which of its rules cannot work."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.cohortstatus import CohortStatus
from bulkhead.api.conditions import CohortReason
from bulkhead.api.ledger import MOST_LINES_SHOWN, MOST_TENANTS_SHOWN
from bulkhead.ledger.cohorts import EMPTY, Summary, status, summaries
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Flavor, Gang, Node, Pod, Rules, Share, Snapshot, Stage, Tenant

GPU, KIND, COHORT = "nvidia.com/gpu", "kind", "research"
NOW, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
FAST, SLOW = (Flavor(kind, GPU, {KIND: kind}) for kind in ("fast", "slow"))


def node(name: str, **labels: str) -> Node:
    return Node(name, {GPU: 8, "cpu": 64_000, "pods": 100}, labels)


def tenant(name: str, cohort: str = COHORT, **nominal: int) -> Tenant:
    shares = {("" if kind == "any" else kind, GPU): Share(number, None) for kind, number in nominal.items()}
    prefers = {GPU: tuple(kind for kind in nominal if kind != "any")}
    return Tenant(name, cohort, shares=shares | {("", "cpu"): Share(64_000, 0, 0)}, prefers=prefers)


def pod(uid: str, gpus: int, of: str = "ada", gang: Gang | None = None, where: str = "") -> Pod:
    stage = Stage.BOUND if where else Stage.WAITING
    asks = {GPU: gpus, "cpu": 500}
    return Pod(uid, f"bh-{of}-work", uid, asks, stage, 1.0, of, where, virtual_namespace="default", virtual_name=uid, gang=gang)


def summary(snapshot: Snapshot, name: str = COHORT) -> Summary:
    return summaries(snapshot, decide(snapshot, 100.0), [name])[name]


def said(snapshot: Snapshot, before: dict[str, Any] | None = None) -> dict[str, Any]:
    return status(summary(snapshot), before or {}, 3, NOW)


def of(
    *tenants: Tenant, nodes: tuple[Node, ...] = (), pods: tuple[Pod, ...] = (), flavors: tuple[Flavor, ...] = ()
) -> Snapshot:
    return Snapshot({each.name: each for each in tenants}, nodes, pods, {COHORT: Rules(flavors=flavors)})


def test_sums_and_what_waits_are_those_of_the_decision() -> None:
    pods = (
        pod("runs", 6, where="n0"),
        pod("starts", 2),
        *(pod(f"gang-{number}", 8, gang=Gang("train", 2)) for number in range(2)),
        pod("alone", 9, "bob"),
        pod("stranger", 9, "eve"),
    )
    there = of(tenant("ada", any=4), tenant("bob", any=8), tenant("eve", "other", any=8), nodes=(node("n0"),), pods=pods)
    found = said(there)
    assert found == {
        "observedGeneration": 3,
        "conditions": [
            {
                "type": "RulesWork",
                "status": "True",
                "reason": "RulesWork",
                "message": "its tenants lend each other what is idle by these rules",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 3,
            }
        ],
        "tenants": 2,
        "tenantNames": ["ada", "bob"],
        "waiting": 2,
        "devices": "8/12",
        "borrowed": 4,
        "resources": [
            {"name": GPU, "nominal": 12, "used": 8, "borrowed": 4, "lent": 4, "waiting": 2},
            {"name": "cpu", "nominal": "128", "used": "1", "borrowed": "0", "lent": "0", "waiting": 2},
        ],
    }
    CohortStatus.model_validate(found)


def test_a_waiting_pod_counts_for_its_tenants_preferred_flavor() -> None:
    there = of(
        tenant("ada", fast=8, slow=8),
        nodes=(node("n0", kind="fast"), node("n1", kind="slow")),
        pods=(pod("f", 8, where="n0"), pod("s", 8, where="n1"), pod("w", 8)),
        flavors=(FAST, SLOW),
    )
    lines = {each["name"]: (each["used"], each["waiting"]) for each in said(there)["resources"]}
    assert lines == {f"{GPU}@fast": (8, 1), f"{GPU}@slow": (8, 0), "cpu": ("1", 1)}


BOTH = Flavor("both", GPU, {"zone": "a"})
FAULTS = {
    "no tenant is in it": (of(tenant("eve", "other", any=1)), "NoTenants", "no tenant is in it"),
    "a flavor without nodes": (
        of(tenant("ada", fast=1), nodes=(node("n0", kind="fast"),), flavors=(FAST, SLOW)),
        "NoNodes",
        "no node carries the labels of flavor slow of nvidia.com/gpu",
    ),
    "a flavor that is not listed": (
        of(tenant("ada", fast=1), tenant("bob", fast=1), nodes=(node("n0", kind="slow"),), flavors=(SLOW,)),
        "UnknownFlavor",
        "it lists no flavor fast of nvidia.com/gpu, which is in the quota of ada and bob",
    ),
    "flavors that fit the same node": (
        of(tenant("ada", fast=1), nodes=(node("n0", kind="fast", zone="a"), node("n1", zone="a")), flavors=(FAST, BOTH)),
        "FlavorsOverlap",
        "flavors fast and both of nvidia.com/gpu both fit 1 node",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_work_is_said(name: str) -> None:
    there, reason, text = FAULTS[name]
    (condition,) = said(there)["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", reason, text)


def test_flavors_of_different_resources_may_fit_the_same_node() -> None:
    slices = Flavor("fast", "nvidia.com/mig-1g.10gb", {KIND: "fast"})
    there = of(tenant("ada", fast=1), nodes=(node("n0", kind="fast"),), flavors=(FAST, slices))
    assert said(there)["conditions"][0]["status"] == "True"


def test_all_faults_are_in_the_message_and_the_gravest_is_the_reason() -> None:
    there = of(tenant("ada", slow=1), nodes=(node("n0", kind="fast", zone="a"),), flavors=(FAST, BOTH, replace(BOTH, name="x")))
    (condition,) = said(there)["conditions"]
    assert condition["reason"] == CohortReason.UNKNOWN_FLAVOR
    assert condition["message"].count("both fit 1 node") == 3


def test_a_condition_keeps_the_time_of_its_last_change_and_a_status_is_stable() -> None:
    there = of(tenant("ada", any=1))
    before = said(there)
    assert status(summary(there), before, 3, LATER) == before
    gone = status(EMPTY, before, 3, LATER)
    assert gone["conditions"][0]["lastTransitionTime"] == "2026-01-02T00:00:00Z"
    assert status(EMPTY, gone, 3, NOW) == gone


def test_what_is_listed_is_bounded() -> None:
    flavors = tuple(Flavor(f"{'f' * 50}{number}", GPU, {"k" * 60: f"{'v' * 50}{number}"}) for number in range(64))
    many = [tenant(f"{'t' * 40}{number}", **{f"q{number}-{line}": 1 for line in range(8)}) for number in range(200)]
    found = said(of(*many, flavors=flavors))
    assert found["tenants"] == 200
    assert len(found["tenantNames"]) == MOST_TENANTS_SHOWN
    assert len(found["resources"]) == MOST_LINES_SHOWN
    assert "more like this" in found["conditions"][0]["message"]
    CohortStatus.model_validate(found)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(before=st.dictionaries(st.sampled_from(["conditions", "tenants", "x"]), _JSON))
def test_whatever_stood_there_the_whole_status_is_written(before: dict[str, Any]) -> None:
    assert status(EMPTY, before, 1, NOW) == status(EMPTY, {}, 1, NOW)


def test_quotas_may_be_as_large_as_quantities_are_and_their_sum_is_as_long_as_one() -> None:
    most = 2**63 - 1
    large = [
        replace(tenant(name), shares={("", each): Share(most, None) for each in ("memory", "cpu")}) for name in ("ada", "bob")
    ]
    asking = replace(pod("waits", 0), asks={"memory": most + 1})
    there = of(*large, nodes=(node("n0"),), pods=(asking,))
    assert {each["name"]: each["nominal"] for each in said(there)["resources"]} == {
        "cpu": f"{most}m",
        "memory": f"{most}",
    }
    assert decide(there, 100.0).verdicts["waits"].message.startswith("requests 8Ei memory; ")
