"""Meters how long pods and claims of all tenants hold devices, while its process leads.

    pods of tenants ──> Held, nothing else is kept ──┬─> Meter ── every minute ──> Page ──> open page on the host ──> counters
       ^         claims, if there may be any ────────┤     ^                                    │
       │         reservations of the ledger ─────────┘     │                                    │
       └── informer: deleted, ended, bound                 └─ counted up to the time in the page ┘

One write holds the sums and the time up to which they are counted, so a controller may die before or after it. The next one
continues from the host's objects, because each pod shows since when it holds devices, runs, or has ended. A minute in which no
pod or claim holds devices, and none are reserved, writes nothing. The reasons are in docs/decisions/0041-metering.md.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from bulkhead.api import labels
from bulkhead.api.quotalines import Line
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_obj
from bulkhead.kube.errors import KubeError
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Meta
from bulkhead.metering.held import Held, held_of
from bulkhead.metering.load import Accounts
from bulkhead.metering.meter import HOUR, Lines, Meter, Resting, Tally
from bulkhead.metering.steady import Steady
from bulkhead.metering.usagebook import Page
from bulkhead.work.clock import Clock, SystemClock
from controller.metering import metrics
from controller.metering.claims import Claims
from controller.metering.store import OvertakenError, UsageStore

_log = logging.getLogger(__name__)
COUNT_EVERY_SECONDS: Final = 60.0
# Only time that is this many milliseconds in the past is counted, because kubelets and watches are late.
_COUNT_BEHIND: Final = 10_000
# A watch without events for this long may have missed something. Servers send a bookmark about once a minute.
_SILENT_AFTER_SECONDS: Final = 180.0
_MOST_PENDING_TALLIES: Final = 100_000
_MIB: Final = 1024 * 1024


def of_pod(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """The part of a pod that is kept: the devices that it holds; empty if it never held any."""
    meta = meta or decode_meta(raw)
    bare = Meta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version)
    held = held_of(decode_obj(raw))
    return bare, b"" if held is None else msgspec.json.encode(held)


def _none_resting() -> tuple[tuple[str, str], ...]:
    return ()


def _no_load(_: Accounts) -> Iterable[Tally]:
    return ()


def _no_lines() -> Mapping[str, Mapping[str, Line]]:
    return {}


def _no_holders() -> Mapping[str, str]:
    return {}


class Usage:
    """Meters from when the process begins to lead until it loses the lease."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        resting: Callable[[], Resting] = _none_resting,
        lines: Callable[[], Lines] = _no_lines,
        reserved: Callable[[], Iterable[Tally]] = tuple,
        load: Callable[[Accounts], Iterable[Tally]] = _no_load,
        holders: Callable[[], Mapping[str, str]] = _no_holders,
        clock: Clock | None = None,
        every: float = COUNT_EVERY_SECONDS,
    ) -> None:
        self._clock = clock or SystemClock()
        self._resting = resting
        self._lines = lines
        self._reserved = reserved
        self._load = load
        # By tenant the UID of its work namespace: it is as old as the tenant, and a plane that is taken up again keeps it.
        self._holders = holders
        self._every = every
        self._store = UsageStore(client, namespace, secrets.token_hex(8))
        self._pods = Informer(
            client,
            kinds.PODS,
            label_selector=labels.MIRRORED,
            shrink=of_pod,
            on_change=self._heard,
            max_bytes=64 * _MIB,
        )
        self._claims = Claims(client, self._heard_claim, _SILENT_AFTER_SECONDS)
        # Whether the meter's view of claims is up to date.
        self._hears_claims = False
        self._steady = Steady(self._wall(), self._monotonic())
        self._meter: Meter | None = None
        self._page = Page(0, 0)
        # Tallies that are counted, but not known to be stored.
        self._pending: list[Tally] = []

    @property
    def page(self) -> Page:
        """The page that is counted on; number 0 before the first turn."""
        return self._page

    async def run(self) -> None:
        """Meter until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run(), name="usage: pods")
            await self._pods.synced()
            while True:
                lines = self._lines()
                await self._claims.look(group, lines)
                try:
                    more = await self._turn(lines)
                except OvertakenError as error:
                    _log.warning("%s", error)
                    self._meter = None
                    more = False
                except KubeError as error:
                    metrics.pages.labels("failed").inc()
                    _log.warning("usage not stored: %s", error)
                    more = False
                if not more:
                    await self._clock.sleep(self._every)

    async def _turn(self, lines: Lines) -> bool:
        """Count up to now, or to the end of the hour if that is earlier, and store it; whether there is more to count."""
        now = self._now()
        meter = self._meter or await self._begin(now)
        if self._pods.silence() > _SILENT_AFTER_SECONDS:
            _log.warning("usage not counted: the host's watch is silent")
            return False
        self._listen(meter)
        to = min(now - _COUNT_BEHIND, (meter.until // HOUR + 1) * HOUR)
        if to <= meter.until:
            return False
        # Before the count, which forgets pods that are gone.
        load = [*self._load(meter.account_of)]
        found = [*meter.count(to, self._resting(), lines), *self._reserved(), *load]
        holders = self._holders()
        for tally in found:
            self._page.add(tally, holders.get(tally.account.tenant, ""))
        self._pending = [*self._pending, *found][-_MOST_PENDING_TALLIES:]
        if found or self._pending:
            await self._write(to)
        await self._part(holders)
        return to < now - _COUNT_BEHIND

    async def _begin(self, now: int) -> Meter:
        """Continue from the pages on the host."""
        self._page = await self._store.open(now)
        self._pending = []
        await self._part(self._holders())
        meter = Meter(self._page.until)
        for pod in self._pods.store.objects():
            meter.see(msgspec.convert(pod, Held), listed=True)
        self._meter, self._hears_claims = meter, False
        return meter

    async def _part(self, holders: Mapping[str, str]) -> None:
        """Begin another page once a tenant of this one is followed by another of its name, which holds nothing yet."""
        if self._page.has_former(holders):
            self._page = await self._store.close(self._page, await self._store.save(self._page))

    def _listen(self, meter: Meter) -> None:
        """Stop counting claims while the host's watch of them is silent, and resume all of them once it works again."""
        hears = not self._claims.deaf
        if hears and not self._hears_claims:
            for claimed in self._claims.all():
                meter.see_claim(claimed, None)
        elif self._hears_claims and not hears:
            if self._claims.watched:
                _log.warning("claims for devices not counted: the host's watch of them is silent")
            meter.no_claims()
        self._hears_claims = hears

    async def _write(self, to: int) -> None:
        self._page.until = to
        stored = await self._store.save(self._page)
        metrics.pages.labels("ok").inc()
        metrics.report(self._pending)
        self._pending = []
        if self._page.is_full(len(stored)):
            self._page = await self._store.close(self._page, stored)
            await self._store.tidy(to)

    def _heard(self, change: Change) -> None:
        if self._meter is None:
            return
        if change.kind == "deleted":
            self._meter.gone(change.meta.uid, None if change.relist else self._now())
            return
        found = self._pods.store.get(change.key)
        if found is not None:
            self._meter.see(msgspec.convert(found, Held))

    def _heard_claim(self, change: Change) -> None:
        if self._meter is None or not self._hears_claims:
            # All claims are taken again in the turn in which the watch works again.
            return
        at = None if change.relist else self._now()
        claimed = None if change.kind == "deleted" else self._claims.of(change)
        if claimed is None:
            self._meter.claim_gone(change.meta.uid, at)
        else:
            self._meter.see_claim(claimed, at)

    def _now(self) -> int:
        return self._steady.now(self._wall(), self._monotonic())

    def _wall(self) -> int:
        return round(self._clock.now().timestamp() * 1000)

    def _monotonic(self) -> int:
        return round(self._clock.monotonic() * 1000)
