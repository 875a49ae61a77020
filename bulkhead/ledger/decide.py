"""Makes decisions from a snapshot: what the ledger's shell does next.

    Snapshot ──> workloads ──> reclaims that no workload causes ──> rests of gangs, successors of moved pods
                 ──> the queue, one by one ──> moves ──> Decisions

The same snapshot, its pods in any order, gives the same decisions. They are made at one moment and fit each other, so the
shell may stop after any write: the next snapshot shows what was done, and the ledger decides the rest again.
"""

from collections.abc import Iterable
from dataclasses import replace

from bulkhead.ledger import verdict
from bulkhead.ledger.admit import AdmissionJudge, Outcome
from bulkhead.ledger.books import Books
from bulkhead.ledger.gangs import is_staying
from bulkhead.ledger.model import Decisions, PodVerdict, Reclaim, Snapshot
from bulkhead.ledger.order import Queue, Sorted, Workload, age, sort_out
from bulkhead.ledger.reclaim import Candidates
from bulkhead.ledger.spare import spared
from bulkhead.ledger.takeback import Reclamation, gang_of, over_quotas, plan_reclaims


def decide(snapshot: Snapshot, now: float) -> Decisions:
    """What the ledger's shell should do now."""
    snapshot = replace(
        snapshot, pods=tuple(sorted(snapshot.pods, key=age)), nodes=tuple(sorted(snapshot.nodes, key=lambda node: node.name))
    )
    found, unstated = _of_stated_quotas(sort_out(snapshot.pods), snapshot)
    books = Books(snapshot, now)
    candidates = Candidates(found.groups, books, snapshot)
    plan = plan_reclaims(snapshot, books, candidates, found, now)
    notices = over_quotas(snapshot, books, candidates)
    judge = AdmissionJudge(snapshot, books, candidates, now)
    judge.outcome.reclamations.extend(plan.reclamations)
    rests = _rests(judge, found, plan.reclamations)
    waiting = [workload for workload in found.workloads if not judge.returns(workload)] if snapshot.moved else found.workloads
    queue = Queue([*rests, *filter(judge.can_start, waiting)], judge.charging.charges, judge.charging.turn)
    while (workload := queue.next()) is not None:
        charge = judge.rule_on(workload)
        if charge is None:
            queue.judged(workload)
        else:
            queue.again(workload, charge)
    # Before consolidation, because it changes the books to the state after its moves, while the pods still hold their devices.
    reserved = judge.reserved_rooms()
    judge.consolidate()
    outcome = judge.outcome
    for workload in unstated:
        judge.answers.say(workload, verdict.without_quota(workload))
    for unready in found.unready:
        reason = verdict.of_unready(unready)
        judge.answers.verdicts.update((pod.uid, reason) for pod in unready.pods)
    return Decisions(
        admit=tuple(outcome.admitted),
        reclaim=tuple(_reclaims(outcome.reclamations)),
        spare=spared(snapshot),
        verdicts=judge.answers.verdicts,
        notices=notices,
        standings=books.now.account.standings(),
        keeps=tuple(outcome.keeps),
        reserved=reserved,
        next_at=_next(snapshot, outcome, plan.times, now),
    )


def _of_stated_quotas(found: Sorted, snapshot: Snapshot) -> tuple[Sorted, list[Workload]]:
    """Leave out workloads whose tenant has no quota on the host: it was deleted, and nothing says what they may use.

    Without its quota a tenant has no limit in the books, and each of its pods would be admitted.
    """
    unstated = [workload for workload in (*found.workloads, *found.rests) if workload.tenant not in snapshot.tenants]
    if not unstated:
        return found, unstated
    workloads, rests = (
        [workload for workload in some if workload.tenant in snapshot.tenants] for some in (found.workloads, found.rests)
    )
    return replace(found, workloads=workloads, rests=rests), unstated


def _rests(judge: AdmissionJudge, found: Sorted, reclamations: Iterable[Reclamation]) -> list[Workload]:
    """Complete gangs that are admitted in part before all other workloads, as far as they stay within nominal.

    Returns those that would borrow: they wait in the queue, because a workload within nominal could take their quota back at
    once. A gang that is being taken back is not completed.
    """
    staying = (group for group in found.groups if group.is_gang and any(is_staying(pod) for pod in group.pods))
    groups = {gang_of(group): group for group in staying}
    gone = {gang_of(reclamation.group) for reclamation in reclamations if reclamation.group.is_gang}
    queued = []
    for workload in found.rests:
        gang = gang_of(workload)
        if gang in gone:
            behind: PodVerdict = verdict.behind(workload)
            judge.answers.verdicts.update((pod.uid, behind) for pod in workload.pods)
            continue
        judge.charging.joins(workload, groups[gang])
        if not judge.can_start(workload):
            continue
        if judge.charging.is_own(workload):
            judge.rule_on(workload)
        else:
            queued.append(workload)
    return queued


def _reclaims(reclamations: Iterable[Reclamation]) -> Iterable[Reclaim]:
    for reclamation in reclamations:
        for pod in reclamation.group.pods:
            yield Reclaim(
                pod, reclamation.cause, reclamation.deadline, reclamation.beneficiary, reclamation.message, reclamation.to
            )


def _next(snapshot: Snapshot, outcome: Outcome, times: Iterable[float], now: float) -> float | None:
    """When the next turn is due even if nothing changes."""
    deadlines = [pod.reclaim_by for pod in snapshot.pods if pod.reclaim_by is not None]
    deadlines += [moved.until for moved in snapshot.moved if moved.until is not None]
    due_times = [*deadlines, *times, *outcome.times, *(reclamation.deadline for reclamation in outcome.reclamations)]
    return min((at for at in due_times if at > now), default=None)
