"""The design's invariants I1, I4, I6, I8 and I11 as checks over a recorded history. Pure: no clock, no network.

Each check returns violations as sentences; an empty list means that the invariant held. If the history shows too little to
judge, that is a violation too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from e2e.chaos.history import HOST, Evidence, History, LeaderSeen, PartSeen, PodGone, PodSeen, Side, Span
from e2e.chaos.percentiles import percentile
from e2e.chaos.sightings import LEAST_PROBES_A_SECOND, unseen_parts, unseen_pods

QUIET_SECONDS = 30.0  # I1: how long after the last disturbance mirrors may still differ
SLACK_SECONDS = 2.0  # the watches of two API servers do not share a clock
CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """The highest p99 that a neighbour may have: a factor of its own baseline, plus an allowance in seconds."""

    factor: float
    allowance: float

    def over(self, baseline: float) -> float:
        """The bound in seconds for a tenant whose p99 without faults was `baseline`."""
        return self.factor * baseline + self.allowance


AIM = LatencyBound(1.25, 0.050)  # the design's I4
# The cores that a fault keeps busy at most: the API servers of the target and of a new tenant with one core each, the host's
# API server, and the generator.
SPARE_CORES = 4.0


def bound_of(idle_cores: float, limit: LatencyBound) -> LatencyBound:
    """The bound beyond which a run fails. With spare cores before the first fault, it is the design's bound.

    On an oversubscribed machine a neighbour waits for the machine too. It must then keep `limit`, from `limits.yaml`.
    """
    return AIM if idle_cores >= SPARE_CORES else limit


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that did not hold."""

    invariant: str
    experiment: str
    text: str


@dataclass(frozen=True, slots=True)
class _Life:
    uid: str
    virtual_uid: str
    tenant: str
    name: str
    begin: float
    end: float
    leaving: float  # when its deletion had begun; at the latest when the pod was gone
    refused: tuple[tuple[float, float], ...] = ()  # while its status refused it, and until its host pod is due


def one_to_one(history: History) -> list[Violation]:
    """I1: never two host pods for one virtual UID; after 30 s of quiet every virtual pod has one, and no others exist."""
    virtual, host = _lives(history, "virtual"), _lives(history, "host")
    found = [Violation("I1", "observer", text) for text in unseen_pods(history)]
    found += _twins(history, host)
    for life in virtual:
        mirrors = [item for item in host if item.virtual_uid == life.virtual_uid]
        for moment in _uncovered(history, life, mirrors):
            text = f"tenant {life.tenant}: virtual pod {life.name} had no host pod at {moment:.1f}, after 30 s of quiet"
            found.append(Violation("I1", _experiment_at(history, moment), text))
    for life in host:
        originals = [item for item in virtual if item.virtual_uid == life.virtual_uid]
        # A host pod that is being deleted is not live; how long it takes to end depends on the kubelet.
        for moment in _uncovered(history, replace(life, end=life.leaving), originals):
            text = f"tenant {life.tenant}: host pod {life.name} had no virtual pod at {moment:.1f}, after 30 s of quiet"
            found.append(Violation("I1", _experiment_at(history, moment), text))
    return found


def neighbours_unharmed(history: History, baseline: Mapping[str, float], bound: LatencyBound = AIM) -> list[Violation]:
    """I4: while one tenant is broken, the others see no error and their p99 stays within the bound over their own baseline."""
    found = [] if history.spans else [Violation("I4", "observer", "no experiment was observed")]
    unknown = [tenant for tenant in history.tenants if tenant not in baseline]
    found += [
        Violation("I4", "baseline", f"tenant {tenant}: there is no baseline; its API was not probed, or did not answer")
        for tenant in unknown
    ]
    for span in history.spans:
        for tenant in history.tenants:
            if tenant == span.target or tenant in unknown:
                continue
            probes = history.probes(tenant, span.begin, span.end)
            if not probes or len(probes) < LEAST_PROBES_A_SECOND * (span.end - span.begin):
                text = f"tenant {tenant}: {len(probes)} requests in {span.end - span.begin:.0f} s: not observed"
                found.append(Violation("I4", span.experiment, text))
                continue
            errors = [probe for probe in probes if probe.error]
            if errors:
                text = f"tenant {tenant}: {len(errors)} of {len(probes)} requests failed, first: {errors[0].error}"
                found.append(Violation("I4", span.experiment, text))
            p99, most = percentile([probe.seconds for probe in probes], 99), bound.over(baseline[tenant])
            if p99 > most:
                text = f"tenant {tenant}: p99 {p99 * 1000:.0f} ms, more than {most * 1000:.0f} ms"
                found.append(Violation("I4", span.experiment, text))
    return found


