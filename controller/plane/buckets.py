"""The time within which nearly all events of a histogram ended, between two looks at it. Pure.

A histogram here is what Prometheus' text has: for each upper bound in seconds, how many events took no longer, since the
program started.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

Buckets: TypeAlias = tuple[tuple[float, int], ...]
_MOST: Final = 0.99


def slowest_of_most(before: Buckets, after: Buckets, *, least: int) -> float | None:
    """The seconds that 99 % of the events between two looks needed; None if there were fewer than `least`."""
    earlier: Mapping[float, int] = dict(before)
    between = [(bound, count - earlier.get(bound, 0)) for bound, count in after]
    total = between[-1][1] if between else 0
    if total < least:
        return None
    rank, lower, below = _MOST * total, 0.0, 0
    for bound, count in between:
        if count >= rank:
            # As Prometheus does: evenly spread within a bucket; beyond the last bound nothing is known.
            return lower if bound == float("inf") else lower + (bound - lower) * (rank - below) / max(1, count - below)
        lower, below = bound, count
    return lower
