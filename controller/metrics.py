"""The controller's Prometheus metrics. Their names and labels are a public interface.

Only the label `tenant` has values that people choose. The values of the others (`result`, `kind`, `outcome`, `what`, `why`,
`member`, `facet`, `certificate`, `status`, `way`, `state`) are few and fixed in a release. `forget` drops the series of a
deleted tenant, `stand_down` those of all tenants, once another process leads and keeps them up to date.
"""

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

from bulkhead.api.conditions import ConditionType, Reason, condition_of, is_true

# Each counter and histogram would otherwise have a second series with the time at which it was made.
disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations
_RECONCILE_SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)

reconciles = Counter("bulkhead_controller_reconciles_total", "Reconciles of tenants, by result.", ["result"])
reconcile_seconds = Histogram("bulkhead_controller_reconcile_seconds", "Duration of a reconcile.", buckets=_RECONCILE_SECONDS)
facet_seconds = Histogram(
    "bulkhead_controller_facet_seconds",
    "Duration of one part of a reconcile (docs/decisions/0045-facets.md).",
    ["facet"],
    buckets=(0.005, 0.05, 0.25, 1, 5, 15),
)
# The names that the previous release used; the next release drops them (docs/upgrading.md).
_passes = Counter(
    "bulkhead_controller_passes_total", "Deprecated: read bulkhead_controller_reconciles_total instead.", ["result"]
)
_pass_seconds = Histogram(
    "bulkhead_controller_pass_seconds",
    "Deprecated: read bulkhead_controller_reconcile_seconds instead.",
    buckets=_RECONCILE_SECONDS,
)
queue_depth = Gauge("bulkhead_controller_queue_depth", "Tenants that wait to be reconciled.")
leading = Gauge("bulkhead_controller_leading", "1 while this process holds the lease.")
clock_wrong = Gauge(
    "bulkhead_controller_clock_wrong",
    "1 while the controller's clock has jumped or differs from the host API server's; see the log.",
)
plane_bytes = Gauge("bulkhead_controller_plane_bytes", "Bytes of responses from all planes that are held in memory.")
issuers_silent = Gauge("bulkhead_controller_issuers_silent", "Identity providers that do not answer as they should.")
accelerator_pods = Gauge("bulkhead_controller_accelerator_pods", "Pods of the host that hold accelerators.")
accelerator_notes = Counter(
    "bulkhead_controller_accelerator_notes_total", "Annotations of host nodes with what pods hold, by result.", ["result"]
)
certificates_issued = Counter("bulkhead_controller_certificates_issued_total", "CAs, keys and certificates issued.")
logins = Counter("bulkhead_controller_logins_total", "Requests for people's certificates, by result.", ["result"])
refused_objects = Counter(
    "bulkhead_controller_refused_objects_total",
    "Optional objects that the host refused while the rest of the tenant was reconciled.",
    ["kind"],
)
ssh_certificates = Counter(
    "bulkhead_controller_ssh_certificates_total", "Requests for ssh certificates in planes, by result.", ["result"]
)
_spans = Counter("bulkhead_controller_spans_total", "Spans of traces by result: sent, or dropped.", ["result"])
data_lost = Gauge("bulkhead_tenant_data_lost", "1 while the plane's data is lost or replaced.", ["tenant"])
quorum_lost = Gauge("bulkhead_tenant_quorum_lost", "1 while fewer than a quorum of the plane's members serve.", ["tenant"])
members_down = Gauge("bulkhead_tenant_members_down", "1 while the plane serves and some of its members do not.", ["tenant"])
plane_down = Gauge(
    "bulkhead_tenant_plane_down", "1 while the API server of a plane that was built does not answer.", ["tenant"]
)
store_corrupt = Gauge(
    "bulkhead_tenant_store_corrupt", "1 while a member of the plane's etcd has other data than the others.", ["tenant"]
)
store_full = Gauge("bulkhead_tenant_store_full", "1 while the plane's store is full and accepts only deletions.", ["tenant"])
tenant_ready = Gauge("bulkhead_tenant_ready", "1 while the tenant is Ready.", ["tenant"])
audit_lost = Gauge(
    "bulkhead_tenant_audit_lost", "Events of the audit trail lost since the API server started, by reason.", ["tenant", "why"]
)
store_bytes = Gauge(
    "bulkhead_tenant_store_bytes", "The plane's store: bytes of the largest file, bytes in use, quota.", ["tenant", "what"]
)
store_fsync = Gauge(
    "bulkhead_tenant_store_fsync_seconds",
    "Seconds that 99 % of the fsyncs of an etcd member took in the last minutes.",
    ["tenant", "member"],
)
store_leader_changes = Counter(
    "bulkhead_tenant_store_leader_changes_total", "Changes of the leader that an etcd member has seen.", ["tenant", "member"]
)
store_defragmentations = Counter("bulkhead_tenant_store_defragmentations_total", "Defragmentations of members.", ["tenant"])
store_openings = Counter(
    "bulkhead_tenant_store_openings_total",
    "How often a full store accepted writes again, after its alarm was disarmed.",
    ["tenant"],
)
last_snapshot = Gauge(
    "bulkhead_tenant_last_snapshot_timestamp_seconds",
    "Up to when the last whole snapshot of the plane has everything, in seconds since 1970.",
    ["tenant"],
)
snapshot_due = Gauge(
    "bulkhead_tenant_snapshot_overdue_timestamp_seconds",
    "From when on the next snapshot of the plane is overdue, in seconds since 1970; only with a schedule.",
    ["tenant"],
)
retained_until = Gauge(
    "bulkhead_retained_until_timestamp_seconds",
    "Until when the plane of a deleted Tenant is kept, in seconds since 1970; 0 if an admin has to end it.",
    ["tenant"],
)
certificate_end = Gauge(
    "bulkhead_tenant_certificate_end_seconds",
    "When the first of the plane's certificates and CAs ends, in seconds since 1970; `certificate` names it.",
    ["tenant", "certificate"],
)
api_answers = Counter(
    "bulkhead_tenant_apiserver_answers_total",
    "Answers of the plane's API server, by class of status; 429 is counted apart.",
    ["tenant", "status"],
)
api_seconds = Gauge(
    "bulkhead_tenant_apiserver_seconds",
    "Seconds within which the plane's API server answered 99 % of the requests of the last minutes; absent if there were few.",
    ["tenant", "way"],
)
api_inflight = Gauge(
    "bulkhead_tenant_apiserver_inflight",
    "Requests that the plane's API server was at work on, the most of a second.",
    ["tenant", "way"],
)
dedicated_nodes = Counter("bulkhead_controller_dedicated_nodes_total", "Marks of dedicated nodes written.", ["outcome"])
tenant_gpus = Gauge("bulkhead_tenant_gpus", "GPUs of a tenant: used and limit.", ["tenant", "what"])
slurm_nodes = Gauge("bulkhead_tenant_slurm_nodes", "Nodes of a tenant's Slurm cluster, by state.", ["tenant", "state"])
slurm_jobs = Gauge("bulkhead_tenant_slurm_jobs", "Jobs of a tenant's Slurm cluster, by state.", ["tenant", "state"])
ready_seconds = Histogram(
    "bulkhead_tenant_ready_seconds",
    "From the creation of a Tenant to its first Ready, if that is within an hour.",
    buckets=(1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120, 300),
)
LOSSES = ("buffered", "truncate", "webhook")
_OF_STORES = ("size", "used", "quota")
_OF_TENANTS: Final = (
    data_lost,
    quorum_lost,
    last_snapshot,
    snapshot_due,
    plane_down,
    store_full,
    store_corrupt,
    members_down,
    tenant_ready,
    audit_lost,
    store_bytes,
    store_fsync,
    store_leader_changes,
    store_defragmentations,
    store_openings,
    certificate_end,
    api_answers,
    api_seconds,
    api_inflight,
    tenant_gpus,
    slurm_nodes,
    slurm_jobs,
)
# States of Slurm's nodes and jobs as the Tenant's status counts them (bulkhead/api/slurm.py); their total is left out.
_NODE_STATES: Final = ("idle", "mixed", "allocated", "down", "drained")
_JOB_STATES: Final = ("pending", "running")
_seen_ready: set[str] = set()


