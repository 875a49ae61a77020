"""Which workers of Slurm are being taken back although nobody waits for what they hold any more. Pure.

Other pods are evicted as soon as it is noted on them; a worker has its grace, and the pod for which it goes may be gone before
that is over. It is spared only when no other tenant of its cohort has anything waiting that asks for what it holds, gated or
not: then nothing that waits now can have it noted again.
"""

from bulkhead.ledger.model import GATED, Cause, Pod, Snapshot, Stage

_FOR_SOMEBODY = frozenset({Cause.BORROWED, Cause.FAIRNESS})


def spared(snapshot: Snapshot) -> tuple[Pod, ...]:
    """The workers to spare."""
    noted = [
        pod
        for pod in snapshot.pods
        if pod.slurm_worker
        and pod.stage is Stage.BOUND
        and pod.reclaim_by is not None
        and pod.reclaim_cause in _FOR_SOMEBODY
        and not pod.ending
    ]
    if not noted:
        return ()
    wanted: dict[str, set[tuple[str, str]]] = {}
    for pod in snapshot.pods:
        if pod.stage in GATED and pod.tenant in snapshot.tenants:
            found = wanted.setdefault(snapshot.tenants[pod.tenant].cohort, set())
            found.update((pod.tenant, resource) for resource in pod.asks)
    # Who has left every cohort lends to nobody and borrows from nobody.
    wanted.pop("", None)
    return tuple(pod for pod in noted if not _is_wanted(pod, snapshot, wanted))


def _is_wanted(pod: Pod, snapshot: Snapshot, wanted: dict[str, set[tuple[str, str]]]) -> bool:
    tenant = snapshot.tenants.get(pod.tenant)
    others = wanted.get(tenant.cohort, set()) if tenant is not None else set()
    lent = {resource for _, resource in tenant.shares} if tenant is not None else set()
    return any(name != pod.tenant and resource in lent and pod.asks.get(resource) for name, resource in others)
