"""The Slurm clusters of all tenants: a task for each, so that a slurmrestd that does not answer delays no other tenant.

    a Tenant's reconcile orders a cluster ──> its task: reconcile, wait about three seconds, reconcile, …
                                                                    │ what was found has changed
                                       the tenant's key into the queue <──┘

Each reconcile has a deadline of its own; after one that fails the next waits longer, up to a bound. What the ledger takes back
ends the wait. The Tenant's status is written by the Tenant's own reconcile alone, from what is kept here; counts of jobs reach
it every few seconds at most.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bulkhead.kube.errors import KubeError, ProtocolError, TooLarge
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock
from bulkhead.work.supervise import ended
from controller.inside.budget import Budget, Turn
from controller.inside.calls import Plane
from controller.slurm.board import Board
from controller.slurm.cluster import Cluster, Order
from controller.slurm.decide import status
from controller.slurm.decide.status import Found
from controller.slurm.lease.fleet import Free
from controller.slurm.spec import LeaseSpec

_log = logging.getLogger(__name__)
RECONCILE_PERIOD_SECONDS = 3.0
RECONCILE_DEADLINE_SECONDS = 45.0
_COUNTS_PERIOD_SECONDS = 5.0
# What is read of all planes together, in the long run. A plane whose answers are large is asked less often.
_BYTES_A_SECOND = 16 * 1024 * 1024


@dataclass(slots=True)
class _Entry:
    """One tenant's cluster: what was ordered, found and reported last."""

    cluster: Cluster
    order: Order
    task: asyncio.Task[None] | None = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    found: Found | None = None
    reported: object = None
    reported_counts: object = None
    reported_at: float = 0.0
    answered: bool = False
    read: int = 0  # bytes of the plane's answers in the last reconcile


