"""What a quota notes of its tenant, and what a Cohort says: written, read again, and whatever else may stand there."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.cohort import Cohort
from bulkhead.api.ledger import GIVEN, OVER_SINCE
from bulkhead.ledger.given import rules_of, tenant_of, write
from bulkhead.ledger.model import Flavor, Line, Rules, Share, Tenant

GPU = "nvidia.com/gpu"
LINES: list[Line] = [("", GPU), ("", "cpu"), ("h100", GPU), ("a100", GPU), ("", "hugepages-2Mi")]
NUMBERS = st.integers(0, 10**12)
SHARES = st.builds(Share, NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS)
TENANTS = st.builds(
    Tenant,
    st.sampled_from(["team-a", "team-b"]),
    st.sampled_from(["", "research"]),
    st.integers(1, 1000),
    st.dictionaries(st.sampled_from(LINES), SHARES, max_size=5),
    st.dictionaries(st.just(GPU), st.permutations(["h100", "a100"]).map(tuple), max_size=1),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


def quota(name: str = "team-a", hard: dict[str, Any] | None = None, **annotations: str) -> dict[str, Any]:
    noted = {GIVEN if key == "given" else OVER_SINCE: value for key, value in annotations.items()}
    meta = {"name": "tenant-quota", "labels": {"bulkhead.dev/tenant": name}, "annotations": noted}
    return {"metadata": meta, "spec": {"hard": hard or {}}}


@given(TENANTS)
def test_what_is_written_is_read_again(tenant: Tenant) -> None:
    assert tenant_of(quota(tenant.name, given=write(tenant))) == tenant


def test_without_a_note_the_devices_that_the_host_counts_are_the_tenants_own() -> None:
    hard = {"requests.nvidia.com/gpu": "8", "requests.hugepages-2Mi": "1Gi", "requests.cpu": "64", "pods": "100", "x/y": "3"}
    found = tenant_of(quota(hard=hard, since="2026-11-24T12:00:00Z"))
    shares = {("", GPU): Share(8, 0, 0), ("", "hugepages-2Mi"): Share(1 << 30, 0, 0)}
    # One time, as an older ledger notes it, is that of every line.
    assert found == Tenant("team-a", shares=shares, over_since=dict.fromkeys(shares, 1795521600.0))
    found = tenant_of(quota(hard=hard, since='{"nvidia.com/gpu@h100":"2026-11-24T12:00:00Z","x/y":"later"}'))
    assert found is not None
    assert found.over_since == {("h100", GPU): 1795521600.0}


def test_a_quota_without_a_tenant_belongs_to_none() -> None:
    assert tenant_of({}) is None
    assert tenant_of({"metadata": {"labels": {"bulkhead.dev/tenant": 7}}}) is None


@pytest.mark.parametrize(
    ("said", "share"),
    [
        ({"nominal": 8}, Share(8, 0, None)),
        ({"nominal": 8, "borrowing": None}, Share(8, None, None)),
        ({"nominal": -1, "borrowing": -1, "lending": "all"}, Share(0, 0, 0)),
        ({"nominal": True, "borrowing": 1.5, "lending": None}, Share(0, 0, 0)),
        ("everything", Share(0, 0, None)),
    ],
)
def test_a_malformed_number_counts_as_nothing(said: Any, share: Share) -> None:
    found = tenant_of(quota(given=json.dumps({"cohort": "a", "lines": {GPU: said}})))
    assert found == Tenant("team-a", "a", shares={("", GPU): share})


@given(JSON)
def test_any_note_is_read(said: Any) -> None:
    found = tenant_of(quota(given=json.dumps(said)))
    assert found is not None
    assert 1 <= found.weight <= 1000
    assert all(share.nominal >= 0 for share in found.shares.values())


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"cohort": "a"}' + " " * 65_536, "7"])
def test_a_malformed_note_is_read_as_none(text: str) -> None:
    assert tenant_of(quota(given=text)) == Tenant("team-a")


def test_a_cohort_without_an_object_has_the_defaults_of_the_definition() -> None:
    schema = Cohort.model_json_schema()["$defs"]
    defaults = {
        f"{kind}.{field}": said["default"]
        for kind in ("CohortReclaim", "CohortOverQuota", "CohortGangs", "CohortConsolidation", "CohortSpec")
        for field, said in schema[kind]["properties"].items()
        if said.get("default") is not None
    }
    filled = {
        "reclaim": {"minRuntime": defaults["CohortReclaim.minRuntime"], "within": defaults["CohortReclaim.within"]},
        "preemption": defaults["CohortSpec.preemption"],
        "overQuota": {"policy": defaults["CohortOverQuota.policy"], "grace": defaults["CohortOverQuota.grace"]},
        "gangs": {"bindWithin": defaults["CohortGangs.bindWithin"]},
        "consolidation": {"policy": defaults["CohortConsolidation.policy"]},
    }
    most = defaults["CohortConsolidation.maxMoves"]
    assert rules_of({"spec": {"consolidation": {"policy": "WhenBroken"}}}).max_moves == most
    assert rules_of({"spec": filled}) == rules_of({}) == Rules()


def test_a_cohort_says_how_it_lends_and_of_what() -> None:
    spec = {
        "flavors": [{"name": "h100", "resource": GPU, "nodeLabels": {"kind": "h100"}}],
        "reclaim": {"minRuntime": "0s", "within": "1h"},
        "preemption": "Nominal",
        "overQuota": {"policy": "Reclaim", "grace": "90s"},
        "gangs": {"bindWithin": "5m"},
        "consolidation": {"policy": "WhenBroken", "maxMoves": 7},
    }
    assert rules_of({"spec": spec}) == Rules(
        min_runtime=0.0,
        reclaim_within=3600.0,
        fair_preemption=False,
        over_quota="Reclaim",
        over_quota_grace=90.0,
        bind_within=300.0,
        max_moves=7,
        flavors=(Flavor("h100", GPU, {"kind": "h100"}),),
    )


@given(JSON)
def test_any_cohort_has_rules(said: Any) -> None:
    names = ("flavors", "reclaim", "preemption", "overQuota", "gangs", "consolidation")
    assert 0 <= rules_of({"spec": {"consolidation": {"policy": "WhenBroken", "maxMoves": said}}}).max_moves <= 32
    assert rules_of({"spec": dict.fromkeys(names, said)}).bind_within > 0
    assert rules_of({"spec": {"reclaim": {"within": said}, "gangs": {"bindWithin": said}}}).flavors == ()
    assert rules_of({"spec": said}) == replace(Rules(), flavors=rules_of({"spec": said}).flavors) or isinstance(said, dict)


@pytest.mark.parametrize(("said", "weight"), [(0, 1), (1, 1), (1000, 1000), (1001, 1), (-3, 1), (True, 1), ("7", 1)])
def test_a_weight_lies_between_its_bounds(said: object, weight: int) -> None:
    found = tenant_of(quota(given=json.dumps({"cohort": "research", "weight": said})))
    assert found is not None
    assert found.weight == weight


def test_of_more_lines_than_there_may_be_the_first_count() -> None:
    lines = {f"example.com/d{number}": {"nominal": 1} for number in range(300)}
    found = tenant_of(quota(given=json.dumps({"lines": lines})))
    assert found is not None
    assert len(found.shares) == 256


@pytest.mark.parametrize("said", ["100000s", "-1s", "1.5m", "m", "5", "5d", "", None, 5])
def test_a_malformed_duration_is_ignored(said: object) -> None:
    assert rules_of({"spec": {"reclaim": {"minRuntime": said}}}).min_runtime == Rules().min_runtime
    assert rules_of({"spec": {"reclaim": {"minRuntime": "99999s"}}}).min_runtime == 99999
