"""Until when budgets hold up the drain of a node: from the cordon that the host notes, for as long as the class says."""

from datetime import UTC, datetime
from typing import Any

import pytest

from syncer.translate.kinds import drain

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KEY = "node.kubernetes.io/unschedulable"


def node(since: Any = "2026-03-01T11:30:00Z", *, cordoned: Any = True, key: str = KEY) -> dict[str, Any]:
    taint = {"key": key, "effect": "NoSchedule", "timeAdded": since}
    return {"metadata": {"name": "n"}, "spec": {"unschedulable": cordoned, "taints": [{"key": "other"}, taint]}}


@pytest.mark.parametrize(
    ("deadline", "left"), [(3600.0, 1800.0), (1801.0, 1.0), (1800.0, 0.0), (60.0, 0.0), (0.0, 0.0), (None, None)]
)
def test_a_deadline_counts_from_the_cordon(deadline: float | None, left: float | None) -> None:
    assert drain.remaining(node(), NOW, deadline) == left


def test_a_clock_that_is_behind_waits_longer() -> None:
    assert drain.remaining(node("2026-03-01T12:10:00Z"), NOW, 3600.0) == 4200.0
    assert drain.remaining(node("2026-03-01T12:10:00Z"), NOW, 0.0) == 600.0


@pytest.mark.parametrize(
    "other",
    [
        node(cordoned=False),
        node(cordoned="true"),
        node(cordoned=None),
        node(key="node.kubernetes.io/not-ready"),
        node(None),
        node("yesterday"),
        node("2026-03-01T11:30:00"),
        node(17),
        {"spec": {"unschedulable": True}},
        {"spec": {"unschedulable": True, "taints": "x"}},
        {},
    ],
)
def test_where_no_cordon_has_a_moment_nothing_passes(other: dict[str, Any]) -> None:
    assert drain.remaining(other, NOW, 0.0) is None
