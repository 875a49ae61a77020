"""Shows what a change of a tenant's quota would do: a dry run for `bulkhead quota try`.

    Snapshot, other shares ──> decisions now, and after the grace period for lowered quotas ──> which pods go, and when

It decides as the ledger does, and writes nothing. It does not foresee later changes with other causes, such as pods that end or
are created.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Cause, Decisions, Line, Pod, Share, Snapshot, Standing


@dataclass(frozen=True, slots=True)
class Loss:
    """A pod that would be reclaimed."""

    pod: Pod
    cause: Cause
    # When it would be gone at the latest.
    by: float


@dataclass(frozen=True, slots=True)
class Trial:
    """What a changed quota would do."""

    losses: tuple[Loss, ...]
    # Pods that would start at once with the changed quota, and not without.
    starts: tuple[Pod, ...]
    # By tenant: what it would hold beyond its ceiling, and keep until its pods end.
    kept: Mapping[str, Mapping[Line, int]]
    before: Mapping[str, Mapping[Line, Standing]]
    after: Mapping[str, Mapping[Line, Standing]]


def try_quota(snapshot: Snapshot, tenant: str, shares: Mapping[Line, Share], now: float) -> Trial:
    """What would happen if these shares replaced the tenant's present shares of the same lines."""
    changed = _with(snapshot, {tenant: shares})
    before, after = decide(snapshot, now), decide(changed, now)
    losses = _losses(after, before)
    over = {name: lines for name, lines in _over(after).items() if name in changed.tenants}
    grace = {name: changed.rules_for(name).over_quota_grace for name in over if changed.rules_for(name).over_quota == "Reclaim"}
    for wait in sorted(set(grace.values())):
        due = [name for name, its in grace.items() if its == wait]
        later = decide(_since(changed, due, now, losses), now + wait)
        losses += [
            Loss(reclaim.pod, reclaim.cause, reclaim.deadline) for reclaim in later.reclaim if reclaim.cause is Cause.LOWERED
        ]
    there = {admission.pod.uid for admission in before.admit}
    return Trial(
        losses=tuple(losses),
        starts=tuple(admission.pod for admission in after.admit if admission.pod.uid not in there),
        kept={name: lines for name, lines in over.items() if name not in grace},
        before=before.standings,
        after=after.standings,
    )


def _losses(after: Decisions, before: Decisions) -> list[Loss]:
    anyway = {reclaim.pod.uid for reclaim in before.reclaim}
    return [Loss(reclaim.pod, reclaim.cause, reclaim.deadline) for reclaim in after.reclaim if reclaim.pod.uid not in anyway]


def _over(decisions: Decisions) -> dict[str, dict[Line, int]]:
    """How much each tenant holds beyond its ceiling, by line."""
    found: dict[str, dict[Line, int]] = {}
    for name, lines in decisions.standings.items():
        over = {line: standing.used - standing.ceiling for line, standing in lines.items() if standing.used > standing.ceiling}
        if over:
            found[name] = over
    return found


def _with(snapshot: Snapshot, changes: Mapping[str, Mapping[Line, Share]]) -> Snapshot:
    tenants = dict(snapshot.tenants)
    for name, shares in changes.items():
        tenants[name] = replace(tenants[name], shares={**tenants[name].shares, **shares})
    return replace(snapshot, tenants=tenants)


def _since(snapshot: Snapshot, over: Iterable[str], now: float, losses: Iterable[Loss]) -> Snapshot:
    """The snapshot in which the grace period of these tenants begins now, and the lost pods are being reclaimed."""
    begun = {name: replace(found, over_since=dict.fromkeys(found.shares, now)) for name, found in snapshot.tenants.items()}
    tenants = {**snapshot.tenants, **{name: begun[name] for name in over}}
    gone = {loss.pod.uid: loss for loss in losses}
    pods = tuple(
        replace(pod, reclaim_by=gone[pod.uid].by, reclaim_cause=gone[pod.uid].cause) if pod.uid in gone else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, tenants=tenants, pods=pods)
