"""What a claim counts for: as the host's quota counts, in whatever way it asks."""

import json
from typing import Any

import pytest

from bulkhead.api import deviceclaims

GPU, MIG, NIC = "gpu.example.com", "mig.example.com", "nic.example.com"


def exactly(name: str = GPU, **fields: Any) -> dict[str, Any]:
    return {"name": "a", "exactly": {"deviceClassName": name} | fields}


def choice(*ways: tuple[str, int]) -> dict[str, Any]:
    return {"name": "b", "firstAvailable": [{"name": "w", "deviceClassName": name, "count": count} for name, count in ways]}


@pytest.mark.parametrize(
    ("requests", "classes", "resources", "together"),
    [
        ([], {}, {}, 0),
        ([exactly()], {GPU: 1}, {"gpu": 1}, 1),
        ([exactly(count=3), exactly(NIC, count=2)], {GPU: 3, NIC: 2}, {"gpu": 3, NIC: 2}, 5),
        ([exactly(count=3), exactly(MIG, count=2)], {GPU: 3, MIG: 2}, {"gpu": 5}, 5),
        ([exactly(allocationMode="All")], {GPU: 32}, {"gpu": 32}, 32),
        # One of them: each class by its most, and of those that stand for one resource the most.
        ([choice((GPU, 1), (GPU, 4), (MIG, 7))], {GPU: 4, MIG: 7}, {"gpu": 7}, 7),
        ([choice((GPU, 1), (NIC, 4)), exactly()], {GPU: 2, NIC: 4}, {"gpu": 2, NIC: 4}, 5),
        ([exactly(count=0), exactly(count="many"), exactly(count=True)], {GPU: 3}, {"gpu": 3}, 3),
    ],
)
def test_a_claim_counts_for_the_most_that_it_may_become(
    requests: list[Any], classes: dict[str, int], resources: dict[str, int], together: int
) -> None:
    claim = {"spec": {"devices": {"requests": requests}}}
    assert deviceclaims.charged(claim, {}) == classes
    assert deviceclaims.charged(claim, {GPU: "gpu", MIG: "gpu"}) == resources
    assert deviceclaims.together(claim) == together


@pytest.mark.parametrize(
    "claim", [{}, {"spec": None}, {"spec": {"devices": 1}}, {"spec": {"devices": {"requests": ["x", {}]}}}]
)
def test_what_asks_for_nothing_counts_for_nothing(claim: dict[str, Any]) -> None:
    assert deviceclaims.charged(claim, {}) == {}
    assert deviceclaims.together(claim) == 0


def selecting(number: int, text: str = "true") -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": text}}] * number}


def test_selectors_count_together_wherever_they_stand() -> None:
    ways = {"name": "b", "firstAvailable": [{"name": "w"} | selecting(2, "abc"), {"name": "v"} | selecting(1, "\u00e9\u00e9")]}
    claim = {"spec": {"devices": {"requests": [exactly(**selecting(3)), ways, exactly()]}}}
    assert deviceclaims.selecting(claim) == (6, 3 * 4 + 2 * 3 + 2)
    strange = [exactly(selectors=[1, {}, {"cel": 1}, {"cel": {"expression": 7}}]), exactly(selectors="x")]
    assert deviceclaims.selecting({"spec": {"devices": {"requests": strange}}}) == (3, 0)


def test_what_is_kept_of_a_claim_counts_as_the_claim_and_has_no_selectors() -> None:
    for requests in (
        [exactly(count=3, **selecting(32, "x" * 10_000)), choice((GPU, 1), (MIG, 7))],
        [exactly(allocationMode="All"), exactly(count="many"), {"name": "x"}, {"firstAvailable": 1}],
    ):
        claim = {"spec": {"devices": {"requests": requests, "constraints": [{"matchAttribute": "x" * 300}] * 32}}}
        kept = {"spec": deviceclaims.bare(claim)}
        for resources in ({}, {GPU: "gpu", MIG: "gpu"}):
            assert deviceclaims.charged(kept, resources) == deviceclaims.charged(claim, resources)
        assert len(json.dumps(kept)) < 500
