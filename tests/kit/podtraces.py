"""A pod's way in a test of traces: it is brought to run between two API servers, and its trace is awaited at a collector."""

from datetime import UTC, datetime
from typing import Any, Final, Protocol

from bulkhead.api.objects import Obj
from bulkhead.kube.resources import PODS
from bulkhead.tracing.podway import trace_of_pod
from tests.kit.collector import Got
from tests.kit.syncerbed import SyncerBed, until

WAY: Final = ["pod.seen", "pod.mirrored", "pod.scheduled", "pod.bound", "pod.prepared", "pod.started", "pod.reported"]


# Stands in what a tenant writes of a pod; no span may have it.
SECRET: Final = "hunter2-canary"


class Receives(Protocol):
    """A collector, played or real."""

    def of(self, trace: bytes) -> dict[str, Got]: ...


def traced(url: str, one_in: int = 1) -> dict[str, Any]:
    return {"tracesCollector": url, "traceOnePodIn": one_in}


def secretive(pod: Obj) -> Obj:
    """The same pod, with the secret everywhere that a tenant may write what they want."""
    pod["metadata"] |= {"labels": {"l": SECRET}, "annotations": {"a": SECRET}}
    pod["spec"]["containers"][0] |= {"env": [{"name": "PASSWORD", "value": SECRET}], "args": [SECRET]}
    return pod


def told(bed: SyncerBed, virtual: Obj) -> dict[str, str]:
    """All that the span of a pod that runs says of it: names."""
    return {
        "bulkhead.tenant": bed.tenant,
        "k8s.namespace.name": bed.space,
        "k8s.pod.name": "plain",
        "k8s.pod.uid": virtual["metadata"]["uid"],
        "k8s.node.name": bed.node,
        "bulkhead.pod.phase": "Running",
    }


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def kubelet_runs(bed: SyncerBed, host: Obj) -> None:
    """What a kubelet reports, with the present time."""
    at = now()
    kinds = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    status = {
        "phase": "Running",
        "startTime": at,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": at} for kind in kinds],
        "containerStatuses": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "imageID": "x",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": at}},
            }
        ],
    }
    await bed.host.patch(PODS, host["metadata"]["name"], {"status": status}, bed.work, subresource="status")


async def brought_to_run(bed: SyncerBed, pod: Obj) -> Obj:
    """A pod that runs on both sides; returns the virtual one."""
    name = pod["metadata"]["name"]
    await bed.create(pod)
    host = await bed.mirrored(name)
    await bed.bind(host)

    async def bound() -> bool:
        return bool(((await bed.virtual(name)) or {}).get("spec", {}).get("nodeName"))

    await until(bound, f"{name} bound in the plane")
    await kubelet_runs(bed, host)
    return await runs(bed, name)


async def runs(bed: SyncerBed, name: str) -> Obj:
    async def so() -> Obj | None:
        pod = await bed.virtual(name) or {}
        return pod if (pod.get("status") or {}).get("phase") == "Running" else None

    found: Obj = await until(so, f"{name} runs in the plane")
    return found


async def trace_of(collector: Receives, tenant: str, pod: Obj, *needed: str) -> dict[str, Got]:
    trace = trace_of_pod(tenant, pod["metadata"]["uid"])

    async def whole() -> dict[str, Got] | None:
        found = collector.of(trace)
        return found if found.keys() >= {"pod", *needed} else None

    got: dict[str, Got] = await until(whole, f"the spans {needed} of {pod['metadata']['name']}")
    return got


def in_order(spans: dict[str, Got]) -> list[str]:
    """The parts of a trace, which lie one after the other in their whole."""
    parts = {name: span for name, span in spans.items() if name != "pod"}
    whole = spans["pod"]
    assert whole.parent == b""
    assert {span.parent for span in parts.values()} == {whole.span}
    edge = whole.start
    for span in sorted(parts.values(), key=lambda span: (span.start, span.end)):
        assert edge - 1e-6 <= span.start <= span.end <= whole.end + 1e-6, span
    return [span.name for span in sorted(parts.values(), key=lambda span: (span.end, WAY.index(span.name)))]