def no_restart_elsewhere(history: History) -> list[Violation]:
    """I6: outside the target no container restarts, is replaced or runs out of memory, and the leader stays."""
    found = [Violation("I6", "observer", text) for text in unseen_parts(history, CONTROLLER)]
    last: dict[tuple[str, str], PartSeen] = {}
    leader = ""
    for record in history.records:
        if isinstance(record, PartSeen):
            key = (record.tenant, record.part)
            before, last[key] = last.get(key), record
            change = _change(before, record)
            if change and not _is_target(history, record.tenant or CONTROLLER, record.at):
                owner = f"tenant {record.tenant}" if record.tenant else "platform"
                found.append(Violation("I6", _experiment_at(history, record.at), f"{owner}: {record.part} {change}"))
        elif isinstance(record, LeaderSeen):
            if leader and record.holder != leader and not _is_target(history, CONTROLLER, record.at):
                text = f"leader changed from {leader} to {record.holder or 'nobody'}"
                found.append(Violation("I6", _experiment_at(history, record.at), text))
            leader = record.holder
    return found


def only_wanted_deletions(history: History) -> list[Violation]:
    """I8: no host pod is deleted while its virtual pod lives."""
    ended: dict[str, tuple[float, PodSeen]] = {}
    seen: dict[str, PodSeen] = {}
    alive: dict[str, float] = {}
    virtual_ended: set[str] = set()
    for record in history.records:
        if isinstance(record, PodSeen) and record.side == "host":
            seen[record.uid] = record
            if record.deleting:
                ended.setdefault(record.uid, (record.at, record))
        elif isinstance(record, PodGone) and record.side == "host" and record.uid in seen:
            ended.setdefault(record.uid, (record.at, seen[record.uid]))
        elif isinstance(record, PodSeen) and record.side == "virtual":
            if record.deleting:
                virtual_ended.add(record.virtual_uid)
            else:
                alive[record.virtual_uid] = record.at
        elif isinstance(record, PodGone) and record.side == "virtual":
            virtual_ended.add(record.uid)
    found = [Violation("I8", "observer", text) for text in unseen_pods(history)]
    for at, pod in ended.values():
        still = alive.get(pod.virtual_uid, 0.0) > at + SLACK_SECONDS
        never_deleted = pod.virtual_uid in alive and pod.virtual_uid not in virtual_ended
        if still or never_deleted:
            text = f"tenant {pod.tenant}: host pod {pod.name} was deleted at {at:.1f} while its virtual pod lived"
            found.append(Violation("I8", _experiment_at(history, at), text))
    return found


def faults_proven(history: History, experiments: Sequence[str]) -> list[Violation]:
    """I11: every experiment ran and proves that its fault happened."""
    evidence = [record for record in history.records if isinstance(record, Evidence)]
    ran = {span.experiment for span in history.spans}
    found = [] if experiments else [Violation("I11", "run", "no experiment was asked for")]
    for name in experiments:
        own = [item for item in evidence if item.experiment == name]
        if name not in ran:
            found.append(Violation("I11", name, "the experiment did not run to its end"))
        elif not own:
            found.append(Violation("I11", name, "no evidence that the fault happened"))
        found += [Violation("I11", name, f"not proven: {item.text}") for item in own if not item.proven]
    return found


def check_all(
    history: History, baseline: Mapping[str, float], experiments: Sequence[str], bound: LatencyBound = AIM
) -> list[Violation]:
    """All five, in the order of their numbers."""
    checks: tuple[Callable[[History], list[Violation]], ...] = (one_to_one, no_restart_elsewhere, only_wanted_deletions)
    found = [violation for check in checks for violation in check(history)]
    found += neighbours_unharmed(history, baseline, bound) + faults_proven(history, experiments)
    return sorted(found, key=lambda item: int(item.invariant[1:]))


