"""From a snapshot to decisions: what the ledger's shell does next.

    Snapshot ──> workloads ──> what goes back by itself ──> rests of gangs, successors of moved pods
                 ──> the queue, one by one ──> who is moved ──> Decisions

The same snapshot, its pods in any order, gives the same decisions. All of them are made at one moment and fit each other, so
the shell may stop after any of its writes: the next snapshot shows what was done, and the rest is decided anew.
"""

from collections.abc import Iterable
from dataclasses import replace

from bulkhead.ledger import verdict
from bulkhead.ledger.admit import Gate, Outcome
from bulkhead.ledger.books import Books
from bulkhead.ledger.gangs import is_staying
from bulkhead.ledger.model import Decisions, Reclaim, Snapshot, Verdict
from bulkhead.ledger.order import Queue, Sorted, Workload, age, sort_out
from bulkhead.ledger.reclaim import Candidates
from bulkhead.ledger.spare import spared
from bulkhead.ledger.takeback import Back, due, gang_of, over_quotas


def decide(snapshot: Snapshot, now: float) -> Decisions:
    """What is to be done now."""
    snapshot = replace(
        snapshot, pods=tuple(sorted(snapshot.pods, key=age)), nodes=tuple(sorted(snapshot.nodes, key=lambda node: node.name))
    )
    found = sort_out(snapshot.pods)
    books = Books(snapshot, now)
    candidates = Candidates(found.groups, books, snapshot)
    back = due(snapshot, books, candidates, found, now)
    notices = over_quotas(snapshot, books, candidates)
    gate = Gate(snapshot, books, candidates, now)
    gate.outcome.backs.extend(back.backs)
    rests = _rests(gate, found, back.backs)
    waiting = [each for each in found.workloads if not gate.returns(each)] if snapshot.moved else found.workloads
    queue = Queue([*rests, *filter(gate.can_start, waiting)], gate.charges, gate.turn)
    while (workload := queue.next()) is not None:
        charge = gate.judge(workload)
        if charge is None:
            queue.judged(workload)
        else:
            queue.again(workload, charge)
    gate.consolidate()
    outcome = gate.outcome
    for unready in found.unready:
        said = verdict.of_unready(unready)
        gate.answers.verdicts.update((pod.uid, said) for pod in unready.pods)
    return Decisions(
        admit=tuple(outcome.admitted),
        reclaim=tuple(_reclaims(outcome.backs)),
        spare=spared(snapshot),
        verdicts=gate.answers.verdicts,
        notices=notices,
        standings=books.now.account.standings(),
        keeps=tuple(outcome.keeps),
        reserved=gate.reserved_rooms(),
        next_at=_next(snapshot, outcome, back.times, now),
    )


def _rests(gate: Gate, found: Sorted, backs: Iterable[Back]) -> list[Workload]:
    """Complete gangs that are admitted in part before anybody else is looked at, as far as they stay within nominal.

    Returns those that would borrow: they wait in the queue, because a workload within nominal could take their quota back at
    once. A gang that is being taken back is not completed.
    """
    staying = (group for group in found.groups if group.is_gang and any(is_staying(pod) for pod in group.pods))
    groups = {gang_of(group): group for group in staying}
    gone = {gang_of(back.group) for back in backs if back.group.is_gang}
    queued = []
    for workload in found.rests:
        gang = gang_of(workload)
        if gang in gone:
            said: Verdict = verdict.behind(workload)
            gate.answers.verdicts.update((pod.uid, said) for pod in workload.pods)
            continue
        gate.joins(workload, groups[gang])
        if not gate.can_start(workload):
            continue
        if gate.is_own(workload):
            gate.judge(workload)
        else:
            queued.append(workload)
    return queued


def _reclaims(backs: Iterable[Back]) -> Iterable[Reclaim]:
    for back in backs:
        for pod in back.group.pods:
            yield Reclaim(pod, back.cause, back.deadline, back.beneficiary, back.message, back.to)


def _next(snapshot: Snapshot, outcome: Outcome, times: Iterable[float], now: float) -> float | None:
    """When something is due by itself."""
    deadlines = [pod.reclaim_by for pod in snapshot.pods if pod.reclaim_by is not None]
    deadlines += [each.until for each in snapshot.moved if each.until is not None]
    due_times = [*deadlines, *times, *outcome.times, *(back.deadline for back in outcome.backs)]
    return min((at for at in due_times if at > now), default=None)
