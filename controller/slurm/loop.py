"""The Slurm clusters of all tenants: a task for each, so that one whose slurmrestd is dead delays nobody.

    a tenant's pass orders a cluster ──> its task: pass, wait about three seconds, pass, … ──> what was found changes
                                                                                                        │
                                                              the tenant's name into the queue <────────┘

Each pass has a deadline of its own; after one that fails the next waits longer, up to a bound. The Tenant's status is written
by its own pass alone, from what is kept here; counts of jobs come into it no oftener than every few seconds.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from bulkhead.kube.errors import KubeError, ProtocolError, TooLarge
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock
from controller.inside.budget import Budget, Turn
from controller.inside.calls import Plane
from controller.slurm.cluster import Cluster, Order
from controller.slurm.decide import status
from controller.slurm.decide.status import Found

_log = logging.getLogger(__name__)
PERIOD_SECONDS = 3.0
PASS_SECONDS = 45.0
_COUNTS_SECONDS = 5.0
# What is read of all planes together, in the long run. A plane whose answers are large is asked less often.
_BYTES_A_SECOND = 16 * 1024 * 1024


@dataclass(slots=True)
class _Tended:
    """One tenant's cluster, what was last asked for and what was last found."""

    cluster: Cluster
    order: Order
    task: asyncio.Task[None] | None = None
    found: Found | None = None
    said: object = None
    said_counts: object = None
    said_at: float = 0.0
    answered: bool = False
    read: int = 0  # bytes of the plane's answers to the last pass


class SlurmLoops:
    """The tasks; close it at the end, and whenever the lease is lost."""

    def __init__(
        self,
        clock: Clock,
        plane: Callable[[Turn], Plane | None],
        quota: Callable[[str], int | None],
        on_change: Callable[[str], object],
        *,
        period: float = PERIOD_SECONDS,
        budget: Budget | None = None,
    ) -> None:
        self._clock = clock
        self._budget = budget or Budget()
        self._plane = plane
        self._quota = quota
        self._on_change = on_change
        self._period = period
        self._tended: dict[str, _Tended] = {}

    def tend(self, tenant: str, order: Order) -> Found | None:
        """Take over what is asked for; returns what the last pass found, None before the first."""
        held = self._tended.get(tenant)
        if held is None:
            held = self._tended[tenant] = _Tended(Cluster(tenant, self._clock, self._quota), order)
        held.order = order
        if held.task is None or held.task.done():
            held.task = asyncio.create_task(self._run(tenant, held), name=f"Slurm of {tenant}")
        return held.found

    def tends(self, tenant: str) -> bool:
        """Whether a tenant has a task."""
        return tenant in self._tended

    def removed(self, tenant: str) -> bool:
        """Whether a cluster that was switched off has been taken down to its volumes."""
        held = self._tended.get(tenant)
        return held is not None and held.cluster.removed

    async def forget(self, tenant: str) -> None:
        """Let go of a tenant."""
        held = self._tended.pop(tenant, None)
        if held is not None and held.task is not None:
            held.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([held.task])

    async def close(self) -> None:
        """Let go of every tenant."""
        await asyncio.gather(*(self.forget(tenant) for tenant in list(self._tended)))

    async def _run(self, tenant: str, held: _Tended) -> None:
        backoff = Backoff(self._period, 5 * self._period)
        while True:
            try:
                found = await self._pass(tenant, held)
            except Exception:  # noqa: BLE001 - logged with its trace; the next pass starts from what is there
                _log.exception("Slurm pass ended in an error", extra={"tenant": tenant})
                held.found = Found(trouble="the look at the cluster ended in an error, see the controller's log", unread=True)
                self._notice(tenant, held, held.found)
                await self._clock.sleep(max(backoff.next(), self._rest(held)))
                continue
            held.found = found
            self._notice(tenant, held, found)
            if found.plane_down or (found.counts is None and found.refused):
                await self._clock.sleep(max(backoff.next(), self._rest(held)))
                continue
            backoff.reset()
            held.answered = held.answered or found.counts is not None
            # A cluster that starts is looked at more often: somebody waits for it.
            await self._clock.sleep(max(self._period if held.answered else self._period / 3, self._rest(held)))

    def _rest(self, held: _Tended) -> float:
        """Seconds after which this plane has taken no more than its even share of what is read of all of them."""
        return held.read * len(self._tended) / _BYTES_A_SECOND

    async def _pass(self, tenant: str, held: _Tended) -> Found:
        turn = self._budget.turn(tenant, PASS_SECONDS)
        plane = self._plane(turn)
        held.read = 0
        if plane is None:
            return Found(trouble="the plane's API server does not answer", plane_down=True)
        try:
            async with turn:
                return await held.cluster.look(plane, held.order)
        except (KubeError, TimeoutError) as error:
            _log.warning("Slurm pass failed: %s", error or "took too long", extra={"tenant": tenant})
            unread = isinstance(error, TooLarge | ProtocolError)
            what = "what the plane answers is not read, and nothing is done in it" if unread else "the plane did not answer"
            trouble = f"{what}: {error or 'the pass took too long'}"[:500]
            return Found(trouble=trouble, plane_down=True, unread=unread)
        finally:
            held.read = turn.read

    def _notice(self, tenant: str, held: _Tended, found: Found) -> None:
        """Bring the tenant into the queue when there is something new to tell."""
        told = status.verdict(found, was=True, on=held.order.on)
        counted = found.counts if found.counts is not None else held.said_counts
        now = self._clock.monotonic()
        verdict = (told.status, told.reason, told.message, held.cluster.removed)
        due = counted != held.said_counts and now - held.said_at >= _COUNTS_SECONDS
        if verdict == held.said and not due:
            return
        held.said, held.said_counts, held.said_at = verdict, counted, now
        self._on_change(tenant)
