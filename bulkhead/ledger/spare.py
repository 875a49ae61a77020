"""Finds pods that are being reclaimed although no workload waits for what they hold any longer. Pure.

    being reclaimed, and still there: a Slurm worker in its grace period, or a pod that a disruption budget holds
        └──> all of its workload are, and no pod of another tenant of its cohort waits for what one of them holds ──> spared

A budget holds a pod until its deadline, and the pod that needs the quota may be gone before that. A pod whose eviction was
accepted is ending. A gang is spared as a whole or not at all. A waiting pod counts whether it is gated or blocked: then no
waiting pod can cause the same reclaim again.
"""

from collections.abc import Iterable, Mapping

from bulkhead.api.workloads import WorkloadKey
from bulkhead.ledger.model import GATED, Cause, Pod, Snapshot, Stage

_FOR_A_WORKLOAD = frozenset({Cause.BORROWED, Cause.FAIRNESS})


def spared(snapshot: Snapshot) -> tuple[Pod, ...]:
    """The pods to spare, workload by workload."""
    losing = {pod.tenant for pod in snapshot.pods if _is_reclaimed(pod)}
    if not losing:
        return ()
    held: dict[WorkloadKey, list[Pod]] = {}
    wanted: dict[str, set[tuple[str, str]]] = {}
    for pod in snapshot.pods:
        if pod.stage not in GATED:
            if pod.tenant in losing:
                held.setdefault(pod.workload, []).append(pod)
        elif pod.tenant in snapshot.tenants:
            found = wanted.setdefault(snapshot.tenants[pod.tenant].cohort, set())
            found.update((pod.tenant, resource) for resource in pod.asks)
    # A tenant without a cohort neither lends nor borrows.
    wanted.pop("", None)
    return tuple(
        pod
        for pods in held.values()
        if all(map(_is_reclaimed, pods)) and not any(_is_wanted(pod, snapshot, wanted) for pod in pods)
        for pod in pods
    )


def _is_reclaimed(pod: Pod) -> bool:
    """Whether it is being reclaimed for a workload, and runs yet."""
    marked = pod.reclaim_by is not None and pod.reclaim_cause in _FOR_A_WORKLOAD
    return marked and pod.stage is Stage.BOUND and not pod.ending


def _is_wanted(pod: Pod, snapshot: Snapshot, wanted: Mapping[str, Iterable[tuple[str, str]]]) -> bool:
    tenant = snapshot.tenants.get(pod.tenant)
    others = wanted.get(tenant.cohort, ()) if tenant is not None else ()
    lent = {resource for _, resource in tenant.shares} if tenant is not None else set()
    return any(name != pod.tenant and resource in lent and pod.asks.get(resource) for name, resource in others)
