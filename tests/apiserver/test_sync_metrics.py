"""metrics.k8s.io of a plane over two real API servers; what a metrics-server would have measured is played."""

import contextlib
from typing import Any

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import AlreadyExists, KubeError
from bulkhead.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, POD_METRICS, PODS
from syncer.http1 import BadRequestError
from syncer.kubelet.metrics import PodMetrics
from syncer.kubelet.metricsroutes import Question
from syncer.kubelet.targets import Targets
from syncer.kubelet.turns import Turns
from tests.kit.syncerbed import SyncerBed, until

PLAYED: Obj = {
    "metadata": {
        "name": "pods.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, plays an extension server in a test"},
    },
    "spec": {
        "group": "metrics.k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "pods", "singular": "podmetric", "kind": "PodMetrics", "listKind": "PodMetricsList"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def metrics(bed: SyncerBed) -> PodMetrics:
    """Afresh: what one asked a moment ago is not asked again."""
    assert bed.session is not None
    session = bed.session
    store = session.caches.virtual["Pod"].store
    return PodMetrics(
        bed.host, bed.plane, bed.work, session._clock,
        pods=store.objects,
        host_name=Targets(session.caches).host_name,
        turns=Turns(session._clock),
    )  # fmt: skip


async def names(bed: SyncerBed, asked: Question) -> list[str]:
    return sorted(item["metadata"]["name"] for item in (await metrics(bed).answer(asked))["items"])


async def measure(bed: SyncerBed, host_name: str, **labels: str) -> None:
    usage = {"cpu": "250m", "memory": "64Mi"}
    body: dict[str, Any] = {
        "apiVersion": POD_METRICS.api_version,
        "kind": POD_METRICS.kind,
        "metadata": {"name": host_name, "labels": labels},
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "15s",
        "containers": [{"name": "main", "usage": usage}],
    }
    await bed.host.create(POD_METRICS, body, bed.work)


async def test_item_87_metrics_of_the_tenants_own_pods_by_their_own_names(bed: SyncerBed) -> None:
    with pytest.raises(BadRequestError, match="install metrics-server"):
        await metrics(bed).answer(Question("pods"))
    with contextlib.suppress(AlreadyExists):
        await bed.host.create(CUSTOM_RESOURCE_DEFINITIONS, PLAYED)

    async def served() -> bool:
        try:
            return (await bed.host.list(POD_METRICS, bed.work)).items == []
        except KubeError:
            return False

    try:
        await until(served, "the played API to be served")
        marked = {marks.SYNCED: marks.SYNCED_BY_SYNCER}
        for name in ("web", "db"):
            await measure(bed, (await bed.running(name))["metadata"]["name"], **marked)
        await measure(bed, "a-pod-of-the-platform")
        await bed.plane.patch(PODS, "db", {"metadata": {"labels": {"tier": "data"}}}, bed.space)
        await bed.caught_up()

        assert await names(bed, Question("pods")) == ["db", "web"]
        assert await names(bed, Question("pods", "elsewhere")) == []
        assert await names(bed, Question("pods", bed.space, label_selector="tier in (data)")) == ["db"]
        assert await names(bed, Question("pods", field_selector="metadata.name=web")) == ["web"]
        with pytest.raises(BadRequestError) as refused:
            await metrics(bed).answer(Question("pods", label_selector="in in in"))
        assert refused.value.status == 400
        (node,) = (await metrics(bed).answer(Question("nodes")))["items"]
        assert (node["metadata"]["name"], node["usage"]) == (bed.node, {"cpu": "500000000n", "memory": "131072Ki"})
    finally:
        await bed.host.delete(CUSTOM_RESOURCE_DEFINITIONS, "pods.metrics.k8s.io")
