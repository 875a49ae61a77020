"""How long a run waits and measures. Pure."""

from dataclasses import dataclass
from typing import Final

# Experiments and the baseline become longer with a slower load, up to here: sixty of them have to end within two hours.
MOST_LONGER: Final = 4


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the runner waits and measures, in seconds.

    With ten probes a second, a p99 over less than ten seconds would be the slowest probe.
    """

    baseline: float = 25.0  # no shorter than `least_span`, in which one pod of each tenant comes and goes
    least_span: float = 24.0  # of an experiment
    settle: float = 4.0  # before the baseline, and after each experiment
    quiet: float = 20.0  # without a write for the idle target

    def stretched(self, seconds: float, slower: int) -> float:
        """These seconds, or more of them where the load is so many times slower, so that its pods are further apart."""
        return seconds * min(slower, MOST_LONGER)


SHORT_PACE: Final = Pace(baseline=12.0, least_span=11.0, settle=2.0, quiet=5.0)
