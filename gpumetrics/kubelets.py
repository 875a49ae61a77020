"""Scrapes the kubelet of each node that has pods of tenants, and keeps their network and disk figures until the next round.

    node with tenants' pods ──TLS, this program's token──> its kubelet ──> page ──figures──> by namespace of work

A kubelet's certificate must be of the cluster's CA, unless an admin has set otherwise: the token goes to whatever answers at
the address that the node itself has reported. A node that does not answer shows nothing; no value is ever repeated.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import aiohttp

from bulkhead import podfigures
from bulkhead.gpus.attribution import Name
from bulkhead.gpus.exposition import MAX_TENANT_BYTES, line
from bulkhead.kube.kubeconfig import Authorization, KubeConfig
from bulkhead.podfigures import figures
from bulkhead.work.clock import Clock
from gpumetrics import metrics
from gpumetrics.pages import fed
from gpumetrics.settings import Settings

_log = logging.getLogger(__name__)
# So long after the last page the host's watch has shown which pods ended before it.
LAG_SECONDS: Final = 3.0
# A page of a kubelet has some 2 MiB, of which a tenth is kept: so many are read at once.
_AT_ONCE: Final = 16
_DEADLINE_SECONDS: Final = 10.0


class View(Protocol):
    """What is asked of the host."""

    @property
    def deaf(self) -> bool: ...  # noqa: D102
    def occupied(self) -> Sequence[str]: ...  # noqa: D102
    def uids(self, node: str) -> Mapping[Name, str]: ...  # noqa: D102
    def kubelet(self, node: str) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class _Scraped:
    """What a page gave: for each pod its UID and its lines, which take a quarter of the memory of samples."""

    pods: Mapping[Name, tuple[str, str]]
    left_out: int


@dataclass(slots=True)
class Kubelets:
    """The scraper. `boards` has each tenant's lines by its namespace of work."""

    settings: Settings
    view: View
    config: KubeConfig
    clock: Clock
    lag_seconds: float = LAG_SECONDS
    boards: Mapping[str, bytes] = field(default_factory=dict)
    ended_at: float | None = None

    async def run(self) -> None:
        """Scrape until cancelled."""
        # Each page is on a connection of its own: a thousand kept ones would cost more than they save.
        connector = aiohttp.TCPConnector(limit=_AT_ONCE, force_close=True, ssl=self._tls())
        async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
            while True:
                began = self.clock.monotonic()
                await self.turn(session)
                taken = self.clock.monotonic() - began
                metrics.kubelet_round_seconds.set(taken)
                await self.clock.sleep(max(self.settings.kubelet_interval_seconds - taken, 1.0))

    async def turn(self, session: aiohttp.ClientSession) -> None:
        """One round over all nodes with pods of tenants."""
        nodes = self.view.occupied()
        gate, header = asyncio.Semaphore(_AT_ONCE), Authorization(self.config).header()
        scraped = await asyncio.gather(*(self._scrape(session, gate, node, header) for node in nodes))
        await self.clock.sleep(self.lag_seconds)
        boards: dict[str, list[str]] = {}
        if self.view.deaf:
            _log.warning("nothing is shown: the host's watch of pods is silent")
        else:
            for node, page in zip(nodes, scraped, strict=True):
                self._file(node, page, boards)
        self.boards = {namespace: "".join(lines).encode()[:MAX_TENANT_BYTES] for namespace, lines in boards.items()}
        self.ended_at = self.clock.monotonic()
        metrics.report_kubelets(
            len(nodes), sum(page is not None for page in scraped), sum(page.left_out for page in scraped if page is not None)
        )

    def _file(self, node: str, page: _Scraped | None, boards: dict[str, list[str]]) -> None:
        """Keep the lines of pods that are still there, and are still the same."""
        after = self.view.uids(node)
        for pod, (uid, lines) in page.pods.items() if page is not None else ():
            if after.get(pod) == uid:
                boards.setdefault(pod.namespace, []).append(lines)

    async def _scrape(
        self, session: aiohttp.ClientSession, gate: asyncio.Semaphore, node: str, header: str | None
    ) -> _Scraped | None:
        async with gate:
            pods, url = self.view.uids(node), self.view.kubelet(node)
            if not url:
                return None
            kept = podfigures.Kept()
            try:
                async with asyncio.timeout(_DEADLINE_SECONDS):
                    asked = {"Authorization": header} if header else {}
                    await fed(session, url, podfigures.MAX_PAGE_BYTES, kept.feed, asked)
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                _log.warning("kubelet of node %s: %s", node, str(error) or type(error).__name__)
                return None
            return await asyncio.to_thread(_read, kept.page(), node, pods)

    def _tls(self) -> ssl.SSLContext:
        context = KubeConfig(
            server="https://kubelet", ca=self.config.ca, client_cert=self.config.client_cert, client_key=self.config.client_key
        ).ssl_context()
        assert context is not None  # noqa: S101 -- the server above is https
        if not self.settings.verify_kubelets:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _read(page: bytes, node: str, pods: Mapping[Name, str]) -> _Scraped:
    found = figures(page, node, pods)
    lines = {pod: (pods[pod], "".join(line(sample) for sample in samples)) for pod, samples in found.by_pod.items()}
    return _Scraped(lines, found.left_out)
