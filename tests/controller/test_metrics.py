"""Names of metrics are part of the interface: what is renamed keeps its former name for one release."""

import re

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Metric

from controller import metrics
from syncer import metrics as syncer_metrics

DEPRECATED = {
    "bulkhead_controller_passes": "bulkhead_controller_reconciles_total",
    "bulkhead_controller_pass_seconds": "bulkhead_controller_reconcile_seconds",
}


def ours(registry: CollectorRegistry) -> list[Metric]:
    return [metric for metric in registry.collect() if metric.name.startswith("bulkhead_")]


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_a_reconcile_counts_under_both_names() -> None:
    names = ("bulkhead_controller_reconciles_total", "bulkhead_controller_passes_total")
    before = [value(name, result="failed") for name in names]
    metrics.reconciled("failed")
    assert [value(name, result="failed") for name in names] == [number + 1 for number in before]
    sums = ("bulkhead_controller_reconcile_seconds_sum", "bulkhead_controller_pass_seconds_sum")
    former = [value(name) for name in sums]
    metrics.reconcile_took(0.25)
    assert [value(name) - number for name, number in zip(sums, former, strict=True)] == [0.25, 0.25]


def test_the_former_names_say_that_they_are_deprecated_and_what_to_read() -> None:
    told = {metric.name: metric.documentation for metric in ours(REGISTRY) if metric.name in DEPRECATED}
    assert told == {name: f"Deprecated: read {now} instead." for name, now in DEPRECATED.items()}


@pytest.mark.parametrize("registry", [REGISTRY, syncer_metrics.REGISTRY], ids=["controller", "syncer"])
def test_no_other_metric_calls_a_reconcile_a_pass(registry: CollectorRegistry) -> None:
    named = {metric.name: f"{metric.name.replace('_', ' ')} {metric.documentation}" for metric in ours(registry)}
    assert named.keys() - DEPRECATED.keys()
    assert [name for name, words in named.items() if re.search(r"\bpass(es)?\b", words) and name not in DEPRECATED] == []


def test_of_the_controllers_labels_tenants_alone_are_chosen_by_people() -> None:
    labels = {label for metric in vars(metrics).values() for label in getattr(metric, "_labelnames", ())}
    assert labels == {
        "tenant",
        "result",
        "kind",
        "outcome",
        "what",
        "why",
        "member",
        "facet",
        "certificate",
        "status",
        "way",
        "state",
    }
