"""A spec is held against the last accepted one: what was accepted never goes back, and what was not leaves no trace."""

from typing import Any

import pytest

from bulkhead.api.conditions import Reason
from controller.decide.irreversible import refuse

Spec = dict[str, Any]
AT_SIZES = (
    "controlPlane.storage.size",
    "scheduling.slurm.controller.storage.size",
    "scheduling.slurm.accounting.storage.size",
    "scheduling.slurm.homeStorage.size",
)


def spec(path: str, value: Any) -> Spec:
    *sections, field = path.split(".")
    made: Spec = {field: value}
    for section in reversed(sections):
        made = {section: made}
    return made


# The field, what was accepted, what the spec says now, and what the refusal tells to do.
REFUSED = [
    ("controlPlane.replicas", 3, 1, "set 3, or make another Tenant"),
    ("controlPlane.replicas", 3, None, "set 3, or make another Tenant"),
    ("controlPlane.storage.className", "fast", "slow", "set fast"),
    ("controlPlane.storage.className", "fast", None, "set fast"),
    ("controlPlane.storage.className", None, "slow", "leave it out"),
    *((path, "10Gi", "10239Mi", "set 10Gi or more") for path in AT_SIZES),
    ("scheduling.slurm.clusterName", "a", "b", "set a"),
]
TAKEN = [
    ("controlPlane.replicas", 1, 3),
    ("controlPlane.replicas", 1, 1),
    ("controlPlane.replicas", None, 3),
    ("controlPlane.storage.className", "fast", "fast"),
    *((path, before, now) for path in AT_SIZES for before, now in (("10Gi", "10240Mi"), ("10Gi", "11Gi"), (None, "1Gi"))),
    *((path, "10Gi", None) for path in AT_SIZES),
    ("scheduling.slurm.clusterName", "a", "a"),
    ("scheduling.slurm.clusterName", "a", None),
    ("scheduling.slurm.clusterName", None, "a"),
]


@pytest.mark.parametrize(("path", "before", "now", "todo"), REFUSED)
def test_what_was_accepted_is_not_taken_back(path: str, before: Any, now: Any, todo: str) -> None:
    refusal = refuse(spec(path, now), spec(path, before))
    assert refusal is not None
    assert refusal.reason is Reason.IRREVERSIBLE
    assert refusal.message.startswith(f"spec.{path}: {now or 'none'}, but {before or 'none'} was accepted")
    assert refusal.message.endswith(todo)


@pytest.mark.parametrize(("path", "before", "now"), TAKEN)
def test_everything_else_may_change(path: str, before: Any, now: Any) -> None:
    assert refuse(spec(path, now), spec(path, before)) is None


def test_all_faults_are_named_at_once_and_what_is_unknown_is_none() -> None:
    before = {"controlPlane": {"replicas": 3, "storage": {"size": "8Gi"}}}
    refusal = refuse({"controlPlane": {"replicas": 1, "storage": {"size": "4Gi"}}}, before)
    assert refusal is not None
    assert [text in refusal.message for text in ("spec.controlPlane.replicas: 1", "storage.size: 4Gi, but 8Gi")] == [True, True]
    assert refuse({"controlPlane": {"replicas": 1}}, {}) is None
    # Sections may be missing, and a record may be of any shape.
    assert refuse({}, {"controlPlane": None, "scheduling": "Slurm"}) is None
