"""Counts the CPU seconds of the tenant's containers from the rates that the host measured. Pure but for its own memory.

    sample: 0.5 cores at 12:00:15, the one before at 12:00:00 ──> 7.5 s more

The host's metrics API knows rates and no counters. So the counter begins at 0 with the first sample that is seen, stands while
nothing is asked, and begins again when the syncer restarts, which Prometheus takes as any restart of a counter.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from bulkhead.api.ledger import seconds
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import readable
from bulkhead.api.untrusted import mapping, mappings, text

# Of a longer gap between two samples only so much is counted: nothing is known of the rest.
_LONGEST_GAP_SECONDS: Final = 120.0
# The whole of a large node, and more than any container has.
_MOST_CORES: Final = 4096.0


class CpuCount:
    """The seconds by UID of a virtual pod and container."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], tuple[float, float]] = {}

    @property
    def seconds(self) -> dict[tuple[str, str], float]:
        """What was counted so far."""
        return {key: total for key, (_, total) in self._counted.items()}

    def take(self, measured: Iterable[tuple[str, Obj]]) -> None:
        """Take the newest PodMetrics, by UID of the virtual pod. Containers that are no longer measured are forgotten."""
        before, self._counted = self._counted, {}
        for uid, sample in measured:
            at = seconds(sample.get("timestamp"))
            if at is None:
                continue
            for container in mappings(sample.get("containers")):
                key = (uid, text(container.get("name")))
                last, total = before.get(key, (at, 0.0))
                gap = min(max(0.0, at - last), _LONGEST_GAP_SECONDS)
                self._counted[key] = (max(at, last), total + gap * _cores(mapping(container.get("usage"))))


def _cores(usage: Mapping[str, object]) -> float:
    cores = readable(usage.get("cpu"))
    return 0.0 if cores is None else min(float(cores), _MOST_CORES)
