"""Scrapes each node once in a round, and keeps what belongs to each tenant until the next round.

A node whose exporter does not answer, answers too late or too much, shows nothing until it does: no value is ever repeated.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import aiohttp

from bulkhead.gpus import fields
from bulkhead.gpus.attribution import Attributed, Name, Node, Pod, State, attribute
from bulkhead.gpus.exposition import MAX_PAGE_BYTES, Page, Sample, parse, render
from bulkhead.gpus.fields import ABOUT, FIELDS
from bulkhead.work.clock import Clock
from gpumetrics import metrics
from gpumetrics.exporters import Exporter
from gpumetrics.pages import fetch
from gpumetrics.settings import Settings

_log = logging.getLogger(__name__)

# So long after a scrape the host's watch has shown what ended before it.
LAG_SECONDS: Final = 3.0
UID: Final = "uid"


class View(Protocol):
    """What is asked of the host."""

    @property
    def deaf(self) -> bool: ...  # noqa: D102
    def pods(self, node: str) -> Mapping[Name, Pod]: ...  # noqa: D102
    def node(self, name: str) -> Node: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class _Scraped:
    exporter: Exporter
    began: float
    before: Mapping[Name, Pod]
    page: Page


@dataclass(slots=True)
class Rounds:
    """The scraper. `boards` has each tenant's samples by its namespace of work."""

    settings: Settings
    view: View
    found: Callable[[], Mapping[str, Exporter]]
    clock: Clock
    lag_seconds: float = LAG_SECONDS
    boards: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    # By UID of pod: how many of its devices are measured, and the sum of their utilisation, each from 0 to 1.
    loads: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    ended_at: float | None = None
    _states: dict[str, State] = field(default_factory=dict)

    async def run(self) -> None:
        """Scrape until cancelled."""
        connector = aiohttp.TCPConnector(limit=self.settings.concurrency, force_close=True)
        async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
            while True:
                began = self.clock.monotonic()
                await self.turn(session)
                taken = self.clock.monotonic() - began
                metrics.round_seconds.set(taken)
                await self.clock.sleep(max(self.settings.interval_seconds - taken, 1.0))

    async def turn(self, session: aiohttp.ClientSession) -> None:
        """One round over all nodes."""
        exporters = self.found()
        gate = asyncio.Semaphore(self.settings.concurrency)
        scraped = await asyncio.gather(*(self._scrape(session, gate, exporter) for exporter in exporters.values()))
        await self.clock.sleep(self.lag_seconds)
        boards: dict[str, list[Sample]] = {}
        loads: dict[str, tuple[int, float]] = {}
        dropped: Counter[str] = Counter()
        if self.view.deaf:
            _log.warning("nothing is shown: the host's watch of pods is silent")
            scraped = []
        for one in scraped:
            if one is None:
                continue
            for kept in self._judge(one, dropped):
                boards.setdefault(kept.pod.namespace, []).append(_labelled(kept, one.exporter.node))
                if (busy := _busy(kept.sample)) is not None:
                    devices, before = loads.get(kept.uid, (0, 0.0))
                    loads[kept.uid] = (devices + 1, before + busy)
            await asyncio.sleep(0)
        self._states = {node: state for node, state in self._states.items() if node in exporters}
        self.boards = {namespace: tuple(samples) for namespace, samples in boards.items()}
        self.loads = loads
        self.ended_at = self.clock.monotonic()
        metrics.report(len(exporters), sum(one is not None for one in scraped), dropped)

    def _judge(self, one: _Scraped, dropped: Counter[str]) -> tuple[Attributed, ...]:
        node = one.exporter.node
        verdict = attribute(
            self._states.get(node, {}),
            one.page.samples,
            pods=(one.before, self.view.pods(node)),
            node=self.view.node(node),
            now=one.began,
            settle_seconds=self.settings.settle_seconds,
        )
        self._states[node] = verdict.state
        dropped.update({str(reason): number for reason, number in verdict.dropped.items()})
        dropped["unreadable"] += one.page.left_out
        return verdict.samples

    async def _scrape(self, session: aiohttp.ClientSession, gate: asyncio.Semaphore, exporter: Exporter) -> _Scraped | None:
        async with gate:
            before, began = self.view.pods(exporter.node), self.clock.monotonic()
            if not before and not self._states.get(exporter.node):
                # No tenant has a device there.
                return _Scraped(exporter, began, before, Page())
            try:
                async with asyncio.timeout(self.settings.deadline_seconds):
                    text = await fetch(session, exporter.url, MAX_PAGE_BYTES)
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                _log.warning("exporter of node %s: %s", exporter.node, str(error) or type(error).__name__)
                return None
        return _Scraped(exporter, began, before, parse(text, FIELDS))


def _busy(sample: Sample) -> float | None:
    """A device's utilisation, once for each device: of a MIG instance, which has none of its own, that of its engine."""
    if sample.name == fields.UTILISATION:
        return sample.value / 100
    return sample.value if sample.name == fields.ENGINE_ACTIVE and fields.INSTANCE in sample.labels else None


def _labelled(kept: Attributed, node: str) -> Sample:
    """A sample as a syncer gets it: in the host's names, which it replaces."""
    pod = {fields.HOSTNAME: node, fields.NAMESPACE: kept.pod.namespace, fields.POD: kept.pod.name, UID: kept.uid}
    container = {fields.CONTAINER: kept.container} if kept.container else {}
    return Sample(kept.sample.name, {**kept.sample.labels, **pod, **container}, kept.sample.value)


def page_of(samples: tuple[Sample, ...]) -> bytes:
    """A tenant's page for its syncer."""
    return render(samples, ABOUT)
