"""The workloads that wait, in the ledger's order, and each one's place. Pure.

    Snapshot, Decisions ──> workloads in the order of the turn ──> `waiting`: place, pods, reason, forecast
                                                               └─> `places`: by tenant, of its first pods

A place counts the workloads of all tenants in the queue; it names none.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bulkhead.api.ledger import QUEUED_PODS_NOTED, Place
from bulkhead.ledger.model import Decisions, Pod, PodVerdict, Snapshot, Why
from bulkhead.ledger.order import sort_out


@dataclass(frozen=True, slots=True)
class Waiting:
    """A workload that waits."""

    # The place in its cohort's queue, from 1; None if it is not in the queue because no room would help it.
    place: int | None
    pods: tuple[Pod, ...]
    verdict: PodVerdict

    @property
    def first(self) -> Pod:
        """Its oldest pod."""
        return self.pods[0]

    @property
    def name(self) -> str:
        """The tenant's name for it: namespace and pod, or gang."""
        pod = self.first
        called = f"gang {pod.gang.name}" if pod.gang is not None else pod.virtual_name or pod.name
        return f"{pod.virtual_namespace}/{called}"

    @property
    def asks(self) -> dict[str, int]:
        """What all of its pods request together."""
        names = sorted({name for pod in self.pods for name in pod.asks})
        return {name: sum(pod.asks.get(name, 0) for pod in self.pods) for name in names}

    @property
    def since(self) -> float:
        """The time since when it is complete, in seconds since 1970."""
        return max(pod.created for pod in self.pods)


def waiting(snapshot: Snapshot, decisions: Decisions, cohort: str, alone: str = "") -> list[Waiting]:
    """The workloads that wait in a cohort, in order; tenants without a cohort (`alone`) have a queue each."""
    mates = {name for name, tenant in snapshot.tenants.items() if tenant.cohort == cohort and (cohort or name == alone)}
    return [workload for workload in _in_order(snapshot, decisions) if workload.first.tenant in mates]


def places(snapshot: Snapshot, decisions: Decisions) -> dict[str, dict[str, Place]]:
    """By tenant and pod UID, the place of the tenant's first waiting pods; no more than a note on its quota has room for."""
    found: dict[str, dict[str, Place]] = {name: {} for name in snapshot.tenants}
    for workload in _in_order(snapshot, decisions):
        noted = found.get(workload.first.tenant)
        if noted is None or workload.place is None:
            continue
        for pod in workload.pods[: QUEUED_PODS_NOTED - len(noted)]:
            noted[pod.uid] = Place(workload.place, workload.verdict.starts_by)
    return found


def _in_order(snapshot: Snapshot, decisions: Decisions) -> Iterator[Waiting]:
    """All workloads that wait. Places count by queue: a cohort's, or the one of a tenant without a cohort."""
    if not decisions.verdicts:
        return
    queues = _queues(snapshot)
    found = sort_out(snapshot.pods)
    ready = {workload.pods[0].uid for workload in (*found.workloads, *found.rests)}
    workloads = [workload.pods for workload in (*found.workloads, *found.rests)] + [workload.pods for workload in found.unready]
    together = {pod.uid: pods for pods in workloads for pod in pods}
    done: set[str] = set()
    length: Counter[tuple[str, str]] = Counter()
    for uid, verdict in decisions.verdicts.items():
        pods = together.get(uid, ())
        if not pods or uid in done:
            continue
        done |= {pod.uid for pod in pods}
        queue = queues.get(pods[0].tenant, ("", pods[0].tenant))
        queued = pods[0].uid in ready and verdict.why is not Why.NEVER
        length[queue] += queued
        yield Waiting(length[queue] if queued else None, pods, verdict)


def _queues(snapshot: Snapshot) -> Mapping[str, tuple[str, str]]:
    """By tenant, the queue that its workloads wait in."""
    return {name: (tenant.cohort, "" if tenant.cohort else name) for name, tenant in snapshot.tenants.items()}
