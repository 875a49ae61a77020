"""From measurements to a verdict: did any tenant but the target, or the host, notice the fault? Pure.

Each subject is held against its own baseline, measured before the first fault of the same run. Nothing observed is a violation:
a verdict from a few requests would be luck.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

HOST: Final = "host"
MIN_REQUESTS: Final = 20


class State(StrEnum):
    """The result of an experiment."""

    HELD = "held"
    VIOLATED = "violated"
    # The fault could not be shown to have happened, so that the measurements mean nothing.
    UNPROVEN = "unproven"
    # The run ended before it.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Sample:
    """One request of the prober: when it began by a steady clock, whose API it asked, and how it ended."""

    at: float
    subject: str
    seconds: float
    error: str = ""
    write: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a fault may cost others: factor x baseline + allowance."""

    factor: float = 1.25
    allowance_seconds: float = 0.05

    def of(self, baseline_p99: float) -> float:
        """The largest p99 that holds, in seconds."""
        return baseline_p99 * self.factor + self.allowance_seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """Requests to one API in one phase; times in seconds, of the requests that succeeded."""

    requests: int
    errors: int
    p50: float
    p99: float
    first_error: str = ""


@dataclass(frozen=True, slots=True)
class Pods:
    """The containers' restarts of a tenant's own pods, and the pods' UIDs."""

    restarts: int
    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Proof:
    """Evidence that the fault happened, or that it did not."""

    shown: bool
    text: str


@dataclass(frozen=True, slots=True)
class Subject:
    """What one tenant, or the host, noticed of an experiment."""

    name: str
    before: Figures
    during: Figures
    limit: float
    restarts: int


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that was observed in one experiment."""

    proofs: tuple[Proof, ...]
    before: Mapping[str, Figures]
    during: Mapping[str, Figures]
    pods_before: Mapping[str, Pods]
    pods_after: Mapping[str, Pods]
    # Whose restarts belong to the fault: the target, or the host.
    excused: str
    # What the target still lacked at its deadline; empty once it works again.
    missing: str
    # How long the target took to work again, in seconds.
    recovered_after: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one experiment."""

    state: State
    violations: tuple[str, ...]
    subjects: tuple[Subject, ...]
    proofs: tuple[Proof, ...]
    recovered_after: float


def percentile(values: Sequence[float], percent: float) -> float:
    """By nearest rank, so that every value was measured; 0 of no values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0


def figures(samples: Iterable[Sample], begin: float, end: float) -> dict[str, Figures]:
    """By subject, the requests that began between two moments, both included."""
    by_subject: dict[str, list[Sample]] = {}
    for sample in samples:
        if begin <= sample.at <= end:
            by_subject.setdefault(sample.subject, []).append(sample)
    return {subject: _of(found) for subject, found in by_subject.items()}


def _of(samples: Sequence[Sample]) -> Figures:
    times = [sample.seconds for sample in samples if not sample.error]
    errors = [sample.error for sample in samples if sample.error]
    return Figures(len(samples), len(errors), percentile(times, 50), percentile(times, 99), errors[0] if errors else "")


def started(before: Pods | None, after: Pods | None) -> int:
    """How many containers and pods were started again between two observations; 0 for a tenant that was not there at both."""
    if before is None or after is None:
        return 0
    return max(0, after.restarts - before.restarts) + len(after.uids - before.uids)


def unfit(before: Mapping[str, Figures], subjects: Sequence[str]) -> str:
    """Why a baseline cannot be used: a subject failed, or was hardly measured, without any fault; empty if it can."""
    for name in subjects:
        found = before.get(name, Figures(0, 0, 0.0, 0.0))
        if found.errors:
            return f"{name}: {found.errors} of {found.requests} requests failed: {found.first_error}"
        if found.requests < MIN_REQUESTS:
            return f"{name}: only {found.requests} requests were measured"
    return ""


def judge(seen: Seen, subjects: Sequence[str], limits: Limits) -> Verdict:
    """The verdict. `subjects` are those that must have been measured; restarts count for every tenant of the cluster."""
    rows = tuple(_subject(name, seen, limits) for name in subjects)
    violations = [violation for row in rows for violation in _violations(row)]
    for name in sorted(set(seen.pods_before) - {seen.excused}):
        count = started(seen.pods_before[name], seen.pods_after.get(name))
        if count:
            violations.append(f"{name}: {count} of its own pods or containers started again")
    if seen.missing:
        violations.append(f"the target did not work again in time: {seen.missing}")
    unproven = not seen.proofs or not all(proof.shown for proof in seen.proofs)
    state = State.UNPROVEN if unproven else State.VIOLATED if violations else State.HELD
    return Verdict(state, tuple(violations), rows, seen.proofs, seen.recovered_after)


def _subject(name: str, seen: Seen, limits: Limits) -> Subject:
    nothing = Figures(0, 0, 0.0, 0.0)
    before, during = seen.before.get(name, nothing), seen.during.get(name, nothing)
    restarts = started(seen.pods_before.get(name), seen.pods_after.get(name))
    return Subject(name, before, during, limits.of(before.p99), restarts)


def _violations(row: Subject) -> list[str]:
    found = []
    if row.before.errors:
        found.append(f"{row.name}: {row.before.errors} requests failed before any fault: {row.before.first_error}")
    for phase, measured in (("before", row.before), ("during", row.during)):
        if measured.requests < MIN_REQUESTS:
            found.append(f"{row.name}: only {measured.requests} requests {phase} the fault, too few to judge by")
    if row.during.errors:
        share = f"{row.during.errors} of {row.during.requests}"
        found.append(f"{row.name}: {share} requests failed: {row.during.first_error}")
    if row.during.p99 > row.limit:
        times = f"{row.during.p99 * 1000:.0f} ms, which must be at most {row.limit * 1000:.0f} ms"
        found.append(f"{row.name}: p99 {times} ({row.before.p99 * 1000:.0f} ms before)")
    return found
