"""The workloads that wait, in the ledger's order, and why. Pure.

Snapshot ──> decide ──> verdicts, in the order of the turn ──> by workload ──> Waiting: place, pods, reason, forecast
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bulkhead.api.ledger import moment
from bulkhead.ledger.model import Decisions, Pod, PodVerdict, Snapshot, Why
from bulkhead.ledger.order import sort_out
from workstation.cli.quotas.summary import number


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
    found = sort_out(snapshot.pods)
    ready = {workload.pods[0].uid for workload in (*found.workloads, *found.rests)}
    workloads = [workload.pods for workload in (*found.workloads, *found.rests)] + [workload.pods for workload in found.unready]
    together = {pod.uid: pods for pods in workloads for pod in pods}
    mates = {name for name, tenant in snapshot.tenants.items() if tenant.cohort == cohort and (cohort or name == alone)}
    listed: list[Waiting] = []
    done: set[str] = set()
    place = 0
    for uid, verdict in decisions.verdicts.items():
        pods = together.get(uid, ())
        if not pods or uid in done or pods[0].tenant not in mates:
            continue
        done |= {pod.uid for pod in pods}
        queued = pods[0].uid in ready and verdict.why is not Why.NEVER
        place += queued
        listed.append(Waiting(place if queued else None, pods, verdict))
    return listed


def devices(asks: Mapping[str, int]) -> str:
    """The requested amounts as text; only devices if there are any."""
    named = {name: amount for name, amount in asks.items() if "/" in name} or asks
    return ", ".join(f"{number(('', name), amount)} {name}" for name, amount in named.items()) or "nothing"


def as_json(each: Waiting) -> dict[str, Any]:
    """A workload that waits, in base units."""
    pod, starts = each.first, each.verdict.starts_by
    return {
        "place": each.place,
        "tenant": pod.tenant,
        "namespace": pod.virtual_namespace,
        "gang": pod.gang.name if pod.gang else "",
        "pods": names(each.pods),
        "asks": each.asks,
        "priority": min(member.priority for member in each.pods),
        "since": moment(each.since),
        "reason": str(each.verdict.why),
        "message": each.verdict.message,
        "startsBy": None if starts is None else moment(starts),
    }


def names(pods: Iterable[Pod]) -> list[str]:
    """The tenant's names of the pods."""
    return [pod.virtual_name or pod.name for pod in pods]
