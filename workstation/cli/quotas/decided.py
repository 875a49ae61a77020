"""What the ledger counts of one tenant's cohort and decides for its workloads now, for an archive. Pure.

    View ──> decide ──> limits and standing of all members, the tenant's own workloads in the queue, how many of others wait

Pods are named as on the host: what a tenant calls its pods is its own text.
"""

from collections import Counter
from typing import Any

from bulkhead.api.ledger import moment
from bulkhead.ledger.decide import decide
from workstation.cli.quotas import queued
from workstation.cli.quotas.hostview import View
from workstation.cli.quotas.summary import as_json, cohorts


def decided(view: View, tenant: str) -> dict[str, Any]:
    """The tenant's part of the ledger; an empty one for a tenant that it does not count."""
    snapshot = view.snapshot
    members = next((found for found in cohorts(snapshot) if tenant in found.tenants), None)
    if members is None:
        return {}
    # Members without a cohort have nothing in common.
    shown = members.tenants if members.name else (tenant,)
    queue = queued.waiting(snapshot, decide(snapshot, view.now), members.name, "" if members.name else tenant)
    others = Counter(workload.first.tenant for workload in queue if workload.first.tenant != tenant)
    stages = Counter(str(pod.stage) for pod in snapshot.pods if pod.tenant == tenant)
    return {
        "at": moment(view.now),
        "cohort": members.name,
        "lines": [{"tenant": row.tenant} | as_json(row) for row in members.rows if row.tenant in shown],
        "podsByStage": dict(sorted(stages.items())),
        "waiting": [
            queued.as_json(workload)
            | {
                "namespace": workload.first.namespace,
                "pods": [pod.name for pod in workload.pods],
                "gang": workload.first.gang is not None,
            }
            for workload in queue
            if workload.first.tenant == tenant
        ],
        "othersWaiting": dict(sorted(others.items())),
    }
