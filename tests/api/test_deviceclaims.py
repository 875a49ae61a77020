"""What a claim counts for: as the host's quota counts, in whatever way it asks."""

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
