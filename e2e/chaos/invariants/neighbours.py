"""I4, I5 and I6: what other tenants and the host notice of a fault. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from e2e.chaos.history import CONTROLLER, HOST, Act, History, LeaderSeen, PartSeen, Rejected, Run, Span
from e2e.chaos.invariants.violation import Violation, experiment_at, is_target
from e2e.chaos.percentiles import chance_of, percentile
from e2e.chaos.sightings import LEAST_PROBES_A_SECOND, unseen_parts

_NO_BASELINE = "there is no baseline; its API was not probed, or did not answer"


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """The highest p99 that a neighbour may have: a factor of its own baseline, plus an allowance in seconds."""

    factor: float
    allowance: float

    def over(self, baseline: float) -> float:
        """The bound in seconds for a tenant whose p99 without faults was `baseline`."""
        return self.factor * baseline + self.allowance


# A p99 without a fault beyond this excuses whatever a fault does: other work has the machine, and the run shows nothing.
MOST_BASELINE = 1.0
# So many slow requests fail a run as fewer than one in twenty runs would have whose p99 is at its bound.
BY_CHANCE = 0.05
POD = "pod"  # the kind of an act: a pod that came and went
AIM = LatencyBound(1.25, 0.050)  # the design's I4
# The cores that a fault keeps busy at most: the API servers of the target and of a new tenant with one core each, the host's
# API server, and the generator.
SPARE_CORES = 4.0


def bound_of(idle_cores: float, limit: LatencyBound) -> LatencyBound:
    """The bound beyond which a run fails. With spare cores before the first fault, it is the design's bound.

    On an oversubscribed machine a neighbour waits for the machine too. It must then keep `limit`, from `limits.yaml`.
    """
    return AIM if idle_cores >= SPARE_CORES else limit


def neighbours_unharmed(history: History, baseline: Mapping[str, float], bound: LatencyBound = AIM) -> list[Violation]:
    """I4: while one tenant is broken, the others see no error, and their p99 stays within the bound over their own baseline.

    Their pods, watches and jobs go on too.
    """
    found = [] if history.spans else [Violation("I4", "observer", "no experiment was observed")]
    unknown = [tenant for tenant in history.tenants if tenant not in baseline]
    found += [Violation("I4", "baseline", f"tenant {tenant}: {_NO_BASELINE}") for tenant in unknown]
    found += [Violation("I4", "baseline", text) for text in too_busy(baseline) if not text.startswith(f"{HOST}:")]
    found += _at_rest(history)
    for span in history.spans:
        for tenant in history.tenants:
            if tenant == span.target:
                continue
            if tenant in baseline:
                found += _slow(history, span, tenant, bound.over(baseline[tenant]))
            if span.target != HOST:  # without the host's API no tenant's pods come and go
                found += _broken_work(history, span, tenant)
    return found


def _at_rest(history: History) -> list[Violation]:
    """Tenants whose pods rested in the baseline: in each experiment one comes and goes, and that alone makes others wait."""
    return [
        Violation("I4", "baseline", f"tenant {tenant}: no pod came or went: the limits are those of a machine at rest")
        for run in history.all(Run)
        for tenant in run.tenants
        if not _pod_within(history, tenant, run.baseline_begin, run.baseline_end)
    ]


def _pod_within(history: History, tenant: str, begin: float, end: float) -> bool:
    return any(
        act.kind == POD and act.tenant == tenant and act.at < end and begin < act.at + act.seconds for act in history.all(Act)
    )


def too_busy(baseline: Mapping[str, float]) -> list[str]:
    """What says that the machine was too busy before the first fault, by the p99 in seconds of each API."""
    most = f"more than {MOST_BASELINE * 1000:.0f} ms: the machine is too busy"
    return [
        f"{owner}: p99 {seconds * 1000:.0f} ms without a fault, {most}"
        for owner, seconds in baseline.items()
        if seconds > MOST_BASELINE
    ]


def host_unharmed(history: History, baseline: Mapping[str, float], bound: LatencyBound = AIM) -> list[Violation]:
    """I5: the host's API answers as the neighbours' do, and rejects no requests of others by priority and fairness."""
    found = [] if HOST in baseline else [Violation("I5", "baseline", f"host: {_NO_BASELINE}")]
    found += [Violation("I5", "baseline", text) for text in too_busy({HOST: baseline.get(HOST, 0.0)})]
    for span in history.spans:
        if span.target == HOST:
            continue
        if HOST in baseline:
            found += _slow(history, span, HOST, bound.over(baseline[HOST]))
        found += _rejections(history, span)
    return found


def _slow(history: History, span: Span, owner: str, most: float) -> list[Violation]:
    """Errors of one API in an experiment, and its p99 beyond `most` seconds where a latency is promised.

    I5 for the host's API, I4 for a tenant's.
    """
    name, invariant = ("host", "I5") if owner == HOST else (f"tenant {owner}", "I4")
    probes = history.probes(owner, span.begin, span.end)
    if not probes or len(probes) < LEAST_PROBES_A_SECOND * (span.end - span.begin):
        text = f"{name}: {len(probes)} requests in {span.end - span.begin:.0f} s: not observed"
        return [Violation(invariant, span.experiment, text)]
    found = []
    errors = [probe for probe in probes if probe.error]
    if errors:
        text = f"{name}: {len(errors)} of {len(probes)} requests failed, first: {errors[0].error}"
        found.append(Violation(invariant, span.experiment, text))
    p99 = percentile([probe.seconds for probe in probes], 99)
    # One in a hundred may be slower. A hundred requests of which two or three are show a moment and no pattern.
    slow = sum(probe.seconds > most for probe in probes)
    if p99 > most and chance_of(slow, len(probes), 0.01) < BY_CHANCE and not span.only_measured:
        text = f"{name}: p99 {p99 * 1000:.0f} ms, {slow} of {len(probes)} requests took more than {most * 1000:.0f} ms"
        found.append(Violation(invariant, span.experiment, text, slow=True))
    return found


def _broken_work(history: History, span: Span, tenant: str) -> list[Violation]:
    """The errors of work that began within an experiment; an experiment without any pod that came or went is one too."""
    acts = [act for act in history.all(Act) if act.tenant == tenant]
    found = [act.error for act in acts if act.error and span.begin <= act.at < span.end]
    if not _pod_within(history, tenant, span.begin, span.end):
        found = [f"{tenant}: no pod came or went: not observed", *found]
    return [Violation("I4", span.experiment, text) for text in found]


def _rejections(history: History, span: Span) -> list[Violation]:
    """Requests of others that the host rejected in an experiment. Counters begin again when the host's API server does."""
    seen = history.all(Rejected)
    if not any(span.begin <= item.at < span.end for item in seen):
        text = "host: rejections by priority and fairness were not observed"
        return [Violation("I5", span.experiment, text)]
    found = []
    for schema in sorted({item.schema for item in seen} - {""}):
        counts = [item.count for item in seen if item.schema == schema and span.begin <= item.at < span.end]
        before = [item.count for item in seen if item.schema == schema and item.at < span.begin][-1:] or [0]
        more = sum(max(0, after - earlier) for earlier, after in pairwise([*before, *counts]))
        if more and span.target not in schema:
            text = f"host: {more} requests of flow schema {schema} were rejected"
            found.append(Violation("I5", span.experiment, text))
    return found


