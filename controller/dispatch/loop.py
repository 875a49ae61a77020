"""Runs the ledger while its process leads: one turn after another, never two at once.

    needed? ──> watch ──> a change, or something is due ──> doubtful pods are read again ────> decide, in a thread
                  ^                                                                              │
                  └─ a pause <── statuses <── standings <── verdicts <── admissions <── reclaims ┘

When the process loses the lease, the ledger is cancelled, and with it every write that has not been sent. Each write checks the
lease first. The next leader sees the writes that were sent, as it sees those of a leader that died.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from bulkhead.api.ledger import Place
from bulkhead.api.quotalines import ReservedRoom
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Decisions, Snapshot
from bulkhead.ledger.waiting import places
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock, SystemClock
from controller.dispatch import metrics
from controller.dispatch.admissions import Admissions, Traced, trace_none
from controller.dispatch.answers import Standings, Verdicts
from controller.dispatch.apply import Writes
from controller.dispatch.avoid import Avoided
from controller.dispatch.cohorts import Statuses
from controller.dispatch.keeps import Keeps
from controller.dispatch.moves import Moves
from controller.dispatch.observe import Need, Observed
from controller.dispatch.reclaims import Reclaims
from controller.slurm.board import Board

Decide: TypeAlias = Callable[[Snapshot, float], Decisions]
# Called after each decision with the free devices that it reserves, and with none once no more decisions are made.
Reserved: TypeAlias = Callable[[Sequence[ReservedRoom]], None]
_log = logging.getLogger(__name__)
# Changes are collected for this long, because pods of a gang come one after another.
_PAUSE_SECONDS: Final = 0.1
# The longest pause after a turn without admissions and reclaims. Up to it the pause is as long as the decision took, so that
# decisions take at most half of a processor.
_LONGEST_PAUSE_SECONDS: Final = 0.3
# The order of the queue is worked out a second time for what tenants see of it, and not in every turn.
_PLACES_SECONDS: Final = 2.0
# A turn follows after this time even without a change, to correct annotations that another writer has changed.
_NEXT_TURN_WITHIN_SECONDS: Final = 30.0
# How often a ledger at rest looks for what waits for it. A syncer gives the gate by the settings that it has: those of a tenant
# that is held or paused stay, and others change a moment after the Tenant.
_LOOK_EVERY_SECONDS: Final = 60.0


def _tell_none(_: Sequence[ReservedRoom]) -> None:
    """Nothing meters what is reserved."""


class Ledger:
    """Runs the ledger from when its process begins to lead until it loses the lease."""

    def __init__(
        self,
        client: Client,
        leads: Callable[[], bool],
        clock: Clock | None = None,
        decide: Decide = decide,
        *,
        board: Board | None = None,
        reserved: Reserved = _tell_none,
        traced: Traced = trace_none,
    ) -> None:
        self._client = client
        self._traced = traced
        self._reserved = reserved
        self._leads = leads
        self._board = board or Board()
        self._decide = decide
        self._clock = clock or SystemClock()
        self._news = asyncio.Event()
        self._memory = Avoided(), Moves(), Keeps()
        self._statuses = Statuses(client, leads, self._clock)
        # Whether no tenant needs the ledger, so that it watches no pods.
        self.resting = False

    async def run(self) -> None:
        """Decide while any tenant needs it, until cancelled."""
        need = Need(self._client, self._news.set)
        async with asyncio.TaskGroup() as group:
            for informer in need.informers:
                group.create_task(informer.run(), name=f"ledger: {informer.resource}")
            for informer in need.informers:
                await informer.synced()
            look_at = self._clock.monotonic()
            while True:
                self._news.clear()
                left = False
                if not need.is_declared() and self._clock.monotonic() >= look_at:
                    left = await self._any_left(need)
                    look_at = self._clock.monotonic() + _LOOK_EVERY_SECONDS
                if left or need.is_declared():
                    await self._watch(need)
                else:
                    await self._rest(need, look_at - self._clock.monotonic())

    async def _rest(self, need: Need, at_most: float) -> None:
        """Wait for a change while no tenant is in a cohort, and keep the statuses of Cohorts up to date."""
        self.resting = True
        due = await self._statuses.without_tenants(need.cohorts.by_name())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most if due is None else min(due, at_most)):
                await self._news.wait()
        self.resting = False

    async def _any_left(self, need: Need) -> bool:
        """Whether pods wait for the ledger, or quotas have its notes, although no Tenant and no class needs it."""
        backoff = Backoff(1.0, 30.0)
        while not need.is_declared():
            try:
                return await need.any_left()
            except KubeError as error:
                _log.warning("pods and quotas not listed: %s", error)
                await self._clock.sleep(backoff.next())
        return False

    async def _watch(self, need: Need) -> None:
        """Take turns for as long as any tenant needs them."""
        observed = Observed(self._client, self._clock, self._news.set, self._board, need)
        turns = Turns(
            self._client,
            self._leads,
            self._decide,
            self._clock,
            observed=observed,
            memory=self._memory,
            statuses=self._statuses,
            reserved=self._reserved,
            traced=self._traced,
        )
        _log.info("ledger: watching")
        try:
            await self._watching(need, turns)
        except BaseException:
            self._board.silent()
            raise
        finally:
            # Reservations end without a turn that confirms them.
            self._reserved(())

    async def _watching(self, need: Need, turns: "Turns") -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(informer.run(), name=f"ledger: {informer.resource}") for informer in turns.observed.informers
            ]
            for informer in turns.observed.informers:
                await informer.synced()
            while need.is_declared() or turns.observed.pods.any_open():
                self._news.clear()
                due = await turns.take()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(due):
                        await self._news.wait()
                await self._clock.sleep(turns.pause)
            await turns.stand_down()
            for task in tasks:
                task.cancel()
        # No pod is reclaimed any longer.
        self._board.show(())
        metrics.stand_down()
        _log.info("ledger: no longer needed")


class Turns:
    """Observes, decides, writes."""

    def __init__(
        self,
        client: Client,
        leads: Callable[[], bool],
        decide: Decide,
        clock: Clock,
        *,
        observed: Observed,
        memory: tuple[Avoided, Moves, Keeps],
        statuses: Statuses,
        reserved: Reserved = _tell_none,
        traced: Traced = trace_none,
    ) -> None:
        self._decide = decide
        self._reserved = reserved
        self.observed = observed
        self._statuses = statuses
        pods = observed.pods
        self.pause = _PAUSE_SECONDS
        self._clock = clock
        self._avoided, self._moves, self._keeps = memory
        self._backoff = Backoff(0.2, 10.0)
        self._writes = Writes(client, pods, clock, leads)
        self._reclaims = Reclaims(self._writes, pods, self._avoided, self._moves, clock)
        self._admissions = Admissions(self._writes, pods, self._moves, clock, traced)
        self._verdicts = Verdicts(self._writes, pods, clock)
        self._standings = Standings(client, self._writes, clock)
        self._places: Mapping[str, Mapping[str, Place]] = {}
        self._places_at = float("-inf")

    async def take(self) -> float:
        """One turn; returns after how many seconds the next is due, whatever changes."""
        with metrics.turn_seconds.time():
            self._writes.away = self._standings.away = 0
            await self._writes.read_again()
            now = self._now()
            snapshot = self.observed.snapshot(self._avoided, self._moves, self._keeps, now)
            begun = self._clock.monotonic()
            decisions = await asyncio.to_thread(self._decide, snapshot, now)
            took = self._clock.monotonic() - begun
            metrics.decide_seconds.observe(took)
            self._keeps.note(decisions.keeps, decisions.verdicts, now)
            self._reserved(decisions.reserved)
            self.pause = (
                _PAUSE_SECONDS
                if decisions.admit or decisions.reclaim
                else min(max(_PAUSE_SECONDS, took), _LONGEST_PAUSE_SECONDS)
            )
            due = await self._carry_out(snapshot, decisions)
            self.observed.workers.tell()
            self._report(decisions, snapshot, now)
        if not self._writes.away + self._standings.away:
            self._backoff.reset()
            return due
        # Pods change all the time. That alone must not cause new requests to a host that has just not answered.
        await self._clock.sleep(self._backoff.next())
        return 0.0

    async def stand_down(self) -> None:
        """Remove the notes that hold only while turns are taken: what tenants have, and which pods run over their quota."""
        await self._verdicts.stand_down()
        await self._standings.stand_down(self.observed.quotas().values())

    async def _carry_out(self, snapshot: Snapshot, decisions: Decisions) -> float:
        reclaim_at = await self._reclaims.carry_out(decisions.reclaim, decisions.spare)
        if decisions.admit:
            await self._admissions.carry_out(decisions.admit, self.observed.nodes())
        seconds = [
            await self._place(snapshot, decisions),
            await self._verdicts.carry_out(decisions.verdicts, decisions.notices),
            await self._standings.carry_out(decisions.standings, self.observed.quotas(), self.observed.rules(), self._places),
            self._writes.due(),
            await self._statuses.carry_out(snapshot, decisions, self.observed.cohorts()),
        ]
        now = self._now()
        seconds += [at - now for at in (reclaim_at, decisions.next_at) if at is not None]
        return max(0.0, min((wait for wait in seconds if wait is not None), default=_NEXT_TURN_WITHIN_SECONDS))

    async def _place(self, snapshot: Snapshot, decisions: Decisions) -> float | None:
        """Note the places of waiting pods, now and then; returns in how many seconds that is due again."""
        wait = self._places_at - self._clock.monotonic()
        if wait > 0:
            return wait if decisions.verdicts or any(self._places.values()) else None
        self._places = await asyncio.to_thread(places, snapshot, decisions)
        self._places_at = self._clock.monotonic() + _PLACES_SECONDS
        return None

    def _report(self, decisions: Decisions, snapshot: Snapshot, now: float) -> None:
        waits: dict[str, list[float]] = {}
        for pod in snapshot.pods:
            if pod.uid in decisions.verdicts:
                waits.setdefault(pod.tenant, []).append(now - pod.created)
        metrics.pods.set(len(self.observed.pods))
        metrics.report_waits(waits)
        metrics.keep(snapshot.tenants.keys())
        metrics.report_waiting(decisions.verdicts.values())
        metrics.report_standings(decisions.standings)

    def _now(self) -> float:
        return self._clock.now().timestamp()