class SlurmLoops:
    """The tasks; close it at the end, and whenever the lease is lost."""

    def __init__(
        self,
        clock: Clock,
        plane: Callable[[Turn], Plane | None],
        quota: Callable[[str], Mapping[str, Free]],
        on_change: Callable[[str], object],
        *,
        board: Board | None = None,
        period: float = RECONCILE_PERIOD_SECONDS,
        budget: Budget | None = None,
    ) -> None:
        self._clock = clock
        self._board = board or Board()
        self._board.listen(self.wake)
        self._budget = budget or Budget()
        self._plane = plane
        self._quota = quota
        self._on_change = on_change
        self._period = period
        self._entries: dict[str, _Entry] = {}

    def order(self, tenant: str, order: Order) -> Found | None:
        """Have a tenant's cluster as ordered; returns what the last reconcile found, None before the first."""
        entry = self._entries.get(tenant)
        if entry is None:
            entry = self._entries[tenant] = _Entry(Cluster(tenant, self._clock, self._quota, self._board), order)
        entry.order = order
        if entry.task is None or entry.task.done():
            entry.task = asyncio.create_task(self._run(tenant, entry), name=f"Slurm of {tenant}")
        return entry.found

    def wake(self, tenant: str) -> None:
        """Have a tenant's cluster reconciled now."""
        entry = self._entries.get(tenant)
        if entry is not None:
            entry.woken.set()

    def last_order(self, tenant: str) -> Order | None:
        """The last order of a tenant's cluster; None if it has no task."""
        entry = self._entries.get(tenant)
        return entry.order if entry is not None else None

    def lease(self, tenant: str) -> LeaseSpec:
        """How patient a tenant's cluster is with workers that have to go, as ordered last; the usual if it has no task."""
        entry = self._entries.get(tenant)
        return entry.order.spec.lease if entry is not None else LeaseSpec()

    def spread(self, tenant: str) -> Mapping[str, datetime]:
        """Since when a tenant's plane has had each key of its cluster, as far as this process has put it there.

        Keys of auth/slurm have their ids, keys that sign ssh certificates are public keys.
        """
        entry = self._entries.get(tenant)
        return entry.cluster.spread if entry is not None else {}

    def runs(self, tenant: str) -> bool:
        """Whether a tenant has a task."""
        return tenant in self._entries

    def resting(self) -> set[tuple[str, str]]:
        """Workers without a job, as far as is known: tenant and UID in its plane."""
        found = ((tenant, entry.found) for tenant, entry in self._entries.items() if entry.found is not None)
        return {(tenant, uid) for tenant, entry in found for uid in entry.resting}

    def removed(self, tenant: str) -> bool:
        """Whether a cluster that was switched off has been taken down to its volumes."""
        entry = self._entries.get(tenant)
        return entry is not None and entry.cluster.removed

    async def forget(self, tenant: str) -> None:
        """End a tenant's task."""
        entry = self._entries.pop(tenant, None)
        if entry is not None:
            await ended(entry.task)
            self._board.forget(tenant)

    async def close(self) -> None:
        """End every task."""
        await asyncio.gather(*(self.forget(tenant) for tenant in list(self._entries)))

    async def _run(self, tenant: str, entry: _Entry) -> None:
        backoff = Backoff(self._period, 5 * self._period)
        while True:
            try:
                found = await self._reconcile(tenant, entry)
            except Exception:  # noqa: BLE001 - logged with its trace; the next reconcile starts from what is there
                _log.exception("Slurm reconcile ended in an error", extra={"tenant": tenant})
                entry.found = Found(trouble="the controller failed to reconcile the cluster: see its log", unread=True)
                self._notice(tenant, entry, entry.found)
                await self._pause(entry, max(backoff.next(), self._rest(entry)))
                continue
            entry.found = found
            self._notice(tenant, entry, found)
            if found.plane_down or (found.counts is None and found.refused):
                await self._pause(entry, max(backoff.next(), self._rest(entry)))
                continue
            backoff.reset()
            entry.answered = entry.answered or found.counts is not None or found.unasked
            # A cluster that starts is reconciled more often: its user waits for it.
            await self._pause(entry, max(self._period if entry.answered else self._period / 3, self._rest(entry)))

    async def _pause(self, entry: _Entry, seconds: float) -> None:
        """Wait, unless something is to be done at once."""
        waits = [asyncio.ensure_future(event) for event in (self._clock.sleep(seconds), entry.woken.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for event in waits:
                event.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        entry.woken.clear()

    def _rest(self, entry: _Entry) -> float:
        """Seconds after which this plane has taken no more than its even share of what is read of all of them."""
        return entry.read * len(self._entries) / _BYTES_A_SECOND

    async def _reconcile(self, tenant: str, entry: _Entry) -> Found:
        turn = self._budget.turn(tenant, RECONCILE_DEADLINE_SECONDS)
        plane = self._plane(turn)
        entry.read = 0
        if plane is None:
            return Found(trouble="the plane's API server does not answer", plane_down=True)
        try:
            async with turn:
                return await entry.cluster.reconcile(plane, entry.order)
        except (KubeError, TimeoutError) as error:
            _log.warning("Slurm reconcile failed: %s", error or "took too long", extra={"tenant": tenant})
            unread = isinstance(error, TooLarge | ProtocolError)
            what = "the plane's answer cannot be read, and nothing is done in it" if unread else "the plane did not answer"
            trouble = f"{what}: {error or 'the reconcile took too long'}"[:500]
            return Found(trouble=trouble, plane_down=True, unread=unread)
        finally:
            entry.read = turn.read

    def _notice(self, tenant: str, entry: _Entry, found: Found) -> None:
        """Put the tenant's key into the queue when there is something new to report."""
        verdict = status.verdict(found, was=True, on=entry.order.on)
        counts = found.counts if found.counts is not None else entry.reported_counts
        now = self._clock.monotonic()
        new = (verdict.status, verdict.reason, verdict.message, entry.cluster.removed)
        due = counts != entry.reported_counts and now - entry.reported_at >= _COUNTS_PERIOD_SECONDS
        if new == entry.reported and not due:
            return
        entry.reported, entry.reported_counts, entry.reported_at = new, counts, now
        self._on_change(tenant)
