"""What the syncer counts. The tenant is not a label: the process is the tenant's, and the scrape adds it.

Every result label is created at zero, so that a rate over a counter that never moved is zero and not absent.
"""

from contextvars import ContextVar
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from syncer.translate import tokens
from syncer.translate.kinds import nodeports
from syncer.translate.registry import KINDS

# Each counter and histogram would otherwise have a second series with the time at which it was made.
disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations
REGISTRY: Final = CollectorRegistry()
# Memory, CPU time, and when the process began: an alert counts its restarts.
ProcessCollector(registry=REGISTRY)
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_KINDS: Final = (*KINDS, "Node", nodeports.KIND, tokens.KIND)
_RESULTS: Final = ("done", "again", "conflict", "error")

RECONCILES: Final = Counter(
    "bulkhead_syncer_reconcile", "Reconciles by kind and result.", ("kind", "result"), registry=REGISTRY
)
RECONCILE_SECONDS: Final = Histogram(
    "bulkhead_syncer_reconcile_seconds",
    "Time of one reconcile.",
    ("kind",),
    buckets=(0.005, 0.05, 0.5, 5, 30),
    registry=REGISTRY,
)
PHASE_SECONDS: Final = Histogram(
    "bulkhead_syncer_phase_seconds",
    "What a pod waits for here: its turn in the queue, its translation, its creation on the host.",
    ("phase",),
    buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15),
    registry=REGISTRY,
)
QUEUE_DEPTH: Final = Gauge("bulkhead_syncer_queue_depth", "Keys that wait.", registry=REGISTRY)
HOST_WRITES: Final = Counter("bulkhead_syncer_host_writes", "Writes to the host API.", ("kind", "verb"), registry=REGISTRY)
VIRTUAL_WRITES: Final = Counter(
    "bulkhead_syncer_virtual_writes", "Writes to the tenant API.", ("kind", "verb"), registry=REGISTRY
)
HOST_BYTES: Final = Counter(
    "bulkhead_syncer_host_bytes_written", "Size of the objects that host writes left behind.", registry=REGISTRY
)
BUDGET_WAIT: Final = Counter(
    "bulkhead_syncer_host_budget_wait_seconds", "Time spent waiting for the budget of requests to the host.", registry=REGISTRY
)
REFUSED: Final = Counter("bulkhead_syncer_refused", "Objects refused, by reason.", ("reason",), registry=REGISTRY)
PATROL_REPAIRS: Final = Counter(
    "bulkhead_syncer_patrol_repairs", "Differences that only the patrol found.", ("kind",), registry=REGISTRY
)
PATROL_ROUNDS: Final = Counter("bulkhead_syncer_patrol_rounds", "Rounds of the patrol that ended.", registry=REGISTRY)
PATROL_ROUND_SECONDS: Final = Gauge(
    "bulkhead_syncer_patrol_round_seconds",
    "From the start of the last round of the patrol to the last of its keys.",
    registry=REGISTRY,
)
SETTINGS_REFUSED: Final = Gauge(
    "bulkhead_syncer_settings_refused", "1 while the settings that the controller wrote cannot be used.", registry=REGISTRY
)
NODES_UNREAD: Final = Gauge(
    "bulkhead_syncer_nodes_unread", "Host nodes whose annotation of held accelerators cannot be read.", registry=REGISTRY
)
QUARANTINED: Final = Gauge("bulkhead_syncer_quarantined", "1 while nothing may be deleted on the host.", registry=REGISTRY)
SUSPENDED: Final = Gauge(
    "bulkhead_syncer_suspended",
    "1 while work waits, because the host does not answer or has given the tenant another syncer.",
    registry=REGISTRY,
)
MASS_DELETE: Final = Gauge(
    "bulkhead_syncer_mass_delete_breaker_open", "1 while the mass-delete breaker is open.", registry=REGISTRY
)
SYNCED: Final = Gauge(
    "bulkhead_syncer_synced", "1 when the caches of a side are complete and live.", ("side",), registry=REGISTRY
)
KUBELET_STREAMS: Final = Gauge("bulkhead_syncer_shim_streams", "Streams open through the tenant's kubelet.", registry=REGISTRY)
KUBELET_REQUESTS: Final = Counter(
    "bulkhead_syncer_shim_requests",
    "Requests to the tenant's kubelet by verb and status.",
    ("verb", "status"),
    registry=REGISTRY,
)
KUBELET_BYTES: Final = Counter(
    "bulkhead_syncer_shim_bytes",
    "Bytes that streams passed through the tenant's kubelet: of logs, and of sessions in both directions.",
    ("stream",),
    registry=REGISTRY,
)
KUBELET_THROTTLED: Final = Counter(
    "bulkhead_syncer_shim_throttled_seconds",
    "Seconds that streams waited because the tenant's rate was used up, of all streams together: of bytes, and of openings.",
    ("stream",),
    registry=REGISTRY,
)
POD_BYTES: Final = Gauge(
    "bulkhead_syncer_pod_bytes", "Bytes of the tenant's pods on the host, those that have ended among them.", registry=REGISTRY
)
POD_BYTES_LIMIT: Final = Gauge("bulkhead_syncer_pod_bytes_limit", "The most that they may be together.", registry=REGISTRY)
SERVICE_ENDPOINTS: Final = Gauge(
    "bulkhead_syncer_service_endpoints",
    "Endpoints of the tenant's Services on the host: of each its ports, once for each pod that it selects.",
    registry=REGISTRY,
)
SERVICE_ENDPOINTS_LIMIT: Final = Gauge(
    "bulkhead_syncer_service_endpoints_limit", "The most that they may be together.", registry=REGISTRY
)
PLACED_BEYOND: Final = Gauge(
    "bulkhead_syncer_placed_beyond", "Placed pods for which the record on the host has no room.", registry=REGISTRY
)
EVENTS_DROPPED: Final = Counter(
    "bulkhead_syncer_events_dropped", "Events not written because of the rate or an error.", registry=REGISTRY
)
_SPANS: Final = Counter("bulkhead_syncer_spans", "Spans of traces by result: sent, or dropped.", ("result",), registry=REGISTRY)
TOKENS: Final = Counter(
    "bulkhead_syncer_tokens", "Service account tokens asked of the tenant API.", ("result",), registry=REGISTRY
)

