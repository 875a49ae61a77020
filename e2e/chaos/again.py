"""Experiments that are made once more at the end of a run: all that they had was slow requests of others. Pure.

    whole run ──> slow experiments ──> each once more, as NAME#again ──> slow again: a violation
                                                                     └─> held: a moment of the machine, which is reported

A run of 63 experiments on ten tenants compares some 700 p99 with their bounds, so a few of them are beyond it by chance, on a
machine of two cores above all. What a fault does, it does again. Nothing else than latency is ever forgiven: one failed
request, one restart or one missing proof, the first time or the second, fails the run.

A machine whose hardware is shared may become slower in the middle of a run. What was slow beside it does not show a slow
platform, and is made once more as well, up to a bound of its own.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from e2e.chaos.history import Speed
from e2e.chaos.invariants import Violation

_MARK: Final = "#again"
# Of a run's experiments, one in so many may be slow and is made once more. More of them show a slow platform, and no moment.
ONE_IN: Final = 10
LEAST: Final = 2  # also of a short run
# As many times the CPU time of the baseline for the same work show a machine that became slower.
SLOWER: Final = 1.25
SLOWED_ONE_IN: Final = 4


@dataclass(frozen=True, slots=True)
class Settled:
    """The violations that stand, and the moments: slow requests that were not there when the experiment was made once more."""

    violations: tuple[Violation, ...]
    moments: tuple[Violation, ...]


def once_more(name: str) -> str:
    """The name of an experiment when it is made once more."""
    return f"{name}{_MARK}"


def repeats(name: str) -> bool:
    """Whether this is the name of an experiment that was made once more."""
    return name.endswith(_MARK)


def slow_ones(violations: Sequence[Violation], asked: Sequence[str]) -> tuple[str, ...]:
    """The experiments of a run that have nothing but slow requests of others against them, in the order in which they ran.

    They are slow by a bound that was exceeded; `asked` are the names of all experiments that ran.
    """
    slow = {item.experiment for item in violations if item.slow}
    otherwise = {item.experiment for item in violations if not item.slow}
    return tuple(name for name in asked if name in slow - otherwise and not repeats(name))


def slowed(speeds: Sequence[Speed]) -> dict[str, float]:
    """The experiments beside which the machine was slower than in the baseline, and how many times.

    The worst of the looks at it counts, for a slow one is made once more and has to hold: this forgives nothing by itself.
    """
    baseline = [speed.cpu_seconds for speed in speeds if not speed.experiment]
    usual = statistics.median(baseline) if baseline else 0.0
    worst: dict[str, float] = {}
    for speed in speeds:
        if speed.experiment and usual > 0:
            worst[speed.experiment] = max(worst.get(speed.experiment, 0.0), speed.cpu_seconds / usual)
    return {name: times for name, times in worst.items() if times > SLOWER}


def few_enough(slow: Sequence[str], asked: Sequence[str], slower: Mapping[str, float]) -> bool:
    """Whether so few experiments of a run were slow that they may be made once more."""
    beside = sum(1 for name in slow if name in slower)
    return len(slow) - beside <= max(LEAST, len(asked) // ONE_IN) and beside <= max(LEAST, len(asked) // SLOWED_ONE_IN)


def settle(violations: Sequence[Violation], held: frozenset[str], asked: Sequence[str], slower: Mapping[str, float]) -> Settled:
    """Set apart what was a moment. `held` are the experiments that recovered and have no violation."""
    slow = slow_ones(violations, asked)
    forgiven = {name for name in slow if once_more(name) in held} if few_enough(slow, asked, slower) else set()
    return Settled(
        tuple(item for item in violations if item.experiment not in forgiven),
        tuple(item for item in violations if item.experiment in forgiven),
    )
