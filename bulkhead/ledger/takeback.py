"""Plans reclaims that no waiting workload causes.

- The rest of a gang if some of its pods are being reclaimed: the process that marked these pods was interrupted.
- An admitted gang whose pods are not all bound in time, and a single pod that is pinned to a node and not bound in time. They
  are admitted again. A pod that replaces an ended member of a running gang goes back without the others.
- Pods over a quota that was lowered, after the grace period, if the cohort's policy is Reclaim: the lowest priority first, then
  the newest, and only as many as exceed the quota. Until then those pods get a message. They get one with policy Keep as well.

Pure. A reclamation holds until its pods are gone; `Books.comes` makes it known to the rest of the turn.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from bulkhead.ledger import verdict
from bulkhead.ledger.books import Books, Held
from bulkhead.ledger.model import Cause, Line, PodVerdict, Rules, Snapshot, Stage, Tenant
from bulkhead.ledger.order import Group, Sorted, Workload
from bulkhead.ledger.reclaim import Candidates


@dataclass(frozen=True, slots=True)
class Reclamation:
    """A group to reclaim, the cause, and the deadline."""

    group: Group
    cause: Cause
    deadline: float
    message: str
    beneficiary: str = ""
    to: str = ""


@dataclass(frozen=True, slots=True)
class ReclaimPlan:
    """All reclamations of now, and the times at which the next ones are due."""

    reclamations: tuple[Reclamation, ...]
    times: tuple[float, ...]


def plan_reclaims(snapshot: Snapshot, books: Books, candidates: Candidates, found: Sorted, now: float) -> ReclaimPlan:
    """The reclamations that are due; afterwards the books count their pods as on their way out."""
    reclamations: list[Reclamation] = []
    times: list[float] = []
    rests = {gang_of(rest): rest for rest in found.rests}
    for group in found.groups:
        rules = snapshot.rules_for(group.tenant)
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
    """The identity of a gang: its tenant, its name, and when it was admitted."""
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
    """The pods to reclaim of a group that was admitted and not bound in time."""
    staying = [pod for pod in group.pods if not pod.ending and pod.reclaim_by is None]
    late = [
        pod for pod in staying if pod.stage is Stage.ADMITTED and pod.admitted is not None and (group.is_gang or pod.pinned)
    ]
    missing = rest.pods if rest is not None else ()
    admitted = max((pod.admitted for pod in staying if pod.admitted is not None), default=None)
    if admitted is None:
        return None
    # A pod that was created after all running ones had been admitted replaces an ended member, so the others may run on.
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
    """Reclamations of pods over quotas that were lowered, once the grace period is over."""
    for name, tenant in sorted(snapshot.tenants.items()):
        rules = snapshot.rules_for(name)
        ends = _grace_ends(tenant, rules)
        times.extend(at for at in ends.values() if at > now)
        due = {line for line, at in ends.items() if at <= now}
        deadline = now + rules.reclaim_within
        for group in _too_much(name, books, candidates, due) if due else ():
            yield Reclamation(group, Cause.LOWERED, deadline, verdict.taken_back(Cause.LOWERED))


def over_quotas(snapshot: Snapshot, books: Books, candidates: Candidates) -> dict[str, PodVerdict]:
    """Messages for pods over quotas that were lowered, by UID; without pods that are already being reclaimed."""
    found: dict[str, PodVerdict] = {}
    for name, tenant in sorted(snapshot.tenants.items()):
        rules = snapshot.rules_for(name)
        for at, lines in _fates(tenant, rules, books.now.account.over(name)):
            notice = verdict.over_quota(at)
            found |= {pod.uid: notice for group in _too_much(name, books, candidates, lines) for pod in group.pods}
    return found


def _fates(tenant: Tenant, rules: Rules, over: Iterable[Line]) -> list[tuple[float | None, set[Line]]]:
    """When pods over the tenant's quota of which lines begin to be reclaimed, the latest first; None: never."""
    lines = set(over)
    if rules.over_quota == "Keep":
        return [(None, lines)] if lines else []
    # The turn that first sees the excess records its time; the next turn writes the messages.
    ends = {line: at for line, at in _grace_ends(tenant, rules).items() if line in lines}
    return [(end, {line for line, at in ends.items() if at == end}) for end in sorted(set(ends.values()), reverse=True)]


def _grace_ends(tenant: Tenant, rules: Rules) -> dict[Line, float]:
    """When pods over a tenant's quota of a line begin to be reclaimed; without lines whose excess is not recorded yet."""
    recorded = tenant.over_since if rules.over_quota == "Reclaim" else {}
    return {line: since + rules.over_quota_grace for line, since in recorded.items()}


def _too_much(tenant: str, books: Books, candidates: Candidates, lines: Collection[Line] | None = None) -> list[Group]:
    """The whole groups to reclaim until the tenant holds no more than its ceiling: of all lines, or of some."""
    excess = books.excess(tenant)
    if lines is not None:
        excess = {line: number if line in lines else min(number, 0) for line, number in excess.items()}
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