for _kind in _KINDS:
    for _result in _RESULTS:
        RECONCILES.labels(_kind, _result)
    PATROL_REPAIRS.labels(_kind)
for _side in ("host", "virtual"):
    SYNCED.labels(_side)
IN_QUEUE, IN_TRANSLATION, IN_CREATION = (PHASE_SECONDS.labels(phase) for phase in ("queue", "translate", "host_create"))
for _stream in ("logs", "sessions"):
    KUBELET_BYTES.labels(_stream)
    KUBELET_THROTTLED.labels(_stream)
KUBELET_THROTTLED.labels("openings")
for _outcome in ("issued", "failed"):
    TOKENS.labels(_outcome)


# The writes of the reconcile that runs in this context: the worker learns from it whether the reconcile changed anything.
writes: ContextVar[list[str] | None] = ContextVar("writes", default=None)


def host_write(kind: str, verb: str) -> None:
    """Count a write to the host."""
    HOST_WRITES.labels(kind, verb).inc()
    _record(f"host {kind} {verb}")


def virtual_write(kind: str, verb: str) -> None:
    """Count a write to the plane."""
    VIRTUAL_WRITES.labels(kind, verb).inc()
    _record(f"virtual {kind} {verb}")


def spans(result: str, number: int) -> None:
    """Count spans that were sent or dropped."""
    _SPANS.labels(result).inc(number)


def _record(what: str) -> None:
    written = writes.get()
    if written is not None:
        written.append(what)


def render() -> bytes:
    """The text that /metrics serves."""
    return generate_latest(REGISTRY)