def no_restart_elsewhere(history: History) -> list[Violation]:
    """I6: outside the target no container restarts, is replaced or runs out of memory, and the leader stays."""
    found = [Violation("I6", "observer", text) for text in unseen_parts(history, CONTROLLER)]
    last: dict[tuple[str, str], dict[str, PartSeen]] = {}
    leader = ""
    for record in history.records:
        if isinstance(record, PartSeen):
            pods = last.setdefault((record.tenant, record.part), {})
            change = _change(pods, record, stands=record.tenant in ("", *history.tenants))
            pods[record.pod_uid] = record
            if change and not is_target(history, record.tenant or CONTROLLER, record.at):
                owner = f"tenant {record.tenant}" if record.tenant else "platform"
                found.append(Violation("I6", experiment_at(history, record.at), f"{owner}: {record.part} {change}"))
        elif isinstance(record, LeaderSeen):
            if leader and record.holder != leader and not is_target(history, CONTROLLER, record.at):
                text = f"leader changed from {leader} to {record.holder or 'nobody'}"
                found.append(Violation("I6", experiment_at(history, record.at), text))
            leader = record.holder
    return found


def _change(pods: Mapping[str, PartSeen], now: PartSeen, *, stands: bool) -> str:
    """What has happened to a part. A former pod of a Deployment may be seen beside the next one until it has ended.

    One that `stands` was there before the run, with what had happened to it then. Any other is of a tenant that a fault
    creates, and the next fault creates once more.
    """
    before = pods.get(now.pod_uid)
    if before is None and pods and stands:
        return "was replaced"
    if now.out_of_memory and not (before.out_of_memory if before else stands):
        return "ran out of memory"
    return f"restarted ({before.restarts} -> {now.restarts})" if before and now.restarts > before.restarts else ""


def baseline_p99(history: History, begin: float, end: float) -> dict[str, float]:
    """The p99 of each tenant (and of the host) in a window without faults; a tenant that already fails there has no entry."""
    result = {}
    for tenant in (*history.tenants, HOST):
        probes = history.probes(tenant, begin, end)
        if probes and not any(probe.error for probe in probes):
            result[tenant] = percentile([probe.seconds for probe in probes], 99)
    return result