def baseline_p99(history: History, begin: float, end: float) -> dict[str, float]:
    """The p99 of each tenant (and of the host) in a window without faults; a tenant that already fails there has no entry."""
    result = {}
    for tenant in (*history.tenants, HOST):
        probes = history.probes(tenant, begin, end)
        if probes and not any(probe.error for probe in probes):
            result[tenant] = percentile([probe.seconds for probe in probes], 99)
    return result


def _lives(history: History, side: Side) -> list[_Life]:
    first: dict[str, PodSeen] = {}
    gone: dict[str, float] = {}
    leaving: dict[str, float] = {}
    seen: dict[str, list[PodSeen]] = {}
    for record in history.records:
        if isinstance(record, PodSeen) and record.side == side:
            first.setdefault(record.uid, record)
            seen.setdefault(record.uid, []).append(record)
            if record.deleting:
                leaving.setdefault(record.uid, record.at)
        elif isinstance(record, PodGone) and record.side == side:
            gone.setdefault(record.uid, record.at)
    return [
        _Life(
            uid, pod.virtual_uid, pod.tenant, pod.name, pod.at, end, min(end, leaving.get(uid, end)), _refusals(seen[uid], end)
        )
        for uid, pod in first.items()
        for end in (gone.get(uid, history.end),)
    ]


def _refusals(seen: Sequence[PodSeen], end: float) -> tuple[tuple[float, float], ...]:
    """The time in which a pod's status was PodScheduled=False, and 30 s more; its host pod is due after that."""
    found: list[tuple[float, float]] = []
    since: float | None = None
    for look in seen:
        if look.refused and since is None:
            since = look.at
        elif not look.refused and since is not None:
            found.append((since, look.at + QUIET_SECONDS))
            since = None
    return (*found, (since, end)) if since is not None else tuple(found)


def _twins(history: History, host: Sequence[_Life]) -> list[Violation]:
    found = []
    by_virtual: dict[str, list[_Life]] = {}
    for life in sorted(host, key=lambda item: item.begin):
        for other in by_virtual.setdefault(life.virtual_uid, []):
            if other.end > life.begin:
                text = f"tenant {life.tenant}: two host pods, {other.name} and {life.name}, for one virtual pod"
                found.append(Violation("I1", _experiment_at(history, life.begin), text))
        by_virtual[life.virtual_uid].append(life)
    return found


def _uncovered(history: History, life: _Life, others: Sequence[_Life]) -> list[float]:
    """Moments in a pod's life at which it had no counterpart, long after every disturbance; at most one is returned.

    A counterpart may be first seen up to 30 s late, and its end may be seen up to 30 s early.
    """
    disturbed = [(span.begin, span.end + QUIET_SECONDS) for span in history.spans if span.target == life.tenant]
    disturbed += life.refused
    edges = [life.begin + QUIET_SECONDS, life.end]
    edges += [edge for begin, end in disturbed for edge in (begin, end)] + [item.end + QUIET_SECONDS for item in others]
    for moment in sorted(edges):
        if not life.begin + QUIET_SECONDS <= moment < life.end:
            continue
        if any(begin <= moment < end for begin, end in disturbed):
            continue
        if not any(item.begin <= moment <= item.end + QUIET_SECONDS - 0.001 for item in others):
            return [moment]
    return []


def _change(before: PartSeen | None, now: PartSeen) -> str:
    if before is None:
        return "ran out of memory" if now.out_of_memory else ""
    if now.pod_uid != before.pod_uid:
        return "was replaced"
    if now.out_of_memory and not before.out_of_memory:
        return "ran out of memory"
    return f"restarted ({before.restarts} -> {now.restarts})" if now.restarts > before.restarts else ""


def _is_target(history: History, owner: str, at: float) -> bool:
    """Whether an experiment had this owner as its target then or shortly before; restarts are reported late."""
    return any(span.target == owner and span.begin <= at < span.end + QUIET_SECONDS for span in history.spans)


def _experiment_at(history: History, at: float) -> str:
    current: list[Span] = [span for span in history.spans if span.begin <= at]
    return current[-1].experiment if current else "baseline"
