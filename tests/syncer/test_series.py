"""How many series a syncer has at the most, whatever its tenant does, and that it says when it began."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from syncer import metrics
from syncer.metrics import REGISTRY
from syncer.translate.reasons import Reason

VERBS = ("create", "patch", "delete")
MOST_SERIES = 400


def series(registry: CollectorRegistry) -> list[str]:
    return [sample.name for metric in registry.collect() for sample in metric.samples]


@pytest.fixture
def busy() -> Iterator[None]:
    """Every kind is reconciled and written in every way, and objects are refused for every reason."""
    for kind in metrics._KINDS:
        metrics.RECONCILE_SECONDS.labels(kind).observe(0.1)
        for verb in VERBS:
            metrics.HOST_WRITES.labels(kind, verb).inc()
            metrics.VIRTUAL_WRITES.labels(kind, verb).inc()
    for reason in Reason:
        metrics.REFUSED.labels(reason).inc()
    yield
    for metric in (metrics.RECONCILE_SECONDS, metrics.HOST_WRITES, metrics.VIRTUAL_WRITES, metrics.REFUSED):
        metric.clear()


@pytest.mark.usefixtures("busy")
def test_a_syncer_at_work_on_every_kind_has_a_bounded_number_of_series() -> None:
    assert len(series(REGISTRY)) <= MOST_SERIES


def test_no_series_is_only_the_time_at_which_another_was_made() -> None:
    assert [name for name in series(REGISTRY) if name.endswith("_created")] == []


def test_it_says_when_it_began_so_that_restarts_can_be_counted() -> None:
    told = {family.name: family for family in text_string_to_metric_families(metrics.render().decode())}
    assert told["process_start_time_seconds"].samples[0].value > 0
