"""What was metered, for Prometheus, at the controller's port. Names and labels are part of the interface.

The process that stores usage counts it here. Each metric has at most `_MOST_SERIES` series; what is beyond them counts under
`*`.
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
    "Seconds for which pods and claims of a tenant held devices, times devices; state `idle` where nothing ran.",
    ["tenant", "resource", "flavor", "state"],
)
borrowed_seconds = Counter(
    "bulkhead_gpu_borrowed_seconds_total", "Of these, what the tenant borrowed.", ["tenant", "resource", "flavor"]
)
reserved_seconds = Counter(
    "bulkhead_gpu_reserved_seconds_total",
    "Seconds for which free devices were reserved for waiting workloads of a tenant, times devices.",
    ["tenant", "resource", "flavor"],
)
pages = Counter("bulkhead_usage_writes_total", "Writes of metered usage, by result.", ["result"])
_series: set[tuple[str, str, str]] = set()


def report(tallies: Iterable[Tally]) -> None:
    """Take over what was stored."""
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
