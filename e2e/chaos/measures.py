"""Figures of one experiment: what its target could not do and for how long, and what all others noticed. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.chaos.history import HOST, Act, History, Probe, Span
from e2e.chaos.invariants import AIM
from e2e.chaos.percentiles import percentile


@dataclass(frozen=True, slots=True)
class Latency:
    """Requests of one kind of window."""

    requests: int
    errors: int
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One tenant, or the host, during an experiment against its own baseline; times in milliseconds."""

    requests: int
    errors: int
    p50_ms: float
    p99_ms: float
    baseline_p50_ms: float
    baseline_p99_ms: float
    aim_ms: float
    restarts: int
    work: int  # pods that came and went, watches and jobs that began in the experiment
    failed_work: int


@dataclass(frozen=True, slots=True)
class Broken:
    """What the target could not do in its experiment; times in seconds from the fault on."""

    requests: int
    errors: int
    reads_away_s: float
    writes_away_s: float
    longest_away_s: float
    first_error: str
    restarts: int
    work: int
    failed_work: int


def latency(probes: Sequence[Probe]) -> Latency:
    """The figures of some requests. Raises ValueError without any."""
    seconds = [probe.seconds for probe in probes]
    errors = sum(bool(probe.error) for probe in probes)
    return Latency(len(probes), errors, percentile(seconds, 50), percentile(seconds, 99))


def neighbour(history: History, span: Span, owner: str, quiet: tuple[float, float]) -> Neighbour | None:
    """One neighbour's figures; None if it was not probed in the experiment or without a fault."""
    during, before = history.probes(owner, span.begin, span.end), history.probes(owner, *quiet)
    if not during or not before:
        return None
    now, base = latency(during), latency(before)
    work, failed = _work(history, span, owner)
    return Neighbour(
        now.requests,
        now.errors,
        _ms(now.p50),
        _ms(now.p99),
        _ms(base.p50),
        _ms(base.p99),
        _ms(AIM.over(base.p99)),
        restarts(history, span, owner),
        work,
        failed,
    )


def broken(history: History, span: Span) -> Broken:
    """What the target could not do. A target that is not probed (the controller) has no requests."""
    probes = history.probes(span.target, span.begin, span.end)
    away = {kind: gaps([probe for probe in probes if probe.kind == kind], span.end) for kind in ("read", "write")}
    errors = [probe for probe in probes if probe.error]
    work, failed = _work(history, span, span.target)
    return Broken(
        len(probes),
        len(errors),
        round(sum(end - begin for begin, end in away["read"]), 1),
        round(sum(end - begin for begin, end in away["write"]), 1),
        round(max((end - begin for begin, end in (*away["read"], *away["write"])), default=0.0), 1),
        errors[0].error if errors else "",
        restarts(history, span, span.target),
        work,
        failed,
    )


def gaps(probes: Sequence[Probe], end: float) -> list[tuple[float, float]]:
    """The times from a failed request until the next one of the same kind that was answered."""
    found: list[tuple[float, float]] = []
    since: float | None = None
    for probe in probes:
        if probe.error and since is None:
            since = probe.at
        elif not probe.error and since is not None:
            found.append((since, probe.at))
            since = None
    return [*found, (since, end)] if since is not None else found


def restarts(history: History, span: Span, owner: str) -> int:
    """Restarts and replacements of an owner's containers in an experiment; the platform's own count as the host's."""
    return len(restart_times(history, span.begin, span.end, owner))


def restart_times(history: History, begin: float, end: float, owner: str) -> list[float]:
    """When a container of this owner was first seen restarted or replaced."""
    return history.restarts(owner if owner in history.tenants else "", begin, end)


def _work(history: History, span: Span, owner: str) -> tuple[int, int]:
    acts = [act for act in history.all(Act) if act.tenant == owner and span.begin <= act.at < span.end]
    return len(acts), sum(bool(act.error) for act in acts)


def owners(history: History, span: Span) -> tuple[str, ...]:
    """All that may notice an experiment: every other tenant, and the host."""
    return tuple(owner for owner in (*history.tenants, HOST) if owner != span.target)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
