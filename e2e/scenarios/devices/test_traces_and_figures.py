"""A tenant's creation and a pod's way, as a collector in the cluster gets them; and network and disk of own pods."""

import json
import re
from collections.abc import Iterator

import pytest

import bulkhead
from e2e import tenants, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.poll import until
from e2e.scenarios.devices.conftest import TRACES_SPACE
from e2e.tenants import Tenant

# The platform's own image has OpenTelemetry's messages: each span that comes is one line of the log.
COLLECTOR = """
import json
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
async def take(request):
    for group in ExportTraceServiceRequest.FromString(await request.read()).resource_spans:
        about = {pair.key: pair.value.string_value for pair in group.resource.attributes}
        for span in (span for scope in group.scope_spans for span in scope.spans):
            own = {pair.key: pair.value.string_value for pair in span.attributes}
            print(json.dumps({"service": about["service.name"], "name": span.name, "trace": span.trace_id.hex(),
                "start": span.start_time_unix_nano / 1e9, "end": span.end_time_unix_nano / 1e9} | own), flush=True)
    return web.Response(content_type="application/x-protobuf")
app = web.Application(client_max_size=1 << 24)
app.add_routes([web.post("/v1/traces", take)])
web.run_app(app, port=4318, print=None)
"""
CREATION = [
    "tenant.namespaces",
    "tenant.pki",
    "tenant.etcd",
    "tenant.apiserver",
    "tenant.plane",
    "tenant.addons",
    "tenant.ready",
]
WORK = "nslookup kubernetes.default >/dev/null; dd if=/dev/zero of=/tmp/x bs=1M count=8 conv=fsync"
WAY = ["pod.seen", "pod.mirrored", "pod.scheduled", "pod.bound", "pod.prepared", "pod.started", "pod.reported"]


@pytest.fixture(scope="module")
def collector(host: Api) -> Iterator[Api]:
    """The collector, before any tenant is created."""
    tenants.make_namespace(host, TRACES_SPACE)
    spec = workloads.pod_spec(("python3", "-c", COLLECTOR))
    spec["containers"][0] |= {"image": f"docker.io/bulkhead/bulkhead:{bulkhead.__version__}", "imagePullPolicy": "IfNotPresent"}
    spec["containers"][0]["resources"]["limits"]["memory"] = "128Mi"
    host.delete("Pod", "collector", TRACES_SPACE, grace=0)

    def gone() -> None:
        workloads.expect(host.find("Pod", "collector", TRACES_SPACE) is None, "it is still there")

    until("the earlier collector to be gone", gone, seconds=60)
    host.create(workloads.pod("collector", spec, namespace=TRACES_SPACE))
    port = {"port": 4318, "targetPort": 4318}
    host.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "collector", "namespace": TRACES_SPACE},
            "spec": {"selector": {"app": "collector"}, "ports": [port]},
        }
    )
    workloads.wait_running(host, "collector", namespace=TRACES_SPACE)
    yield host
    host.delete("Namespace", TRACES_SPACE)


def spans(host: Api) -> list[Obj]:
    text = host.text(f"/api/v1/namespaces/{TRACES_SPACE}/pods/collector/log")
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def trace(host: Api, about: str, needed: list[str], **named: str) -> list[Obj]:
    """The spans of the trace whose whole has these attributes, once all that are needed are there."""

    def found() -> list[Obj]:
        came = spans(host)
        whole = [span for span in came if span["name"] == about and named.items() <= span.items()]
        workloads.expect(bool(whole), f"no {about} of {named} among {len(came)} spans")
        own = [span for span in came if span["trace"] == whole[-1]["trace"]]
        missing = set(needed) - {span["name"] for span in own}
        workloads.expect(not missing, f"missing: {sorted(missing)}")
        return own

    return until(f"the trace of {named}", found, seconds=90, interval=2.0)


def table(name: str, own: list[Obj], order: list[str]) -> None:
    """What a trace says, for the reader of the run."""
    by_name = {span["name"]: span for span in own}
    lines = [f"{part:20} {by_name[part]['end'] - by_name[part]['start']:7.3f} s" for part in order if part in by_name]
    print(name, *lines, sep="\n")


def test_a_tenants_creation_and_a_pods_way_are_traces(collector: Api, bob: Tenant) -> None:
    needed = [*CREATION, "reconcile", "step.keys", "step.slice", "step.identity"]
    own = trace(collector, "tenant", needed, **{"bulkhead.tenant": bob.name})
    assert {span["service"] for span in own} == {"bulkhead-controller"}
    by_name = {span["name"]: span for span in own}
    ends = [by_name[part]["end"] for part in CREATION]
    assert ends == sorted(ends)
    table("creation", own, ["tenant", *CREATION])
    bob.api.create(workloads.pod("traced", namespace="default"))
    workloads.wait_running(bob.api, "traced", namespace="default")
    way = trace(collector, "pod", WAY, **{"bulkhead.tenant": bob.name, "k8s.pod.name": "traced"})
    assert {span["service"] for span in way} == {"bulkhead-syncer"}
    table("way", way, ["pod", *WAY])


def test_a_tenant_sees_network_and_disk_of_its_own_pods_alone(alice: Tenant, bob: Tenant) -> None:
    for tenant, name in ((alice, "ours"), (bob, "theirs")):
        command = ("sh", "-c", f"while true; do {WORK}; sleep 1; done")
        tenant.api.create(workloads.pod(name, workloads.pod_spec(command), namespace="default"))
    workloads.wait_running(alice.api, "ours", namespace="default")
    workloads.wait_running(bob.api, "theirs", namespace="default")
    node = alice.api.get("Pod", "ours", "default")["spec"]["nodeName"]

    def page() -> str:
        text = kubectl(alice.kubeconfig, "get", "--raw", f"/api/v1/nodes/{node}/proxy/metrics/cadvisor").out
        line = r'^container_network_receive_bytes_total\{interface="eth0",.*pod="ours"\} (\S+)$'
        received = re.search(line, text, re.MULTILINE)
        workloads.expect(received is not None and float(received[1]) > 0, "no network figures of the pod yet")
        return text

    text = until("network figures of the pod", page, seconds=120, interval=3.0)
    print(text)
    for hidden in ("theirs", bob.name, alice.work, "kube-system", "kubepods"):
        assert hidden not in text, hidden
