"""Network and disk figures of the tenant's own pods, by virtual node, for its pages of cAdvisor.

They come from `gpumetrics`, the one program that may ask kubelets, and are asked for at most once in five seconds however many
scrape. Here is the second check: a figure is left out if its pod is not the tenant's, is another pod of that name by now, is on
another node, or does not have its container. While the source does not answer there are none, and the page has the rest.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from bulkhead import podfigures
from bulkhead.api.syncersettings import FIGURES_PATH
from bulkhead.gpus.exposition import MAX_TENANT_BYTES, MAX_TENANT_SAMPLES, Sample, parse
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.podfigures import FIGURES
from bulkhead.work.clock import Clock
from bulkhead.work.seldom import NoAnswerError, Seldom
from syncer.translate.gpusamples import Mirrored

_log = logging.getLogger(__name__)
_FRESH_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 5.0
_DEVICE: Final = "/dev/sd-all"


class NodeFigures:
    """Asks the source, and remembers for a moment."""

    def __init__(self, namespace: str, clock: Clock, *, find: Callable[[str], Mirrored | None]) -> None:
        """`find`: the pod that a host pod of `namespace` mirrors, by its name."""
        self._namespace = namespace
        self._find = find
        self._source: Client | None = None
        self._by_node = Seldom(self._ask, clock, seconds=_FRESH_SECONDS)

    async def ask_at(self, source: KubeConfig) -> None:
        """Ask there, until cancelled."""
        name = "bulkhead-syncer"
        async with Client(
            source, user_agent=name, field_manager=name, timeout=_ANSWER_SECONDS, max_body=MAX_TENANT_BYTES
        ) as client:
            self._source = client
            try:
                await asyncio.Event().wait()
            finally:
                self._source = None

    async def of(self, node: str) -> list[Sample]:
        """The figures of the tenant's pods on a virtual node, in the names of its plane."""
        if self._source is None:
            return []
        try:
            return (await self._by_node.answer()).get(node, [])
        except NoAnswerError:
            return []

    async def _ask(self) -> dict[str, list[Sample]]:
        try:
            if self._source is None:
                raise NoAnswerError("the platform asks no kubelets")
            text = await self._source.get_raw(FIGURES_PATH, timeout=_ANSWER_SECONDS)
        except (KubeError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            _log.warning("network and disk figures: %s", why)
            raise NoAnswerError(why) from error
        page = parse(text, FIGURES, max_bytes=MAX_TENANT_BYTES, max_samples=MAX_TENANT_SAMPLES)
        if page.left_out:
            _log.warning("network and disk figures: %d samples left out", page.left_out)
        by_node: dict[str, list[Sample]] = {}
        for on, sample in self._translated(page.samples):
            by_node.setdefault(on, []).append(sample)
        return by_node

    def _translated(self, samples: Iterable[Sample]) -> Iterator[tuple[str, Sample]]:
        for sample in samples:
            labels = sample.labels
            own = labels.get(podfigures.NAMESPACE) == self._namespace
            pod = self._find(labels.get(podfigures.POD, "")) if own else None
            if pod is None or not pod.uid or labels.get(podfigures.UID) != pod.uid or labels.get(podfigures.NODE) != pod.node:
                continue
            names = {podfigures.NAMESPACE: pod.namespace, podfigures.POD: pod.name}
            container, interface = labels.get(podfigures.CONTAINER, ""), labels.get(podfigures.INTERFACE, "")
            if interface and not container:
                yield pod.node, Sample(sample.name, {podfigures.INTERFACE: interface, **names}, sample.value)
            elif container in pod.containers:
                # Dashboards choose disks by the names of devices; the host's own are not shown.
                where = {podfigures.CONTAINER: container, "device": _DEVICE}
                yield pod.node, Sample(sample.name, where | names, sample.value)
