"""The figures of the co-tenancy benchmark: from readings to what is judged. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2e.chaos.percentiles import percentile

HOST = "host"
# The aim of the design: a p99 of at most factor x before + allowance.
FACTOR = 1.25
ALLOWANCE_MS = 50.0


@dataclass(frozen=True, slots=True)
class Phase:
    """Requests and pods of one subject in one phase: milliseconds of those that succeeded, and how many did not."""

    requests_ms: tuple[float, ...]
    request_errors: int
    pods_ms: tuple[float, ...] = ()
    pod_errors: int = 0
    # Those of the requests that wait for no disk.
    reads_ms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """One storm in one way: each neighbour and the host, before and during; and what shows that the storm was one."""

    way: str
    storm: str
    before: Mapping[str, Phase]
    during: Mapping[str, Phase]
    # Restarts of the platform's pods of the neighbours.
    restarts: int
    # What the storm did, as it counted itself.
    done: str
    # The share of the machine's CPU that was busy.
    busy_before: float
    busy_during: float


def summarise(readings: Sequence[Reading]) -> dict[str, Any]:
    """By way and storm, what neighbours noticed; by storm, how much more their p99 and p50 grew with planes than without."""
    found: dict[str, Any] = {}
    for reading in readings:
        found.setdefault(reading.way, {})[reading.storm] = _storm(reading)
    times = {}
    for storm in {reading.storm for reading in readings}:
        planes, namespaces = (found.get(way, {}).get(storm) for way in ("planes", "namespaces"))
        if planes and namespaces:
            times[storm] = {
                "grown": round(_grown(planes, "p99") / _grown(namespaces, "p99"), 3),
                "p50_grown": round(_grown(planes, "together_p50") / _grown(namespaces, "together_p50"), 3),
            }
    for way, storms in list(found.items()):
        found[way]["all"] = {
            "errors": sum(storm["errors"] for storm in storms.values()),
            "restarts": sum(storm["restarts"] for storm in storms.values()),
        }
    return found | ({"times": times} if times else {})


def _grown(storm: Mapping[str, Any], figure: str) -> float:
    """How many times as large a figure was during a storm; less than a millisecond counts as one."""
    before, during = (max(1.0, float(storm[f"{figure}_{when}_ms"])) for when in ("before", "during"))
    return during / before


def _storm(reading: Reading) -> dict[str, Any]:
    """The worst neighbour, and all neighbours together: of fewer than a hundred requests of one the p99 is the slowest.

    A neighbour that starves shows in both: with nine of them its requests are a ninth of all.
    """
    neighbours = [name for name in reading.before if name != HOST]
    worst = max(neighbours, key=lambda name: _over(reading, name))
    before, during = reading.before[worst], reading.during[worst]
    reads = max((_reads(reading, name) for name in neighbours), key=lambda pair: _beyond(*pair))
    pods = [_merged(phase[name].pods_ms for name in neighbours) for phase in (reading.before, reading.during)]
    together = [_merged(phase[name].requests_ms for name in neighbours) for phase in (reading.before, reading.during)]
    return {
        "worst": worst,
        "p50_before_ms": _at(before.requests_ms, 50),
        "p50_during_ms": _at(during.requests_ms, 50),
        "p99_before_ms": _at(before.requests_ms, 99),
        "p99_during_ms": _at(during.requests_ms, 99),
        "p99_over_aim_ms": round(max(0.0, _over(reading, worst)), 1),
        "together_p50_before_ms": _at(together[0], 50),
        "together_p50_during_ms": _at(together[1], 50),
        "together_p99_before_ms": _at(together[0], 99),
        "together_p99_during_ms": _at(together[1], 99),
        "together_over_aim_ms": round(max(0.0, _beyond(_at(together[0], 99), _at(together[1], 99))), 1),
        "reads_p99_before_ms": reads[0],
        "reads_p99_during_ms": reads[1],
        "reads_over_aim_ms": round(max(0.0, _beyond(*reads)), 1),
        "running_p50_before_ms": _at(pods[0], 50),
        "running_p50_during_ms": _at(pods[1], 50),
        "running_p99_before_ms": _at(pods[0], 99),
        "running_p99_during_ms": _at(pods[1], 99),
        "host_p99_before_ms": _at(reading.before[HOST].requests_ms, 99),
        "host_p99_during_ms": _at(reading.during[HOST].requests_ms, 99),
        "errors": sum(reading.during[name].request_errors + reading.during[name].pod_errors for name in reading.during),
        "restarts": reading.restarts,
        "requests": sum(len(reading.during[name].requests_ms) for name in neighbours),
        "storm": reading.done,
        "busy_before": round(reading.busy_before, 2),
        "busy_during": round(reading.busy_during, 2),
    }


def _over(reading: Reading, name: str) -> float:
    """How far a subject's p99 is beyond the aim, in milliseconds; negative if it is within."""
    return _beyond(*(_at(phase[name].requests_ms, 99) for phase in (reading.before, reading.during)))


def _reads(reading: Reading, name: str) -> tuple[float, float]:
    return _at(reading.before[name].reads_ms, 99), _at(reading.during[name].reads_ms, 99)


def _beyond(before: float, during: float) -> float:
    return during - (before * FACTOR + ALLOWANCE_MS)


def _merged(parts: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(value for part in parts for value in part)


def _at(values: Sequence[float], percent: float) -> float:
    """A percentile; 0 if there is no value, which no measured figure is."""
    return round(percentile(values, percent), 1) if values else 0.0
