"""Remembers since when nodes are reserved for workloads without a forecast of their start.

    decided ──> the first time is remembered ──> Snapshot.kept_since ──> after a while nothing is reserved for them
                       └──> the pod is gone or starts ──> forgotten

This is kept in memory only, and limited in size. After a restart the time begins again. A recreated pod counts as a new,
younger pod.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from bulkhead.work.remembered import Remembered

_MOST_WORKLOADS_REMEMBERED: Final = 1024


class Keeps:
    """Since when nodes are reserved, by UID of a workload's first pod."""

    def __init__(self) -> None:
        self._since: Remembered[str, float] = Remembered(_MOST_WORKLOADS_REMEMBERED)

    def note(self, keeps: Iterable[str], waiting: Iterable[str], now: float) -> None:
        """Note the workloads with a reservation, and forget those that no longer wait."""
        there = set(waiting)
        for uid in [uid for uid in self._since if uid not in there]:
            del self._since[uid]
        for uid in keeps:
            if uid not in self._since:
                self._since[uid] = now

    def since(self) -> Mapping[str, float]:
        """Since when, by UID."""
        return dict(self._since)
