"""Decides the next step for a pod that is reclaimed. Pure.

    no node ──> DROP: it is recreated, gated
    else NOTE ──> its gang was not bound ──> DROP
         NOTE ──> EVICT, marked and again while a disruption budget refuses ──> deadline ──> MARK ──> DELETE
         its deletion would take longer than the deadline: NOTE ──> deadline ──> DELETE, with less grace
         NOTE ──> a worker of Slurm: drained by its cluster's reconcile ──> deadline and a while more ──> MARK ──> DELETE

Each step leaves its mark on the pod, so the next leader continues where the last one stopped.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bulkhead.api.ledger import Reclaimed
from bulkhead.ledger.books import LAST_GRACE_SECONDS
from bulkhead.ledger.model import Cause, Stage
from controller.dispatch.hostpod import Seen

# Slurm ends jobs at the deadline, and then needs some time to report that.
_SLURM_EXTRA_SECONDS: Final = 30.0


class ReclaimStep(StrEnum):
    """One write."""

    NOTE = "note"
    MARK = "mark"
    EVICT = "evict"
    DELETE = "delete"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Next:
    """The next write; or None, and when the next one is due."""

    step: ReclaimStep | None
    at: float | None = None


def next_step(seen: Seen, reclaimed: Reclaimed, now: float) -> Next:
    """The next step for a pod as it is now; `reclaimed` was decided now, or is its annotation already."""
    pod = seen.pod
    if pod.ending:
        return _ending(seen, reclaimed, now)
    if pod.stage is Stage.BOUND and seen.reclaim is None:
        return Next(ReclaimStep.NOTE)
    if pod.stage is not Stage.BOUND or reclaimed.cause == Cause.ROLLBACK:
        return Next(ReclaimStep.DROP)
    # A pod's labels are its tenant's choice, so the annotation decides. Older controllers trusted the labels and wrote nothing.
    worker = pod.slurm_worker if reclaimed.worker is None else reclaimed.worker
    if worker and now < reclaimed.by + _SLURM_EXTRA_SECONDS:
        return Next(None, reclaimed.by + _SLURM_EXTRA_SECONDS)
    if now < reclaimed.by:
        return Next(ReclaimStep.EVICT, reclaimed.by)
    # An eviction sets the condition by itself, and a deletion does not.
    return Next(ReclaimStep.DELETE if seen.disrupted else ReclaimStep.MARK)


def last_grace(seen: Seen) -> int:
    """The grace period in seconds of a deletion at the deadline."""
    return min(max(seen.grace, 1), LAST_GRACE_SECONDS)


def _ending(seen: Seen, reclaimed: Reclaimed, now: float) -> Next:
    if seen.pod.ends_at is None or seen.pod.ends_at <= max(now, reclaimed.by) + LAST_GRACE_SECONDS:
        return Next(None)
    if seen.pod.stage is Stage.BOUND and seen.reclaim is None:
        return Next(ReclaimStep.NOTE)
    return Next(ReclaimStep.DELETE) if now >= reclaimed.by else Next(None, reclaimed.by)
