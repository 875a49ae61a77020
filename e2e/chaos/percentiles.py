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
