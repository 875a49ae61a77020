"""Scrapes each node once in a round, and keeps what belongs to each tenant until the next round.

A node whose exporter does not answer, answers too late or too much, shows nothing until it does: no value is ever repeated.
"""

import asyncio
import logging
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import aiohttp

from bulkhead.gpus import fields
from bulkhead.gpus.attribution import Attributed, Name, Node, Pod, State, attribute
from bulkhead.gpus.exposition import MAX_PAGE_BYTES, MAX_TENANT_BYTES, MAX_VALUE_CHARACTERS, Page, Reader, Sample, line
from bulkhead.gpus.fields import FIELDS
from bulkhead.work.clock import Clock
from gpumetrics import metrics
from gpumetrics.exporters import Exporter
from gpumetrics.pages import fed
from gpumetrics.settings import Settings

_log = logging.getLogger(__name__)

# So long after a scrape the host's watch has shown what ended before it.
LAG_SECONDS: Final = 3.0
# Pages that wait for that: 5,000 nodes take as long as the usual interval, and the pages some 50 MiB.
_WAITING_PAGES: Final = 512
UID: Final = "uid"
_READ: Final = dict.fromkeys(fields.READ_LABELS, MAX_VALUE_CHARACTERS)
_FAST: Final = 1  # zlib's level: lines of a node take a fifteenth of their size, and a millisecond


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
class _Found:
    """What a round has found so far. Lines are kept compressed: a million samples would take a gigabyte otherwise."""

    boards: dict[str, list[bytes]] = field(default_factory=dict)
    loads: dict[str, tuple[int, float]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    answered: int = 0


@dataclass(slots=True)
class Rounds:
    """The scraper. `boards` has each tenant's lines by its namespace of work, compressed, for `page_of`."""

    settings: Settings
    view: View
    found: Callable[[], Mapping[str, Exporter]]
    clock: Clock
    lag_seconds: float = LAG_SECONDS
    boards: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
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
        """One round over all nodes. Each page is judged by itself and let go, so that few are in memory at once."""
        exporters, found = self.found(), _Found()
        gate, room = asyncio.Semaphore(self.settings.concurrency), asyncio.Semaphore(_WAITING_PAGES)

        async def look(exporter: Exporter) -> None:
            async with room:
                await self._look(session, gate, exporter, found)

        await asyncio.gather(*map(look, exporters.values()))
        if not exporters:
            await self.clock.sleep(self.lag_seconds)
        if self.view.deaf:
            _log.warning("nothing is shown: the host's watch of pods is silent")
            found.boards, found.loads = {}, {}
        self._states = {node: state for node, state in self._states.items() if node in exporters}
        self.boards, self.loads = found.boards, found.loads
        self.ended_at = self.clock.monotonic()
        metrics.report(len(exporters), found.answered, found.dropped)

    async def _look(self, session: aiohttp.ClientSession, gate: asyncio.Semaphore, exporter: Exporter, found: _Found) -> None:
        one = await self._scrape(session, gate, exporter)
        if one is None:
            return
        found.answered += 1
        await self.clock.sleep(self.lag_seconds)
        if self.view.deaf:
            return
        lines: dict[str, list[str]] = {}
        for kept in self._judge(one, found.dropped):
            lines.setdefault(kept.pod.namespace, []).append(line(_labelled(kept, exporter.node)))
            if (busy := _busy(kept.sample)) is not None:
                devices, before = found.loads.get(kept.uid, (0, 0.0))
                found.loads[kept.uid] = (devices + 1, before + busy)
        for namespace, own in lines.items():
            found.boards.setdefault(namespace, []).append(zlib.compress("".join(own).encode(), _FAST))
        await asyncio.sleep(0)

    def _judge(self, one: _Scraped, dropped: Counter[str]) -> tuple[Attributed, ...]:
        node, page = one.exporter.node, one.page
        verdict = attribute(
            self._states.get(node, {}),
            page.samples,
            unreadable=page.unreadable,
            pods=(one.before, self.view.pods(node)),
            node=self.view.node(node),
            now=one.began,
            settle_seconds=self.settings.settle_seconds,
        )
        self._states[node] = verdict.state
        dropped.update({str(reason): number for reason, number in verdict.dropped.items()})
        dropped["unreadable"] += page.left_out
        return verdict.samples

    async def _scrape(self, session: aiohttp.ClientSession, gate: asyncio.Semaphore, exporter: Exporter) -> _Scraped | None:
        async with gate:
            before, began = self.view.pods(exporter.node), self.clock.monotonic()
            if not before and not self._states.get(exporter.node):
                # No tenant has a device there.
                return _Scraped(exporter, began, before, Page())
            reader = Reader(FIELDS, read=_READ)
            try:
                async with asyncio.timeout(self.settings.deadline_seconds):
                    await fed(session, exporter.url, MAX_PAGE_BYTES, reader.feed)
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                _log.warning("exporter of node %s: %s", exporter.node, str(error) or type(error).__name__)
                return None
        return _Scraped(exporter, began, before, reader.page())


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


def page_of(board: Iterable[bytes]) -> bytes:
    """A tenant's page for its syncer, up to the bound that a syncer has. It knows types and texts of all metrics by itself."""
    page = bytearray()
    for part in board:
        page += zlib.decompress(part)
        if len(page) > MAX_TENANT_BYTES:
            break
    return bytes(page[:MAX_TENANT_BYTES])
