"""Where a pod is in its life, also for pods of any shape."""

from typing import Any

import pytest

from bulkhead.api import podphase


def _pod(*conditions: Any, **meta: Any) -> dict[str, Any]:
    return {"metadata": meta, "status": {"phase": "Running", "conditions": list(conditions)}}


_READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    "odd",
    [
        {}, {"status": None}, {"status": []}, {"status": {"conditions": {}}}, _pod(), _pod(None, "Ready"),
        _pod({"type": "Ready"}), _pod({"type": "Ready", "status": "False"}),
        _pod({"type": "ContainersReady", "status": "True"}),
    ],
)  # fmt: skip
def test_a_pod_without_the_condition_is_not_ready(odd: dict[str, Any]) -> None:
    assert not podphase.is_ready(odd)
    assert not podphase.serves(odd)


def test_a_pod_that_is_ready_serves_until_it_is_deleted() -> None:
    assert podphase.is_ready(_pod({"type": "Initialized", "status": "True"}, _READY))
    assert podphase.serves(_pod(_READY))
    ending = _pod(_READY, deletionTimestamp="2026-01-01T00:00:00Z")
    assert podphase.is_ready(ending)
    assert not podphase.serves(ending)


@pytest.mark.parametrize(("phase", "ended"), [("Running", False), ("Failed", True), ("Succeeded", True), (["Failed"], False)])
def test_a_pod_has_ended_in_two_phases(phase: Any, ended: bool) -> None:
    assert podphase.has_ended({"status": {"phase": phase}}) is ended


def test_a_pod_is_placed_where_its_spec_says() -> None:
    assert podphase.placed_on({"spec": {"nodeName": "n1"}}) == "n1"
    assert podphase.placed_on({"spec": None}) == podphase.placed_on({"spec": "n1"}) == ""
