"""What the proxy's other half counts, for Prometheus; connections and bytes of tenants are HAProxy's own (`:8404/metrics`)."""

from collections.abc import Iterable, Mapping

from prometheus_client import Counter, Gauge, disable_created_metrics
from prometheus_client.core import REGISTRY, CounterMetricFamily
from prometheus_client.registry import Collector

# Each counter would otherwise have a second series with the time at which it was made.
disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations
routes = Gauge("bulkhead_proxy_routes", "Tenants that the proxy leads to.")
left_out = Gauge("bulkhead_proxy_left_out", "Services, or names of them, that are malformed or another tenant's.")
refused_now = Gauge("bulkhead_proxy_commands_pending", "Commands that HAProxy refused when it was last compared.")
commands_refused = Counter("bulkhead_proxy_commands_refused_total", "Commands that HAProxy has refused.")


class _Refused(Collector):
    """Counters of HAProxy, reported as they are: they begin at 0 when it restarts, as counters may."""

    def __init__(self) -> None:
        self.tenants: Mapping[str, int] = {}
        self.nobody: Mapping[str, int] = {}

    def collect(self) -> Iterable[CounterMetricFamily]:
        """Yield the metrics with the last counts, for the registry."""
        mine = CounterMetricFamily(
            "bulkhead_proxy_refused", "Refused connections: by tenant beyond its limits, or without a tenant, by reason.",
            labels=["tenant", "reason"],
        )  # fmt: skip
        for tenant, number in self.tenants.items():
            mine.add_metric([tenant, "limit"], number)
        for reason, number in self.nobody.items():
            mine.add_metric(["", reason], number)
        yield mine


_refused = _Refused()
REGISTRY.register(_refused)


def take(tenants: Mapping[str, int], nobody: Mapping[str, int]) -> None:
    """Take over the counts of HAProxy."""
    _refused.tenants, _refused.nobody = tenants, nobody
