"""Exports metered usage to Prometheus, on the controller's port. Names and labels are part of the interface.

The process that stores usage counts it here. Each metric has at most `_MOST_SERIES` series; further ones count under `*`.
"""

from collections.abc import Iterable
from typing import Final

from prometheus_client import Counter

from bulkhead.metering.meter import Tally
from bulkhead.metering.usagebook import OTHERS

_MOST_SERIES: Final = 2048
_MILLI: Final = 1000

seconds = Counter(
    "bulkhead_gpu_seconds_total",
    "Device-seconds that pods and claims of a tenant held; state `idle` if nothing ran on the devices.",
    ["tenant", "resource", "flavor", "state"],
)
borrowed_seconds = Counter(
    "bulkhead_gpu_borrowed_seconds_total",
    "The part of these device-seconds that the tenant borrowed.",
    ["tenant", "resource", "flavor"],
)
reserved_seconds = Counter(
    "bulkhead_gpu_reserved_seconds_total",
    "Device-seconds for which free devices were reserved for waiting workloads of a tenant.",
    ["tenant", "resource", "flavor"],
)
measured_seconds = Counter(
    "bulkhead_gpu_measured_seconds_total",
    "The part of the held device-seconds in which the devices' utilisation was measured.",
    ["tenant", "resource", "flavor"],
)
busy_seconds = Counter(
    "bulkhead_gpu_busy_seconds_total",
    "The measured device-seconds times the devices' utilisation.",
    ["tenant", "resource", "flavor"],
)
pages = Counter("bulkhead_usage_writes_total", "Writes of metered usage, by result.", ["result"])
_series: set[tuple[str, str, str]] = set()


def report(tallies: Iterable[Tally]) -> None:
    """Add tallies that have been stored."""
    for tally in tallies:
        account = tally.account
        series = (account.tenant, account.resource, account.flavor)
        if series not in _series and len(_series) >= _MOST_SERIES:
            series = (OTHERS, OTHERS, OTHERS)
        _series.add(series)
        for state, amount in (("used", tally.used), ("idle", tally.idle)):
            seconds.labels(*series, state).inc(amount / _MILLI)
        borrowed_seconds.labels(*series).inc(tally.borrowed / _MILLI)
        if tally.reserved:
            reserved_seconds.labels(*series).inc(tally.reserved / _MILLI)
        if tally.measured:
            measured_seconds.labels(*series).inc(tally.measured / _MILLI)
            busy_seconds.labels(*series).inc(tally.busy / _MILLI)
