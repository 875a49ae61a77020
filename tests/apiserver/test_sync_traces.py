"""A pod's trace over two real API servers, as a collector gets it: from the syncer, and from the ledger if there is a gate."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.api import labels, ledger, names
from bulkhead.kube.client import Client
from bulkhead.kube.resources import NODES, RESOURCE_QUOTAS
from bulkhead.ledger import given
from bulkhead.ledger.model import Share, Tenant
from bulkhead.tracing import sending
from bulkhead.tracing.podway import trace_of_pod
from bulkhead.work.clock import SystemClock
from controller.dispatch.loop import Ledger
from controller.settings import Settings
from controller.tracing import Traces
from syncer import metrics
from tests.kit.background import background
from tests.kit.collector import Collector
from tests.kit.hostileserver import endless, serving, silent
from tests.kit.leading import leading
from tests.kit.ledgerhost import GPU, LINE, LedgerHost, leads
from tests.kit.podtraces import SECRET, WAY, brought_to_run, in_order, kubelet_runs, runs, secretive, told, trace_of, traced
from tests.kit.ports import free_port
from tests.kit.syncerbed import SyncerBed

pytestmark = pytest.mark.apiserver


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "GATHER_SECONDS", 0.05)


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with Collector.open() as opened:
        yield opened


async def test_a_pods_trace_has_its_way_in_order_and_nothing_but_names(
    host_client: Client, plane_client: Client, collector: Collector
) -> None:
    async with SyncerBed.open(host_client, plane_client, **traced(collector.url)) as bed:
        virtual = await brought_to_run(bed, secretive(bed.pod("plain")))
        spans = await trace_of(collector, bed.tenant, virtual)
        assert in_order(spans) == WAY
        whole = spans["pod"]
        assert whole.attributes == told(bed, virtual)
        assert {span.service for span in collector.spans} == {"bulkhead-syncer"}
        assert not any(SECRET.encode() in span.raw for span in collector.spans)
        # What the syncer saw itself is exact, and not in whole seconds.
        assert spans["pod.seen"].end % 1 != 0
        assert whole.end % 1 != 0


async def test_a_trace_is_sent_once_and_not_again_by_a_syncer_that_starts_anew(
    host_client: Client, plane_client: Client, collector: Collector
) -> None:
    async with SyncerBed.open(host_client, plane_client, **traced(collector.url)) as bed:
        first = await brought_to_run(bed, bed.pod("first"))
        await trace_of(collector, bed.tenant, first)
        # The second is on the host when the syncer dies: its successor knows only what the servers noted.
        await bed.create(bed.pod("second"))
        host = await bed.mirrored("second")
        await bed.stop()
        await bed.bind(host)
        await kubelet_runs(bed, host)
        await bed.start()
        second = await runs(bed, "second")
        spans = await trace_of(collector, bed.tenant, second)
        assert {"pod.mirrored", "pod.scheduled", "pod.started", "pod.reported"} <= spans.keys()
        assert "pod.seen" not in spans
        await bed.patrolled()
        await asyncio.sleep(0.5)
        trace = trace_of_pod(bed.tenant, first["metadata"]["uid"])
        assert len([span for span in collector.spans if span.trace == trace and span.name == "pod"]) == 1


async def test_only_sampled_pods_have_a_trace(host_client: Client, plane_client: Client, collector: Collector) -> None:
    async with SyncerBed.open(host_client, plane_client, **traced(collector.url, one_in=1_000_000)) as bed:
        await brought_to_run(bed, bed.pod("plain"))
        await asyncio.sleep(0.5)
        assert collector.requests == 0


@pytest.mark.parametrize("kind", ["away", "silent", "endless"])
@pytest.mark.figures
async def test_a_collector_in_trouble_holds_up_no_pod(
    host_client: Client, plane_client: Client, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "MAX_QUEUED_SPANS", 20)
    before = _dropped()
    answer = endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536) if kind == "endless" else silent()
    async with serving(answer) as config:
        url = f"http://127.0.0.1:{free_port()}" if kind == "away" else config.server
        async with SyncerBed.open(host_client, plane_client, **traced(url)) as bed:
            for number in range(5):
                await brought_to_run(bed, bed.pod(f"pod-{number}"))
            assert _dropped() > before
            assert bed.session is not None
            assert bed.session._spans is not None
            assert len(bed.session._spans._queue) <= 20


def _dropped() -> float:
    return metrics.REGISTRY.get_sample_value("bulkhead_syncer_spans_total", {"result": "dropped"}) or 0.0


async def test_the_ledgers_part_is_in_the_same_trace(
    ledger_host: LedgerHost, plane_client: Client, collector: Collector
) -> None:
    cohort = await ledger_host.cohort("traced")
    more: dict[str, Any] = {"limits": {GPU: 8}, "gatedResources": [GPU], "gatedGangs": True, **traced(collector.url)}
    bed = SyncerBed(ledger_host.client, plane_client, **more)
    await bed.prepare()
    try:
        await ledger_host.client.delete(NODES, bed.node)
        await ledger_host.node("n0", 8, pool=bed.tenant)
        quota = Tenant(bed.tenant, cohort, shares={LINE: Share(4, 4)})
        meta = {
            "name": names.POD_QUOTA,
            "labels": {labels.TENANT: bed.tenant},
            "annotations": {ledger.GIVEN: given.write(quota)},
        }
        await ledger_host.client.create(RESOURCE_QUOTAS, {"metadata": meta, "spec": {"hard": {"pods": "1000"}}}, bed.work)
        ledger_host.spaces.append(bed.work)
        await bed.start()
        # The controller is told of the collector by its Service; here that is this machine.
        traces = Traces(Settings(traces_namespace="observability", traces_service="otel", trace_one_pod_in=1), SystemClock())
        assert traces._sender is not None
        traces._sender._config = traces._sender._config.__class__(server=collector.url)
        async with (
            background(traces.run()),
            leading(Ledger(ledger_host.client, leads, traced=traces.admitted)),
        ):
            await bed.create(bed.gpu_pod("train"))
            virtual = await runs(bed, "train")
            spans = await trace_of(collector, bed.tenant, virtual, "pod.admitted", "pod.scheduled")
        assert spans["pod.admitted"].service == "bulkhead-controller"
        assert spans["pod.admitted"].parent == spans["pod"].span
        assert spans["pod"].attributes["k8s.pod.name"] == spans["pod.admitted"].attributes["k8s.pod.name"] == "train"
        assert spans["pod.admitted"].end <= spans["pod.scheduled"].start + 0.001
        assert spans["pod.mirrored"].start <= spans["pod.admitted"].end
    finally:
        await bed.stop()
        await bed.clean()
