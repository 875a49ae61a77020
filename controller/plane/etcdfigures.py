"""Figures from the metrics of an etcd member: fsyncs and changes of the leader. Pure.

    /metrics, twice ──> fsyncs in between, by duration ──> the time that 99 % of them need ──> a slow disk or not

A member of a plane that is idle syncs about once a second. The figure covers the last minutes, not the time since etcd started.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller.plane import buckets
from controller.plane.storestate import Slow

# etcd loses its leader when the disk needs so long; its documentation asks for 10 ms.
SLOW_SECONDS: Final = 0.2
# A disk that was slow counts as such until it is clearly faster.
_FAST_SECONDS: Final = 0.15
# Fewer fsyncs than this say nothing about the slowest of a hundred.
LEAST_FSYNCS: Final = 100
WINDOW_SECONDS: Final = 300.0
_FSYNC: Final = b"etcd_disk_wal_fsync_duration_seconds_bucket"
_CHANGES: Final = b"etcd_server_leader_changes_seen_total"
_BUCKET: Final = re.compile(rb'^\{le="([0-9]{1,9}(?:\.[0-9]{1,9})?|\+Inf)"\} ([0-9]{1,18})$')
_MOST_BUCKETS: Final = 64


@dataclass(frozen=True, slots=True)
class Figures:
    """What one look at a member's metrics gave."""

    at: float  # monotonic seconds
    fsyncs: tuple[tuple[float, int], ...] = ()  # for each upper bound in seconds, how many were no longer, since etcd started
    leader_changes: int = 0

    @property
    def total(self) -> int:
        """All fsyncs since etcd started."""
        return self.fsyncs[-1][1] if self.fsyncs else 0


def read(text: bytes, at: float) -> Figures:
    """The figures in a text of metrics; what is missing or malformed is left out."""
    fsyncs: dict[float, int] = {}
    changes = 0
    for line in text.splitlines():
        if line.startswith(_FSYNC):
            found = _BUCKET.match(line[len(_FSYNC) :])
            if found is not None and len(fsyncs) < _MOST_BUCKETS:
                fsyncs[float(found[1])] = int(found[2])
        elif line.startswith(_CHANGES):
            number = line[len(_CHANGES) :].strip()
            changes = int(number) if number.isdigit() and len(number) < 16 else 0
    return Figures(at, tuple(sorted(fsyncs.items())), changes)


def kept(history: Sequence[Figures], new: Figures) -> tuple[Figures, ...]:
    """The looks to compare with later: those of the last minutes, and none from before a restart of etcd."""
    if history and new.total < history[-1].total:
        return (new,)
    recent = [figures for figures in history if new.at - figures.at <= WINDOW_SECONDS]
    return (*recent, new)


def slowest_of_most(history: Sequence[Figures]) -> float | None:
    """The seconds that 99 % of the fsyncs needed between the first and the last look; None if there were too few."""
    if len(history) < 2:
        return None
    return buckets.slowest_of_most(history[0].fsyncs, history[-1].fsyncs, least=LEAST_FSYNCS)


def slow_of(name: str, seconds: float, *, was: bool) -> Slow | None:
    """The member as a slow one; None if it is fast enough."""
    return Slow(name, seconds) if seconds >= (_FAST_SECONDS if was else SLOW_SECONDS) else None
