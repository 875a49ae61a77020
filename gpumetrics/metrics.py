"""What this program reports of itself. No series names a tenant or a device."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import Counter, Gauge

from bulkhead.gpus.attribution import Dropped

exporters = Gauge("bulkhead_gpumetrics_exporters", "Exporters of nodes by whether the last scrape was answered.", ["answered"])
dropped_samples = Counter(
    "bulkhead_gpumetrics_samples_dropped_total", "Samples that belong to no tenant, by reason.", ["reason"]
)
round_seconds = Gauge("bulkhead_gpumetrics_round_seconds", "What the last round over all nodes took.")
kubelets = Gauge("bulkhead_gpumetrics_kubelets", "Kubelets by whether the last scrape was answered.", ["answered"])
kubelet_lines = Counter(
    "bulkhead_gpumetrics_kubelet_lines_dropped_total", "Lines of kubelets about tenants' pods that were left out."
)
kubelet_round_seconds = Gauge("bulkhead_gpumetrics_kubelet_round_seconds", "What the last round over all kubelets took.")
refused_callers = Counter("bulkhead_gpumetrics_callers_refused_total", "Requests without a syncer's token.")

_REASONS: Final = (*(str(reason) for reason in Dropped), "unreadable")
for _reason in _REASONS:
    dropped_samples.labels(_reason)


def report(asked: int, answered: int, dropped: Mapping[str, int]) -> None:
    """Take over what a round found."""
    exporters.labels("true").set(answered)
    exporters.labels("false").set(asked - answered)
    for reason, number in dropped.items():
        dropped_samples.labels(reason).inc(number)


def report_kubelets(asked: int, answered: int, left_out: int) -> None:
    """Take over what a round over kubelets found."""
    kubelets.labels("true").set(answered)
    kubelets.labels("false").set(asked - answered)
    kubelet_lines.inc(left_out)
