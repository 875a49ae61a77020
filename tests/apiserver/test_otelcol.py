"""OpenTelemetry's own Collector takes what controller and syncers send: a pod's way and a Tenant's, one trace each.

What is asked of the played collector elsewhere (`test_sync_traces.py`) is asked here of the program that admins run, by the
file that it writes. Kubelets are played, and so is the plane of the Tenant that is created; API servers, syncer and controller
are real.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.tracing import sending
from bulkhead.tracing.podway import trace_of_pod
from bulkhead.tracing.spans import trace_of
from bulkhead.work.clock import SystemClock
from controller.inside.access import PlaneAccess, PlaneHealth
from controller.settings import Settings
from controller.tracing import Traces
from tests.kit.background import background
from tests.kit.collector import Got
from tests.kit.controllerhost import ControllerHost, ask, plane_pod, ready, take_down
from tests.kit.crds import install
from tests.kit.otelcol import Otelcol
from tests.kit.otelcol import running as otelcol
from tests.kit.podtraces import SECRET, WAY, brought_to_run, in_order, now, secretive, told, traced
from tests.kit.podtraces import trace_of as pods_trace
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.tenantsamples import tenant_class

pytestmark = pytest.mark.otelcol
PHASES: Final = [
    "tenant.namespaces",
    "tenant.pki",
    "tenant.etcd",
    "tenant.apiserver",
    "tenant.plane",
    "tenant.addons",
    "tenant.ready",
]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "GATHER_SECONDS", 0.05)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Otelcol]:
    with otelcol(tmp_path / "otelcol") as opened:
        yield opened
        # It would say here that it could not read something.
        assert "error" not in opened.log


def once(spans: list[Got]) -> None:
    """No span came twice."""
    assert len({(span.trace, span.span) for span in spans}) == len(spans)


async def test_a_pods_way_is_one_trace_of_names(host_client: Client, plane_client: Client, collector: Otelcol) -> None:
    async with SyncerBed.open(host_client, plane_client, **traced(collector.url)) as bed:
        virtual = await brought_to_run(bed, secretive(bed.pod("plain")))
        way = await pods_trace(collector, bed.tenant, virtual)
        assert in_order(way) == WAY
        assert way["pod"].attributes == told(bed, virtual)
        spans = collector.spans
        once(spans)
        assert {span.service for span in spans} == {"bulkhead-syncer"}
        assert {span.trace for span in spans} == {trace_of_pod(bed.tenant, virtual["metadata"]["uid"])}
        assert not any(SECRET.encode() in span.raw for span in spans)


async def _answers(*_: object) -> PlaneHealth:
    return PlaneHealth(ready=True, message="the API server answers")


async def _takes(*_: object) -> tuple[str, bool]:
    return "11111111-2222-4333-8444-555555555555", True


async def _lacks(*_: object) -> str:
    return ""


def running(name: str) -> Obj:
    return {
        "name": name,
        "ready": True,
        "image": "x",
        "imageID": "x",
        "restartCount": 0,
        "state": {"running": {"startedAt": now()}},
    }


async def plane_runs(client: Client, tenant: str) -> None:
    """What the host's controllers and a kubelet say once all parts of a plane run."""
    space = f"bh-{tenant}"
    made = await plane_pod(client, tenant)
    status: dict[str, Any] = {
        "phase": "Running",
        "podIP": "192.0.2.7",
        "podIPs": [{"ip": "192.0.2.7"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now()}],
        "containerStatuses": [running(container["name"]) for container in made["spec"]["containers"]],
    }
    await client.patch(kinds.PODS, "plane-0", {"status": status}, space, subresource="status")


async def followers_run(client: Client, tenant: str) -> None:
    """The same of syncer and DNS, and of quotas."""
    space = f"bh-{tenant}"
    for deployment in (await client.list(kinds.DEPLOYMENTS, space)).items:
        meta, one = deployment["metadata"], {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        status = {"observedGeneration": meta["generation"]} | one
        await client.patch(kinds.DEPLOYMENTS, meta["name"], {"status": status}, space, subresource="status")
    for namespace in (space, f"{space}-work"):
        for quota in (await client.list(kinds.RESOURCE_QUOTAS, namespace)).items:
            status = {"hard": quota["spec"]["hard"]}
            await client.patch(
                kinds.RESOURCE_QUOTAS, quota["metadata"]["name"], {"status": status}, namespace, subresource="status"
            )


async def test_a_tenants_creation_is_one_trace_with_its_reconciles(
    host_client: Client, collector: Otelcol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlaneAccess, "health", _answers)
    monkeypatch.setattr(PlaneAccess, "bootstrap", _takes)
    monkeypatch.setattr(PlaneAccess, "lacks", _lacks)
    client, name = host_client, "seen"
    await install(client)
    await client.apply(kinds.TENANT_CLASSES, tenant_class() | {"metadata": {"name": "standard"}})
    # The controller is told of the collector by its Service; here that is this machine.
    traces = Traces(Settings(traces_namespace="observability", traces_service="otel", trace_one_pod_in=1), SystemClock())
    assert traces._sender is not None
    traces._sender._config = KubeConfig(server=collector.url)
    made = await ask(client, name)
    async with background(traces.run()), ControllerHost(client, traces=traces.offer) as world:
        await world.settle(name)
        await plane_runs(client, name)
        await world.settle(name)
        await followers_run(client, name)
        tenant = await world.settle(name)
        assert ready(tenant) == ("True", "Ready"), tenant["status"]["conditions"]
        trace = trace_of("tenant", str(made["metadata"]["uid"]))

        async def whole() -> dict[str, Got] | None:
            found = collector.of(trace)
            return found if found.keys() >= {"tenant", "tenant.ready", "reconcile"} else None

        spans: dict[str, Got] = await until(whole, "the trace of the creation")
        root = spans["tenant"]
        assert root.parent == b""
        assert root.attributes == {"bulkhead.tenant": name, "bulkhead.class": "standard"}
        assert [span for span in spans if span in PHASES] == PHASES, "in the order of their beginnings"
        came = collector.spans
        once(came)
        assert {span.service for span in came} == {"bulkhead-controller"}
        assert {span.trace for span in came} == {trace}
        reconciles = {span.span for span in came if span.name == "reconcile"}
        assert {span.parent for span in came if span.name in {*PHASES, "reconcile"}} == {root.span}
        assert {span.parent for span in came if span.name.startswith("step.")} <= reconciles
        assert {span.name for span in came if span.name.startswith("step.")} >= {"step.keys", "step.objects"}
        # Whatever Secrets the controller made of it: nothing but names is in a trace.
        for secret in (await client.list(kinds.SECRETS, f"bh-{name}")).items:
            assert not any(value.encode() in span.raw for value in secret.get("data", {}).values() for span in came if value)
        await take_down(world, name)
