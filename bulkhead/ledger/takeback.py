"""Plans reclaims that no waiting workload causes.

- The rest of a gang of which some pods are being taken back: the process that marked the first pods was interrupted.
- A gang that was admitted and is not bound whole in time, and a single pod that is pinned to a node and not bound in time. They
  are admitted again. A pod that replaces an ended member of a running gang goes back alone.
- What a tenant holds over a quota that was lowered, if its cohort wants that, after the grace: the lowest priority first, then
  the newest, and no more than is over. Until then those pods are told so, and also where they stay.

Pure. A reclamation holds until its pods are gone; `Books.comes` tells that to the rest of the turn.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from bulkhead.ledger import verdict
from bulkhead.ledger.books import Books, Held
from bulkhead.ledger.model import Cause, Line, PodVerdict, Rules, Snapshot, Stage, Tenant
from bulkhead.ledger.order import Group, Sorted, Workload
from bulkhead.ledger.reclaim import Candidates


@dataclass(frozen=True, slots=True)
class Reclamation:
    """What goes, why, and by when."""

    group: Group
    cause: Cause
    deadline: float
    message: str
    beneficiary: str = ""
    to: str = ""


@dataclass(frozen=True, slots=True)
class ReclaimPlan:
    """Everything that goes back now, and when the next is due."""

    reclamations: tuple[Reclamation, ...]
    times: tuple[float, ...]


def plan_reclaims(snapshot: Snapshot, books: Books, candidates: Candidates, found: Sorted, now: float) -> ReclaimPlan:
    """What goes back; the books know of it afterwards."""
    reclamations: list[Reclamation] = []
    times: list[float] = []
    rests = {gang_of(rest): rest for rest in found.rests}
    for group in found.groups:
        tenant = snapshot.tenants.get(group.tenant)
        rules = snapshot.rules.get(tenant.cohort if tenant else "", Rules())
        rest = rests.get(gang_of(group)) if group.is_gang else None
        reclamation = _interrupted(group, books) or _unbound(group, rest, rules, now, times)
        if reclamation is not None:
            reclamations.append(reclamation)
            books.comes(reclamation.group)
    for reclamation in _lowered(snapshot, books, candidates, now, times):
        reclamations.append(reclamation)
        books.comes(reclamation.group)
    return ReclaimPlan(tuple(reclamations), tuple(times))


def gang_of(what: Group | Workload) -> tuple[object, ...]:
    """By what a gang is known: its name, and which of those that had it."""
    generation = what.generation if isinstance(what, Group) else what.rest_of and what.rest_of.since
    return what.tenant, what.key[0], what.key[1], generation


def _interrupted(group: Group, books: Books) -> Reclamation | None:
    marked = [pod for pod in group.pods if pod.reclaim_by is not None and pod.reclaim_cause != Cause.ROLLBACK]
    left = tuple(held.pod for held in books.staying(group))
    if not marked or not left:
        return None
    first = min(marked, key=lambda pod: (pod.reclaim_by, pod.uid))
    cause = Cause(first.reclaim_cause) if first.reclaim_cause in set(Cause) else Cause.BORROWED
    deadline = first.reclaim_by or 0.0
    return Reclamation(replace(group, pods=left), cause, deadline, verdict.taken_back(cause))


def _unbound(group: Group, rest: Workload | None, rules: Rules, now: float, times: list[float]) -> Reclamation | None:
    """What was admitted and has not arrived."""
    staying = [pod for pod in group.pods if not pod.ending and pod.reclaim_by is None]
    late = [
        pod for pod in staying if pod.stage is Stage.ADMITTED and pod.admitted is not None and (group.is_gang or pod.pinned)
    ]
    missing = rest.pods if rest is not None else ()
    admitted = max((pod.admitted for pod in staying if pod.admitted is not None), default=None)
    if admitted is None:
        return None
    # Who came after all the others had been admitted takes an ended one's place: the others may well run on.
    running = [pod for pod in staying if pod.stage is Stage.BOUND]
    first = max((pod.admitted or pod.created for pod in running), default=None)
    replaced = {pod.uid for pod in (*late, *missing) if first is not None and pod.created > first}
    stuck = [pod for pod in missing if pod.uid not in replaced and pod.created <= admitted]
    ends = [pod.admitted + rules.bind_within for pod in late if pod.admitted is not None]
    if stuck:
        ends.append(admitted + rules.bind_within)
    if not ends:
        return None
    if min(ends) > now:
        times.append(min(ends))
        return None
    whole = bool(stuck) or any(pod.uid not in replaced for pod in late)
    gone = tuple(staying) if whole else tuple(pod for pod in late if (pod.admitted or 0.0) + rules.bind_within <= now)
    return Reclamation(replace(group, pods=gone), Cause.ROLLBACK, now, verdict.not_bound(rules.bind_within, len(gone)))


def _lowered(snapshot: Snapshot, books: Books, candidates: Candidates, now: float, times: list[float]) -> Iterator[Reclamation]:
    """What is over quotas that were lowered, where the grace is over."""
    for name, tenant in sorted(snapshot.tenants.items()):
        rules = snapshot.rules.get(tenant.cohort, Rules())
        ends = _grace_ends(tenant, rules)
        if ends is None:
            continue
        if ends > now:
            times.append(ends)
            continue
        deadline = now + rules.reclaim_within
        for group in _too_much(name, books, candidates):
            yield Reclamation(group, Cause.LOWERED, deadline, verdict.taken_back(Cause.LOWERED))


def over_quotas(snapshot: Snapshot, books: Books, candidates: Candidates) -> dict[str, PodVerdict]:
    """What pods should know that are over quotas that were lowered, by UID; not those that go back already."""
    found: dict[str, PodVerdict] = {}
    for name, tenant in sorted(snapshot.tenants.items()):
        rules = snapshot.rules.get(tenant.cohort, Rules())
        ends = _grace_ends(tenant, rules)
        # Since when it is over, is noted in the turn that sees it; the pods are told in the next one.
        if not books.now.account.over(name) or (ends is None and rules.over_quota == "Reclaim"):
            continue
        said = verdict.over_quota(ends)
        found |= {pod.uid: said for group in _too_much(name, books, candidates) for pod in group.pods}
    return found


def _grace_ends(tenant: Tenant, rules: Rules) -> float | None:
    """When what a tenant holds over its quota begins to be taken back; None: never, or it is not noted since when it does."""
    if rules.over_quota != "Reclaim" or tenant.over_since is None:
        return None
    return tenant.over_since + rules.over_quota_grace


def _too_much(tenant: str, books: Books, candidates: Candidates) -> list[Group]:
    """Whole groups, until the tenant holds no more than it may."""
    excess = books.excess(tenant)
    taken = []
    for group in candidates.of(tenant):
        if not _is_over(excess):
            break
        staying = books.staying(group)
        if not any(excess[line] > 0 for held in staying for line in held.charge):
            continue
        _add(excess, staying, -1)
        taken.append((group, staying))
    gone = []
    for group, staying in reversed(taken):
        _add(excess, staying, 1)
        if _is_over(excess):
            _add(excess, staying, -1)
            gone.append(replace(group, pods=tuple(held.pod for held in staying)))
    return gone[::-1]


def _is_over(excess: Mapping[Line, int]) -> bool:
    return any(number > 0 for number in excess.values())


def _add(excess: dict[Line, int], staying: Iterable[Held], times: int) -> None:
    for held in staying:
        for line, number in held.charge.items():
            excess[line] += number * times
