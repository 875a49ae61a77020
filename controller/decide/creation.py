"""The trace of a tenant's creation, from the Tenant's creation until its first Ready. Pure; time is passed in.

    tenant ─┬─ tenant.namespaces ─ tenant.pki ─ tenant.etcd ─ tenant.apiserver ─ tenant.plane ─ tenant.addons ─ tenant.ready
            └─ reconcile ─┬─ step.admission, step.slice, step.ground, step.identity, step.keys, step.objects, …
                          └─ …

The ids follow from the Tenant's UID, so a controller that goes on after another one sends parts of the same trace. The phases
are what conditions and containers say of their own times, so they are complete whichever controller reports Ready; a reconcile
is sent when it has ended, so those of a controller that died are there too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bulkhead.api.conditions import ConditionType, condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings
from bulkhead.tracing.spans import Span, bounded, in_order, seconds_of, span_of, trace_of

ROOT: Final = "tenant"
# A tenant that is not ready by then is a case for its conditions, and no longer for its trace.
LONGEST_SECONDS: Final = 3600.0
# Most steps have nothing to do. Shorter ones are left out.
SHORTEST_STEP_SECONDS: Final = 0.001
_PHASES: Final = {
    "tenant.namespaces": ConditionType.NAMESPACES_READY,
    "tenant.pki": ConditionType.PKI_READY,
    "tenant.plane": ConditionType.PLANE_READY,
    "tenant.addons": ConditionType.SYNCER_READY,
}
_CONTAINERS: Final = {"tenant.etcd": "etcd", "tenant.apiserver": "kube-apiserver"}
_ORDER: Final = ("tenant.namespaces", "tenant.pki", "tenant.etcd", "tenant.apiserver", "tenant.plane", "tenant.addons")


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a reconcile: a facet, or what goes before the facets."""

    name: str
    start: float
    end: float
    failed: bool = False


def is_traced(tenant: Obj, now: float) -> bool:
    """Whether a reconcile of this Tenant belongs to its creation."""
    created = _created(tenant)
    ready = condition_of(tenant, ConditionType.READY).get("status") == "True"
    return created is not None and now - created <= LONGEST_SECONDS and not ready


def reconciled(tenant: Obj, steps: Sequence[Step], start: float, end: float, failure: str) -> list[Span]:
    """The spans of one reconcile; `failure` is the reason that stopped it, empty if none did."""
    trace = _trace(tenant)
    # Two processes never begin a reconcile of one tenant in the same microsecond: only the leader does.
    number = datetime.fromtimestamp(start, UTC).isoformat()
    whole = span_of(trace, "reconcile", number)
    about = bounded({"bulkhead.tenant": str(tenant["metadata"]["name"])})
    parts = [
        Span(
            f"step.{step.name}",
            trace,
            span_of(trace, "step", number, step.name),
            step.start,
            step.end,
            parent=whole,
            failure="failed" if step.failed else "",
        )
        for step in steps
        if step.failed or step.end - step.start >= SHORTEST_STEP_SECONDS
    ]
    root = span_of(trace, ROOT)
    return [Span("reconcile", trace, whole, start, end, parent=root, attributes=about, failure=failure), *parts]


def became_ready(tenant: Obj, status: Obj, pods: Iterable[Obj], now: float) -> list[Span]:
    """The whole creation and its phases, if this status is the first that is Ready; `pods` are those of the plane."""
    if not is_traced(tenant, now) or condition_of({"status": status}, ConditionType.READY).get("status") != "True":
        return []
    trace, start, meta = _trace(tenant), _created(tenant) or now, tenant["metadata"]
    starts = list(pods)
    times = {name: _since(status, condition) for name, condition in _PHASES.items()}
    times |= {name: _started(starts, container) for name, container in _CONTAINERS.items()}
    reached = {name: times[name] for name in _ORDER} | {"tenant.ready": now}
    root = span_of(trace, ROOT)
    about = bounded(
        {"bulkhead.tenant": str(meta["name"]), "bulkhead.class": str(mapping(tenant.get("spec")).get("class") or "")}
    )
    phases = [
        Span(name, trace, span_of(trace, name), begin, end, parent=root) for name, begin, end in in_order(reached, start, now)
    ]
    return [Span(ROOT, trace, root, start, max(start, now), attributes=about), *phases]


def _trace(tenant: Obj) -> bytes:
    return trace_of("tenant", str(tenant["metadata"]["uid"]))


def _created(tenant: Obj) -> float | None:
    return seconds_of(tenant["metadata"].get("creationTimestamp"))


def _since(status: Obj, condition: ConditionType) -> float | None:
    found = condition_of({"status": status}, condition)
    return seconds_of(found.get("lastTransitionTime")) if found.get("status") == "True" else None


def _started(pods: Iterable[Obj], container: str) -> float | None:
    """When a container of this name first started, as far as its present run says."""
    starts = (
        seconds_of(mapping(mapping(entry.get("state")).get("running")).get("startedAt"))
        for pod in pods
        for entry in mappings(mapping(pod.get("status")).get("containerStatuses"))
        if entry.get("name") == container
    )
    return min((start for start in starts if start is not None), default=None)