def reconciled(result: str) -> None:
    """Count a reconcile that has ended: `ok` or `failed`."""
    reconciles.labels(result).inc()
    _passes.labels(result).inc()


def reconcile_took(seconds: float) -> None:
    """Record the duration of a reconcile, whatever its result."""
    reconcile_seconds.observe(seconds)
    _pass_seconds.observe(seconds)


def report(tenant: str, status: dict[str, Any]) -> None:
    """Set the gauges of a tenant from its status."""
    ready = is_true(status.get("conditions") or [], ConditionType.READY)
    tenant_ready.labels(tenant).set(ready)
    plane = condition_of({"status": status}, ConditionType.PLANE_READY)
    data_lost.labels(tenant).set(plane.get("reason") == Reason.DATA_LOST)
    quorum_lost.labels(tenant).set(plane.get("reason") == Reason.QUORUM_LOST)
    members_down.labels(tenant).set(plane.get("reason") == Reason.MEMBERS_DOWN)
    built = bool(status.get("planeClusterUID"))
    plane_down.labels(tenant).set(built and plane.get("status") != "True" and plane.get("reason") != Reason.DATA_LOST)
    store = condition_of({"status": status}, ConditionType.STORE_HAS_ROOM)
    store_full.labels(tenant).set(store.get("reason") == Reason.STORE_FULL)
    degraded = condition_of({"status": status}, ConditionType.DEGRADED)
    store_corrupt.labels(tenant).set(degraded.get("reason") == Reason.CORRUPT)
    gpus = status.get("gpus") or {}
    for what in ("used", "limit"):
        if what in gpus:
            tenant_gpus.labels(tenant, what).set(gpus[what])
    slurm = status.get("slurm") or {}
    for gauge, field, states in ((slurm_nodes, "nodes", _NODE_STATES), (slurm_jobs, "jobs", _JOB_STATES)):
        gauge.remove_by_labels({"tenant": tenant})
        counts = slurm.get(field) or {}
        for state in states if counts else ():
            gauge.labels(tenant, state).set(counts.get(state, 0))


