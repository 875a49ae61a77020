"""Percentiles by the nearest-rank rule: every value that is returned was measured. Pure."""

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value with at least `percent` percent of all values at or below it."""
    if not values:
        raise ValueError("percentile: no values")
    if not 0 < percent <= 100:
        raise ValueError(f"percentile: {percent} is not in (0, 100]")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def chance_of(at_least: int, of: int, share: float) -> float:
    """The chance that so many of these or more are slow, if each is with this probability: the upper tail of the binomial."""
    every = math.lgamma(of + 1)
    fewer = (
        every
        - math.lgamma(count + 1)
        - math.lgamma(of - count + 1)
        + count * math.log(share)
        + (of - count) * math.log1p(-share)
        for count in range(at_least)
    )
    return max(0.0, 1 - math.fsum(map(math.exp, fewer)))
