"""Exports metrics of the ledger to Prometheus, on the controller's port. Names and labels are part of the interface."""

from collections import Counter as Count
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median

from prometheus_client import Counter, Gauge, Histogram, Summary

from bulkhead.ledger.model import Cause, Line, PodVerdict, Standing

_SHOWN = ("nominal", "used", "borrowed", "lent")

turn_seconds = Histogram(
    "bulkhead_ledger_turn_seconds",
    "Duration of a turn of the ledger, including its writes.",
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15),
)
decide_seconds = Histogram(
    "bulkhead_ledger_decide_seconds", "Duration of one decision.", buckets=(0.002, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5)
)
admission_seconds = Histogram(
    "bulkhead_ledger_admission_seconds",
    "Time from when the ledger first saw a pod wait until its admission.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800, 7200, 86400),
)
pods = Gauge("bulkhead_ledger_pods", "Pods of the host that the ledger knows.")
waiting = Gauge("bulkhead_ledger_waiting_pods", "Pods that wait for the ledger, by reason.", ["reason"])
tenant_waiting = Gauge("bulkhead_ledger_tenant_waiting_pods", "Pods of a tenant that wait for the ledger.", ["tenant"])
tenant_wait = Gauge(
    "bulkhead_ledger_tenant_wait_seconds",
    "How long the pods of a tenant that wait for the ledger have waited: the longest, and the median.",
    ["tenant", "what"],
)
tenant_admission = Summary(
    "bulkhead_ledger_tenant_admission_seconds",
    "Time from a pod's creation until its admission, by tenant.",
    ["tenant"],
)
writes = Counter("bulkhead_ledger_writes_total", "Writes of the ledger, by kind and result.", ["what", "result"])
reclaims = Counter("bulkhead_ledger_reclaims_total", "Pods that were reclaimed, by cause.", ["cause"])
# Label `flavor` is empty for a resource without flavors.
tenant_resource = Gauge(
    "bulkhead_ledger_tenant_resource",
    "What a tenant has of a gated resource: nominal, used, borrowed, lent.",
    ["tenant", "resource", "flavor", "what"],
)
_shown: set[tuple[str, str, str]] = set()
_counted: set[str] = set()


def count_reclaim(cause: str) -> None:
    """Count a reclaim; a cause that is not one of ours creates no series."""
    reclaims.labels(cause if cause in set(Cause) else "other").inc()


def report_waiting(verdicts: Iterable[PodVerdict]) -> None:
    """Set the number of waiting pods by reason; a reason that no pod has any longer is set to 0."""
    counted = Count(str(verdict.why) for verdict in verdicts)
    waiting.clear()
    for reason, number in counted.items():
        waiting.labels(reason).set(number)


def report_waits(waits: Mapping[str, Sequence[float]]) -> None:
    """Set how long each tenant's waiting pods have waited, in seconds; a tenant without waiting pods has no series."""
    tenant_waiting.clear()
    tenant_wait.clear()
    for tenant, seconds in waits.items():
        tenant_waiting.labels(tenant).set(len(seconds))
        for what, number in (("longest", max(seconds)), ("median", median(seconds))):
            tenant_wait.labels(tenant, what).set(max(0.0, number))


def keep(tenants: Collection[str]) -> None:
    """Drop the counts of tenants that are no longer among these."""
    for tenant in _counted - set(tenants):
        tenant_admission.remove_by_labels({"tenant": tenant})
    _counted.intersection_update(tenants)


def count_admission(tenant: str, seconds: float) -> None:
    """Count an admission, and how long its pod existed before."""
    _counted.add(tenant)
    tenant_admission.labels(tenant).observe(max(0.0, seconds))


def stand_down() -> None:
    """Drop what only the leader knows."""
    pods.set(0)
    for metric in (waiting, tenant_waiting, tenant_wait, tenant_admission, tenant_resource):
        metric.clear()
    _shown.clear()
    _counted.clear()


def report_standings(standings: Mapping[str, Mapping[Line, Standing]]) -> None:
    """Set the standings of tenants, and drop series of tenants and lines that no longer exist."""
    now = {(tenant, resource, flavor) for tenant, lines in standings.items() for flavor, resource in lines}
    for gone in _shown - now:
        for what in _SHOWN:
            tenant_resource.remove(*gone, what)
    _shown.clear()
    _shown.update(now)
    for tenant, lines in standings.items():
        for (flavor, resource), standing in lines.items():
            for what in _SHOWN:
                tenant_resource.labels(tenant, resource, flavor, what).set(getattr(standing, what))