def report_losses(tenant: str, total: Mapping[str, int]) -> None:
    """Set a plane's counts of lost audit events; reasons that the plane has not reported are set to 0."""
    for why in LOSSES:
        audit_lost.labels(tenant, why).set(total.get(why, 0))


def report_store(tenant: str, *, size: int, used: int, quota: int) -> None:
    """Set the gauges of a plane's store, in bytes."""
    for what, number in zip(_OF_STORES, (size, used, quota), strict=True):
        store_bytes.labels(tenant, what).set(number)


def report_snapshots(tenant: str, *, last: float | None, due: float | None) -> None:
    """Set the gauges of a plane's snapshots; None removes one."""
    for gauge, moment in ((last_snapshot, last), (snapshot_due, due)):
        if moment is None:
            _drop(gauge, (tenant,))
        else:
            gauge.labels(tenant).set(moment)


def report_retained(tenant: str, until: float | None) -> None:
    """Set until when the plane of a deleted Tenant is kept; None if it is not."""
    if until is None:
        _drop(retained_until, (tenant,))
    else:
        retained_until.labels(tenant).set(until)


def report_certificates(tenant: str, ends: Mapping[str, datetime]) -> None:
    """Set the end of the certificate that ends first, and drop the one that did before; none: nothing is known."""
    certificate_end.remove_by_labels({"tenant": tenant})
    if ends:
        first = min(ends, key=lambda name: (ends[name], name))
        certificate_end.labels(tenant, first).set(ends[first].timestamp())


def report_api(
    tenant: str, *, answers: Mapping[str, int], seconds: Mapping[str, float | None], inflight: Mapping[str, int]
) -> None:
    """Add the answers of a plane's API server, and set its latency and load; what is unknown has no series."""
    for status, number in answers.items():
        api_answers.labels(tenant, status).inc(number)
    api_seconds.remove_by_labels({"tenant": tenant})
    api_inflight.remove_by_labels({"tenant": tenant})
    for way, long in seconds.items():
        if long is not None:
            api_seconds.labels(tenant, way).set(long)
    for way, most in inflight.items():
        api_inflight.labels(tenant, way).set(most)


def count_spans(result: str, number: int) -> None:
    """Count spans that were sent or dropped."""
    _spans.labels(result).inc(number)


def first_ready(uid: str, created: str, now: datetime) -> float | None:
    """Observe the time to a tenant's first Ready; returns the seconds, or None if it was observed before."""
    if uid in _seen_ready:
        return None
    _seen_ready.add(uid)
    seconds = (now - datetime.fromisoformat(created).astimezone(UTC)).total_seconds()
    ready_seconds.observe(max(0.0, seconds))
    return seconds


def forget(tenant: str) -> None:
    """Drop the series of a deleted tenant."""
    for metric in _OF_TENANTS:
        metric.remove_by_labels({"tenant": tenant})


def stand_down() -> None:
    """Drop what only the leader knows: all series of tenants, and the numbers of the fleet."""
    for metric in _OF_TENANTS:
        metric.clear()
    for gauge in (leading, queue_depth, issuers_silent, accelerator_pods):
        gauge.set(0)
    retained_until.clear()


def _drop(gauge: Gauge | Counter, values: tuple[str, ...]) -> None:
    with contextlib.suppress(KeyError):
        gauge.remove(*values)
