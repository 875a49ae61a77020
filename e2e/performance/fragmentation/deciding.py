"""The ledger's side: the core's decisions, either by themselves or on a real API server with a real kube-scheduler."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Admission, Node, Pod, Share, Snapshot, Stage, Tenant
from bulkhead.ledger.read import node_of, pod_of
from e2e.performance.fragmentation import trace
from e2e.performance.fragmentation.trace import Job


def tenant(gpus: int) -> Tenant:
    """One tenant with all quota: the only decision left is where and when."""
    return Tenant(trace.TENANT, shares={("", labels.GPU): Share(gpus)})


def seen(obj: Obj, arrived: float) -> Pod:
    """A host pod as the ledger reads it; its creation and its start are in virtual time."""
    found = pod_of(obj)
    assert found is not None, "no pod of a trace ends by itself"
    return started(replace(found, created=arrived))


def started(pod: Pod) -> Pod:
    """A pod that was bound as soon as it was admitted."""
    if pod.stage is not Stage.BOUND or pod.lasts is None or pod.admitted is None:
        return pod
    return replace(pod, ends_by=pod.admitted + pod.lasts)


def admissions(nodes: Sequence[Node], pods: Iterable[Pod], now: float) -> tuple[Admission, ...]:
    """What the core admits now."""
    gpus = sum(node.allocatable[labels.GPU] for node in nodes)
    snapshot = Snapshot({trace.TENANT: tenant(gpus)}, tuple(nodes), tuple(pods))
    return decide(snapshot, now).admit


class Alone:
    """Only the core: a pod that it admits runs at once on the node that it names."""

    def __init__(self, nodes: Iterable[Obj]) -> None:
        self._nodes = [node_of(node) for node in nodes]
        self._pods: dict[str, Pod] = {}

    async def begin(self, job: Job, now: float) -> None:
        for name in job.names:
            obj = trace.pod(job, name, gated=True)
            obj["metadata"]["uid"] = name
            self._pods[name] = seen(obj, now)

    async def end(self, job: Job) -> None:
        for name in job.names:
            del self._pods[name]

    async def settle(self, now: float) -> Mapping[str, str]:
        placed: dict[str, str] = {}
        while admitted := admissions(self._nodes, self._pods.values(), now):
            for item in admitted:
                self._pods[item.pod.name] = started(replace(item.pod, stage=Stage.BOUND, node=item.node, admitted=now))
                placed[item.pod.name] = item.node
        return placed
