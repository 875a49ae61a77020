"""How many series a syncer has at rest and at the most, whatever its tenant does, and that it says when it began."""

import re
import subprocess
import sys
from itertools import product
from typing import Final, get_args

from prometheus_client.parser import text_string_to_metric_families

from syncer import metrics
from syncer.kubelet.routes import Verb
from syncer.translate.reasons import Reason
from syncer.translate.registry import KINDS
from tests.observing.page import PAGE

CLASSES: Final = ("StorageClass", "PriorityClass", "RuntimeClass", "DeviceClass", "IngressClass", "VolumeSnapshotClass")
# What a tenant may be told by its kubelet: done, refused for one of these causes, or that the host is silent.
STATUSES: Final = (101, 200, 400, 403, 404, 502, 504)


def count() -> int:
    return sum(1 for family in metrics.REGISTRY.collect() for _ in family.samples)


def everything() -> None:
    """Each kind is written, timed and refused in each way, and each of a kubelet's requests has each answer."""
    for kind in {sample.labels["kind"] for family in metrics.RECONCILES.collect() for sample in family.samples}:
        metrics.RECONCILE_SECONDS.labels(kind)
    for kind, verb in product(KINDS, ("create", "update", "patch", "delete")):
        metrics.host_write(kind, verb)
    for kind in KINDS:
        metrics.virtual_write(kind, "status")
    for kind, verb in product(CLASSES, ("create", "replace", "patch", "delete")):
        metrics.virtual_write(kind, verb)
    for kind, verb in product(("Node", "PersistentVolume"), ("create", "patch", "status", "delete")):
        metrics.virtual_write(kind, verb)
    pods, others = (("Pod", "bind"), ("Pod", "delete")), (("PersistentVolumeClaim", "patch"), ("ConfigMap", "update"))
    for kind, verb in (*pods, *others, ("Event", "create")):
        metrics.virtual_write(kind, verb)
    for reason in Reason:
        metrics.REFUSED.labels(reason)
    for verb, status in product((*get_args(Verb), "unknown"), STATUSES):
        metrics.KUBELET_REQUESTS.labels(verb, str(status))
    for result in ("sent", "dropped"):
        metrics.spans(result, 1)


def test_a_syncer_costs_as_many_series_as_the_page_says() -> None:
    """Counted in a process of its own: labels that were used once stay."""
    code = "from tests.syncer import test_series as t; print(t.count()); t.everything(); print(t.count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    rest, most = (int(line) for line in done.stdout.split())
    written = re.search(r"A syncer at rest has (\d+) series, one at\nwork on every kind (\d+) at the most", PAGE.read_text())
    assert written is not None
    assert 0.9 * int(written[1]) <= rest <= int(written[1])
    assert 0.9 * int(written[2]) <= most <= int(written[2])


def test_no_series_is_only_the_time_at_which_another_was_made() -> None:
    names = [sample.name for family in metrics.REGISTRY.collect() for sample in family.samples]
    assert [name for name in names if name.endswith("_created")] == []


def test_it_says_when_it_began_so_that_restarts_can_be_counted() -> None:
    told = {family.name: family for family in text_string_to_metric_families(metrics.render().decode())}
    assert told["process_start_time_seconds"].samples[0].value > 0
