"""Turns observations into the figures of the report. Pure.

Phases of a tenant's pod, in the order in which they follow each other:

    created ── queue, translate, host_create ──> host pod there ── host_ready ──> host pod Ready ── status_up ──> virtual Ready

The first three are the syncer's own measurements (means of `bulkhead_syncer_phase_seconds`); the others are seen from outside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from e2e.chaos.percentiles import percentile

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """One pod: when its creation was sent and answered, and when it was seen Ready; in seconds of one clock."""

    name: str
    sent: float
    answered: float
    ready: float

    @property
    def latency_ms(self) -> float:
        return (self.ready - self.sent) * 1e3


@dataclass(frozen=True, slots=True)
class Mirrored:
    """One host pod as seen from outside: when it existed, when it was Ready, and when its virtual pod was Ready."""

    there: float
    ready: float
    virtual_ready: float


def speed(samples: Sequence[Sample]) -> Figures:
    """Pods a second from the first request to the last Ready, and the latency of each pod."""
    if not samples:
        raise ValueError("speed: no samples")
    took = max(one.ready for one in samples) - min(one.sent for one in samples)
    return {"pods_per_s": round(len(samples) / max(took, 1e-9), 1)} | latency(samples)


def latency(samples: Sequence[Sample]) -> Figures:
    values = [one.latency_ms for one in samples]
    return {"p50_ms": round(percentile(values, 50), 1), "p99_ms": round(percentile(values, 99), 1)}


def added(native: Sequence[Sample], tenant: Sequence[Sample]) -> Figures:
    """How much longer a tenant's pods wait than the host's own, at the same percentile."""
    ours, theirs = latency(tenant), latency(native)
    return {key: round(ours[key] - theirs[key], 1) for key in ours}


def times(native: Sequence[Sample], tenant: Sequence[Sample]) -> Figures:
    """How many times as long a tenant's pods wait, at the same percentile; the speed of the machine cancels out."""
    ours, theirs = latency(tenant), latency(native)
    return {key.removesuffix("_ms"): round(ours[key] / max(theirs[key], 0.1), 2) for key in ours}


def phases(inside: Mapping[str, float], outside: Sequence[Mirrored]) -> dict[str, float]:
    """Milliseconds a pod spent in each phase: means."""
    if not outside:
        raise ValueError("phases: no pod was seen on the host")
    count = len(outside)
    found = {f"{name}_ms": round(seconds * 1e3, 2) for name, seconds in inside.items()}
    found["host_ready_ms"] = round(sum(one.ready - one.there for one in outside) / count * 1e3, 1)
    found["status_up_ms"] = round(sum(one.virtual_ready - one.ready for one in outside) / count * 1e3, 1)
    return found


def counters(text: str) -> dict[str, float]:
    """A metrics page as `name{labels}` to value."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def mean_between(before: Mapping[str, float], after: Mapping[str, float], name: str, labels: str) -> float:
    """The mean of a histogram's observations between two pages; 0 where there was none."""
    count = after.get(f"{name}_count{{{labels}}}", 0.0) - before.get(f"{name}_count{{{labels}}}", 0.0)
    total = after.get(f"{name}_sum{{{labels}}}", 0.0) - before.get(f"{name}_sum{{{labels}}}", 0.0)
    return total / count if count > 0 else 0.0


def ratio(tenant: Mapping[str, float], native: Mapping[str, float]) -> float:
    """Throughput of tenants over that of the host alone."""
    return round(tenant["pods_per_s"] / native["pods_per_s"], 3)
