"""Finds Slurm workers that are being reclaimed although no workload waits for their devices any longer. Pure.

Other pods are evicted as soon as the reclaim is written to them. A worker has a grace period, and the pod that needs its
devices may be gone before that ends. A worker is spared only if no other tenant of its cohort has a waiting pod, gated or
blocked, that requests what it holds: then no waiting pod can cause the same reclaim again.
"""

from bulkhead.ledger.model import GATED, Cause, Pod, Snapshot, Stage

_FOR_A_WORKLOAD = frozenset({Cause.BORROWED, Cause.FAIRNESS})


def spared(snapshot: Snapshot) -> tuple[Pod, ...]:
    """The workers to spare."""
    noted = [
        pod
        for pod in snapshot.pods
        if pod.slurm_worker
        and pod.stage is Stage.BOUND
        and pod.reclaim_by is not None
        and pod.reclaim_cause in _FOR_A_WORKLOAD
        and not pod.ending
    ]
    if not noted:
        return ()
    wanted: dict[str, set[tuple[str, str]]] = {}
    for pod in snapshot.pods:
        if pod.stage in GATED and pod.tenant in snapshot.tenants:
            found = wanted.setdefault(snapshot.tenants[pod.tenant].cohort, set())
            found.update((pod.tenant, resource) for resource in pod.asks)
    # A tenant without a cohort neither lends nor borrows.
    wanted.pop("", None)
    return tuple(pod for pod in noted if not _is_wanted(pod, snapshot, wanted))


def _is_wanted(pod: Pod, snapshot: Snapshot, wanted: dict[str, set[tuple[str, str]]]) -> bool:
    tenant = snapshot.tenants.get(pod.tenant)
    others = wanted.get(tenant.cohort, set()) if tenant is not None else set()
    lent = {resource for _, resource in tenant.shares} if tenant is not None else set()
    return any(name != pod.tenant and resource in lent and pod.asks.get(resource) for name, resource in others)
