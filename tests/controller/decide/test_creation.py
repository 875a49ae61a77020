"""The trace of a tenant's creation, from what its conditions and its plane's containers say."""

from typing import Any

from bulkhead.api.conditions import ConditionType
from bulkhead.tracing.spans import Span, trace_of
from controller.decide import creation
from controller.decide.creation import LONGEST_SECONDS, Step

CREATED = 1767225600.0  # 2026-01-01T00:00:00Z


def at(seconds: int) -> str:
    return f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"


def tenant(ready: str = "False", **meta: Any) -> dict[str, Any]:
    made = {"name": "red", "uid": "uid-red", "creationTimestamp": at(0)} | meta
    return {"metadata": made, "spec": {"class": "standard"}, "status": {"conditions": [condition("Ready", ready, 1)]}}


def condition(kind: str, status: str, since: int) -> dict[str, str]:
    return {"type": str(kind), "status": status, "lastTransitionTime": at(since)}


def status(ready: str = "True") -> dict[str, Any]:
    since = {
        ConditionType.NAMESPACES_READY: 1,
        ConditionType.PKI_READY: 2,
        ConditionType.PLANE_READY: 9,
        ConditionType.SYNCER_READY: 11,
    }
    return {"conditions": [*(condition(kind, "True", at) for kind, at in since.items()), condition("Ready", ready, 11)]}


def plane(etcd: int = 4, apiserver: int = 6) -> dict[str, Any]:
    running = {"etcd": etcd, "kube-apiserver": apiserver}
    entries = [{"name": name, "state": {"running": {"startedAt": at(since)}}} for name, since in running.items()]
    return {"metadata": {"name": "plane-0"}, "status": {"containerStatuses": entries}}


def phases(spans: list[Span]) -> list[tuple[str, float, float]]:
    return [(span.name, span.start - CREATED, span.end - CREATED) for span in spans]


def test_the_phases_follow_one_another_from_creation_to_ready() -> None:
    whole, *parts = creation.became_ready(tenant(), status(), [plane(7, 9), plane()], CREATED + 11.5)
    assert (whole.name, whole.trace, whole.start, whole.end) == (
        "tenant",
        trace_of("tenant", "uid-red"),
        CREATED,
        CREATED + 11.5,
    )
    assert whole.attributes == {"bulkhead.tenant": "red", "bulkhead.class": "standard"}
    assert phases(parts) == [
        ("tenant.namespaces", 0, 1),
        ("tenant.pki", 1, 2),
        ("tenant.etcd", 2, 4),
        ("tenant.apiserver", 4, 6),
        ("tenant.plane", 6, 9),
        ("tenant.addons", 9, 11),
        ("tenant.ready", 11, 11.5),
    ]
    assert {part.parent for part in parts} == {whole.span}


def test_what_is_unknown_is_left_out() -> None:
    parts = creation.became_ready(tenant(), status(), [], CREATED + 12)[1:]
    assert [part.name for part in parts] == [
        "tenant.namespaces", "tenant.pki", "tenant.plane", "tenant.addons", "tenant.ready",
    ]  # fmt: skip


def test_only_the_first_ready_ends_a_creation() -> None:
    assert creation.became_ready(tenant(ready="True"), status(), [], CREATED + 12) == []
    assert creation.became_ready(tenant(), status(ready="False"), [], CREATED + 12) == []
    assert creation.became_ready(tenant(), status(), [], CREATED + LONGEST_SECONDS + 1) == []
    assert creation.became_ready(tenant(creationTimestamp="once"), status(), [], CREATED) == []


def test_reconciles_of_two_controllers_are_parts_of_one_trace() -> None:
    steps = [Step("keys", CREATED + 1, CREATED + 1.2), Step("pulls", CREATED + 1.2, CREATED + 1.2002)]
    first = creation.reconciled(tenant(), steps, CREATED + 1, CREATED + 1.5, "")
    again = creation.reconciled(tenant(), [], CREATED + 3, CREATED + 3.1, "HostRefused")
    whole = creation.became_ready(tenant(), status(), [], CREATED + 12)[0]
    assert {span.trace for span in (*first, *again)} == {whole.trace}
    assert [first[0].parent, again[0].parent] == [whole.span, whole.span]
    assert [span.name for span in first] == ["reconcile", "step.keys"], "steps without work are left out"
    assert first[1].parent == first[0].span != again[0].span
    assert (first[0].failure, again[0].failure) == ("", "HostRefused")


def test_a_step_that_failed_is_there_however_short() -> None:
    steps = [Step("plane", CREATED, CREATED, failed=True)]
    assert creation.reconciled(tenant(), steps, CREATED, CREATED, "HostUnavailable")[1].failure == "failed"
