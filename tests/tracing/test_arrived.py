"""A pod's trace is decided when it arrives, and never again, whatever its tenant writes of it afterwards."""

from typing import Any

from bulkhead.tracing.spans import Span
from syncer.tracing import PodTraces
from tests.kit.fakeclock import FakeClock

HOST: dict[str, Any] = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n1"}}


def pod(uid: str, phase: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "team", "name": "web", "uid": uid}, "status": {"phase": phase}}


def test_a_phase_that_is_written_back_a_thousand_times_is_one_trace() -> None:
    offered: list[Span] = []
    traces = PodTraces("red", 1, FakeClock(), offered.extend)
    for _ in range(1000):
        traces.note("seen", pod("u-1", "Pending"))
        traces.arrived(pod("u-1", "Pending"), HOST, {"phase": "Running"})
    roots = [span for span in offered if not span.parent]
    assert len(roots) == 1
    # Another pod of that name is another pod.
    traces.arrived(pod("u-2", "Pending"), HOST, {"phase": "Running"})
    assert len([span for span in offered if not span.parent]) == 2
