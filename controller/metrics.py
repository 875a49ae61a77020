"""The controller's Prometheus metrics. Their names and labels are a public interface.

Only the label `tenant` has values that people choose. The values of the others (`result`, `kind`, `outcome`, `what`, `why`,
`member`) are few and fixed in a release. `forget` drops the series of a deleted tenant.
"""

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from prometheus_client import Counter, Gauge, Histogram

from bulkhead.api.conditions import ConditionType, Reason, condition_of, is_true

_RECONCILE_SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)

reconciles = Counter("bulkhead_controller_reconciles_total", "Reconciles of tenants, by result.", ["result"])
reconcile_seconds = Histogram("bulkhead_controller_reconcile_seconds", "Duration of a reconcile.", buckets=_RECONCILE_SECONDS)
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
data_lost = Gauge("bulkhead_tenant_data_lost", "1 while the plane's data is lost or replaced.", ["tenant"])
quorum_lost = Gauge("bulkhead_tenant_quorum_lost", "1 while fewer than a quorum of the plane's members serve.", ["tenant"])
members_down = Gauge("bulkhead_tenant_members_down", "1 while the plane serves and some of its members do not.", ["tenant"])
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
dedicated_nodes = Counter("bulkhead_controller_dedicated_nodes_total", "Marks of dedicated nodes written.", ["outcome"])
tenant_gpus = Gauge("bulkhead_tenant_gpus", "GPUs of a tenant: used and limit.", ["tenant", "what"])
ready_seconds = Histogram(
    "bulkhead_tenant_ready_seconds",
    "From the creation of a Tenant to its first Ready.",
    buckets=(1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120, 300),
)
LOSSES = ("buffered", "truncate", "webhook")
_OF_STORES = ("size", "used", "quota")
# Members of a plane; the label `member` has no other values.
_MEMBERS = ("plane-0", "plane-1", "plane-2")
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
    gpus = status.get("gpus") or {}
    for what in ("used", "limit"):
        if what in gpus:
            tenant_gpus.labels(tenant, what).set(gpus[what])


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
    for gauge, names in (
        (tenant_ready, [(tenant,)]),
        (data_lost, [(tenant,)]),
        (quorum_lost, [(tenant,)]),
        (members_down, [(tenant,)]),
        (tenant_gpus, [(tenant, "used"), (tenant, "limit")]),
        (audit_lost, [(tenant, why) for why in LOSSES]),
        (store_bytes, [(tenant, what) for what in _OF_STORES]),
        (store_fsync, [(tenant, member) for member in _MEMBERS]),
        (store_leader_changes, [(tenant, member) for member in _MEMBERS]),
        (store_defragmentations, [(tenant,)]),
        (store_openings, [(tenant,)]),
        (last_snapshot, [(tenant,)]),
        (snapshot_due, [(tenant,)]),
    ):
        for values in names:
            _drop(gauge, values)


def _drop(gauge: Gauge | Counter, values: tuple[str, ...]) -> None:
    with contextlib.suppress(KeyError):
        gauge.remove(*values)
