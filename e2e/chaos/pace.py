"""How long a run waits and measures, and how often it asks. Pure."""

import math
from dataclasses import dataclass
from typing import Final

# Experiments and the baseline become longer with a slower load, up to here: sixty of them have to end within two hours.
MOST_LONGER: Final = 4
FEW_TENANTS: Final = 4
# Of each tenant in the baseline. Of a hundred requests the p99 is the slowest: for ten tenants with the same planes and load it
# was 45 ms (one of them) and 117 to 254, and that one failed experiments (docs/decisions/0013).
_LEAST_PROBES: Final = 300
_LONGEST_PERIOD: Final = 0.5


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

    def rounds(self, tenants: int, slower: int) -> int:
        """How many times the span of the baseline is measured, so that its p99 is not the slowest request."""
        return max(1, math.ceil(_LEAST_PROBES * probe_period(tenants, slower) / self.stretched(self.baseline, slower)))


def probe_period(tenants: int, slower: int) -> float:
    """Seconds between two probes of one tenant: a few are probed ten times a second, more of them five, all two at least."""
    return min(_LONGEST_PERIOD, round((0.1 if tenants <= FEW_TENANTS else 0.2) * slower, 1))


SHORT_PACE: Final = Pace(baseline=12.0, least_span=11.0, settle=2.0, quiet=5.0)
