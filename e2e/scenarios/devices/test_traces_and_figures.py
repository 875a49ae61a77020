"""A tenant's creation and a pod's way, as a collector in the cluster gets them; and network and disk of own pods.

The kubelet's own page is left in `build/results/kubelet-cadvisor.txt`.
"""

import json
import re
from collections.abc import Iterator

import pytest

import bulkhead
from e2e import machine, tenants, workloads
from e2e.api import Api, Obj
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
# Past the page cache: what it writes later counts for no container on an overlay.
WORK = "nslookup kubernetes.default >/dev/null; dd if=/dev/zero of=/tmp/x bs=1M count=8 oflag=direct 2>/dev/null"
KUBELETS_PAGE = machine.RESULTS / "kubelet-cadvisor.txt"
# Counters, so that a page which was read before has no more of them, and one after it no fewer.
COUNTED = (
    r"container_(?:network_(?:receive|transmit)_(?:bytes|packets|packets_dropped|errors)|fs_(?:reads|writes)(?:_bytes)?)_total"
)
RECEIVED, WRITTEN = ("container_network_receive_bytes_total", "eth0"), ("container_fs_writes_bytes_total", "main")
WAY = ["pod.seen", "pod.mirrored", "pod.scheduled", "pod.bound", "pod.prepared", "pod.started", "pod.reported"]


@pytest.fixture(scope="module")
def collector(host: Api) -> Iterator[Api]:
    """The collector. Tenants may be there before it: what is sent of their creation waits for it in the controller's queue."""
    host.delete("Namespace", TRACES_SPACE)

    def gone() -> None:
        workloads.expect(host.find("Namespace", TRACES_SPACE) is None, "it is still there")

    until("what an interrupted run left to be gone", gone, seconds=60)
    tenants.make_namespace(host, TRACES_SPACE)
    spec = workloads.pod_spec(("python3", "-c", COLLECTOR))
    spec["containers"][0] |= {"image": f"docker.io/bulkhead/bulkhead:{bulkhead.__version__}", "imagePullPolicy": "IfNotPresent"}
    spec["containers"][0]["resources"]["limits"]["memory"] = "128Mi"
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


def test_a_tenants_creation_and_a_pods_way_are_traces(collector: Api, bob: Tenant, bobs: str) -> None:
    needed = [*CREATION, "reconcile", "step.keys", "step.slice", "step.identity"]
    own = trace(collector, "tenant", needed, **{"bulkhead.tenant": bob.name})
    assert {span["service"] for span in own} == {"bulkhead-controller"}
    by_name = {span["name"]: span for span in own}
    ends = [by_name[part]["end"] for part in CREATION]
    assert ends == sorted(ends)
    table("creation", own, ["tenant", *CREATION])
    bob.api.create(workloads.pod("traced", namespace=bobs))
    workloads.wait_running(bob.api, "traced", namespace=bobs)
    named = {"bulkhead.tenant": bob.name, "k8s.namespace.name": bobs, "k8s.pod.name": "traced"}
    way = trace(collector, "pod", WAY, **named)
    assert {span["service"] for span in way} == {"bulkhead-syncer"}
    table("way", way, ["pod", *WAY])


Figures = dict[tuple[str, str], list[float]]


def figures(page: str, namespace: str, pod: str) -> Figures:
    """What a page has of a pod, by metric and by interface or container: a value for each disk."""
    found: Figures = {}
    for name, inside, value in re.findall(rf"^({COUNTED})\{{(.*)\}} (\S+)(?: \d+)?$", page, re.MULTILINE):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', inside))
        part = labels.get("interface" if "_network_" in name else "container", "")
        if (labels.get("namespace"), labels.get("pod")) == (namespace, pod) and part:
            found.setdefault((name, part), []).append(float(value))
    return found


def test_a_tenant_sees_network_and_disk_of_its_own_pods_alone(
    host: Api, alice: Tenant, bob: Tenant, space: str, bobs: str
) -> None:
    command = ("sh", "-c", f"while true; do {WORK}; sleep 1; done")
    for tenant, name, where in ((alice, "ours", space), (bob, "theirs", bobs)):
        tenant.api.create(workloads.pod(name, workloads.pod_spec(command), namespace=where))
    ours = workloads.wait_running(alice.api, "ours", namespace=space)
    workloads.wait_running(bob.api, "theirs", namespace=bobs)
    node, real = ours["spec"]["nodeName"], workloads.host_pod_of(host, ours, alice.work)["metadata"]["name"]

    def kubelets_page() -> str:
        text = host.text(f"/api/v1/nodes/{machine.NODE}/proxy/metrics/cadvisor")
        KUBELETS_PAGE.parent.mkdir(parents=True, exist_ok=True)
        KUBELETS_PAGE.write_text(text)
        return text

    def measured() -> Figures:
        found = figures(kubelets_page(), alice.work, real)
        workloads.expect(sum(found.get(RECEIVED, [])) > 0, f"the kubelet has {found} of {real}")
        return found

    before = until("the kubelet to measure the pod's network", measured, seconds=60, interval=3.0)
    # Some kernels count no disk for groups of version 1. What the kubelet has is judged, and no more.
    print("the kubelet measures the container's disk:", sum(before.get(WRITTEN, [])) > 0)

    def shown() -> str:
        page = alice.api.text(f"/api/v1/nodes/{node}/proxy/metrics/cadvisor")
        found = figures(page, space, "ours")
        late = [key for key, values in before.items() if sum(found.get(key, [-1.0])) < max(values)]
        workloads.expect(not late, f"not there yet, or older than what the kubelet had before: {late}")
        return page

    page = until("the tenant's page to have what the kubelet had", shown, seconds=120, interval=3.0)
    print(page)
    real_page = kubelets_page()
    after = figures(real_page, alice.work, real)
    # The kubelet may count a disk at each of its layers, so the page has between one of them and all.
    for key, values in figures(page, space, "ours").items():
        assert sum(values) <= sum(after.get(key, [])), f"{key} is more than the kubelet counts"
    disks = set(re.findall(r'device="(/dev/[^"]+)"', real_page))
    for hidden in {"theirs", bob.name, bobs, alice.work, real, "kube-system", "kubepods"} | disks:
        assert hidden not in page, hidden
