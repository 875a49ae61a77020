"""metrics.k8s.io of the tenant's plane, for `kubectl top` and autoscalers: what the host measured of the tenant's own pods.

The plane's API server asks here as it would ask a metrics-server, after it has authenticated and authorised its caller. The
host's own metrics API is asked for the tenant's namespace only, never for nodes, and at most once in five seconds however many
ask, also while it refuses. What is made of its answers takes turns (`turns`). Selectors are left to the plane's API server,
which knows them best. Where the host measures nothing, the answer says so, while discovery goes on: an API that is announced
and does not answer keeps namespaces from ending.

    plane's API server ──> question ──> virtual pods, host's PodMetrics ──translate──> list or object
    a Prometheus of the tenant ──> API server's proxy ──> page of a node ──> `exposition`
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from bulkhead.gpus.exposition import Sample as Figure
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta
from bulkhead.kube.errors import ApiError, KubeError
from bulkhead.kube.objects import Key, Resource, key_of, uid_of
from bulkhead.kube.resources import NODES, POD_METRICS, PODS
from bulkhead.work.clock import Clock
from bulkhead.work.seldom import NoAnswerError, Seldom
from syncer.http1 import BadRequestError
from syncer.kubelet import exposition
from syncer.kubelet.cpucount import CpuCount
from syncer.kubelet.exposition import NodePods, Page
from syncer.kubelet.metricsroutes import GROUP, GROUP_DOCUMENT, RESOURCE_DOCUMENT, Question
from syncer.kubelet.turns import Turns
from syncer.translate.kinds.podmetrics import API_VERSION, node_metrics, pod_metrics, working_sets

FRESH_SECONDS: Final = 5.0  # metrics-server itself measures every ten to sixty seconds
_DEADLINE: Final = 10.0
_LATER: Final = "metrics: the platform cannot read them now; try again"
# Lists of the plane at the same time, each of a page of names: callers with a selector wait for their turn.
MOST_SELECTIONS: Final = 4


async def _none(_: str) -> Sequence[Figure]:
    """Kubelets are not asked."""
    return ()


class PodMetrics:
    """Answers questions about what pods use."""

    def __init__(
        self,
        host: Client,
        plane: Client,
        namespace: str,
        clock: Clock,
        *,
        pods: Callable[[], Iterable[Obj]],
        host_name: Callable[[Key], str | None],
        figures: Callable[[str], Awaitable[Sequence[Figure]]] = _none,
        turns: Turns,
    ) -> None:
        """`pods`: all virtual pods; `host_name`: the name of a virtual pod's host pod, None where it has none.

        `figures`: network and disk of the tenant's pods on a virtual node.
        """
        self._host = host
        self._plane = plane
        self._namespace = namespace
        self._pods = pods
        self._host_name = host_name
        self._figures = figures
        self._turns = turns
        self._choosing = asyncio.Semaphore(MOST_SELECTIONS)
        self._measured = Seldom(self._ask, clock, seconds=FRESH_SECONDS)
        self._cpu = CpuCount()
        self._by_node: dict[str, NodePods] = {}

    async def answer(self, asked: Question) -> Obj:
        """The document to answer with, or BadRequestError."""
        if asked.about == "group":
            return GROUP_DOCUMENT
        if asked.about == "resources":
            return RESOURCE_DOCUMENT
        try:
            async with asyncio.timeout(_DEADLINE):
                found = await (self._of_pods(asked) if asked.about == "pods" else self._of_nodes(asked))
        except TimeoutError as error:
            raise BadRequestError(503, "metrics: no answer in time; try again") from error
        kind = "PodMetrics" if asked.about == "pods" else "NodeMetrics"
        if asked.name:
            if not found:
                raise BadRequestError(404, f'{asked.about}.{GROUP} "{asked.name}" not found')
            return {"kind": kind, "apiVersion": API_VERSION} | found[0]
        return {"kind": f"{kind}List", "apiVersion": API_VERSION, "metadata": {}, "items": found}

    async def page(self, about: Page, node: str) -> bytes:
        """A page of one virtual node in Prometheus' format, or BadRequestError."""
        figures: Sequence[Figure] = ()
        try:
            async with asyncio.timeout(_DEADLINE):
                if about != "probes":
                    await self._measure()
                if about == "cadvisor":
                    figures = await self._figures(node)
        except TimeoutError as error:
            raise BadRequestError(503, "metrics: no answer in time; try again") from error
        here = self._by_node.get(node, exposition.NO_PODS)
        return await self._turns.make(lambda: exposition.page(about, node, here, figures))

    async def _of_pods(self, asked: Question) -> list[Obj]:
        chosen = await self._selected(PODS, asked)
        measured = await self._measure()

        def own(pod: Obj) -> Obj | None:
            key = key_of(pod)
            if asked.namespace not in {"", key.namespace} or asked.name not in {"", key.name}:
                return None
            if chosen is not None and key not in chosen:
                return None
            sample = measured.get(self._host_name(key) or "")
            return pod_metrics(pod, sample) if sample is not None else None

        return await self._turns.make(lambda: [found for pod in self._pods() if (found := own(pod)) is not None])

    async def _of_nodes(self, asked: Question) -> list[Obj]:
        chosen = await self._selected(NODES, asked)
        measured = await self._measure()

        def listed() -> list[Obj]:
            by_node: dict[str, list[Obj]] = {}
            for pod in self._pods():
                node = placed_on(pod)
                own = measured.get(self._host_name(key_of(pod)) or "")
                if node and own is not None and asked.name in {"", node} and (chosen is None or Key("", node) in chosen):
                    by_node.setdefault(node, []).append(pod_metrics(pod, own))
            return [node_metrics(node, pods) for node, pods in sorted(by_node.items())]

        return await self._turns.make(listed)

    async def _selected(self, resource: Resource, asked: Question) -> set[Key] | None:
        """The keys that the selectors choose, by the plane's own judgement; None without selectors."""
        if not asked.label_selector and not asked.field_selector:
            return None
        found: set[Key] = set()
        try:
            async with self._choosing:
                pages = self._plane.pages(
                    resource,
                    asked.namespace or None,
                    label_selector=asked.label_selector or None,
                    field_selector=asked.field_selector or None,
                    metadata_only=True,
                )
                async with contextlib.aclosing(pages):
                    async for page in pages:
                        found.update(decode_meta(item).key for item in page.items)
        except ApiError as error:
            raise BadRequestError(400 if error.status == 400 else 503, error.message) from error
        except KubeError as error:
            raise BadRequestError(503, "metrics: this cluster's API did not answer") from error
        return found

    async def _measure(self) -> dict[str, Obj]:
        """The host's PodMetrics by host name, at most five seconds old, or BadRequestError."""
        try:
            return await self._measured.answer()
        except NoAnswerError as error:
            raise BadRequestError(503, str(error) or _LATER) from error

    async def _ask(self) -> dict[str, Obj]:
        try:
            listed = await self._host.list(POD_METRICS, self._namespace, label_selector=marks.MIRRORED)
        except ApiError as error:
            if error.status in {403, 404}:
                why = "metrics: the platform measures no pods; its admin can install metrics-server"
                raise NoAnswerError(why) from error
            raise NoAnswerError(_LATER) from error
        except KubeError as error:
            raise NoAnswerError(_LATER) from error
        measured = {str(obj["metadata"]["name"]): obj for obj in listed.items}
        self._count(measured)
        return measured

    def _count(self, measured: Mapping[str, Obj]) -> None:
        """Sort the new figures by node: one pass over all pods, however many nodes are scraped then."""
        own = [(pod, measured.get(self._host_name(key_of(pod)) or "")) for pod in self._pods() if placed_on(pod)]
        self._cpu.take((uid_of(pod), sample) for pod, sample in own if sample is not None)
        cpu, by_node = self._cpu.seconds, dict[str, NodePods]()
        for pod, sample in own:
            here = by_node.setdefault(placed_on(pod), NodePods())
            here.pods += 1
            if sample is not None:
                here.samples += exposition.samples_of(pod, cpu, working_sets(sample))
        self._by_node = by_node
