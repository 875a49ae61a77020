"""How planes' API servers do, from their own metrics, once a minute while this process leads.

    each plane that answers ──> /metrics, bounded and charged to its budget ──> a few sums ──> the controller's metrics

Of several members the one that the controller talks to is asked. A plane that does not answer has no latency, rather than an
old one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from bulkhead.work.clock import Clock
from bulkhead.work.supervise import apart
from controller import metrics
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from controller.inside.planemetrics import UnreadError, read_metrics
from controller.plane import apifigures
from controller.plane.apifigures import ApiFigures

_log = logging.getLogger(__name__)
LOOK_PERIOD_SECONDS: Final = 60.0
_LOOKS_AT_ONCE: Final = 4


class PlaneFigures:
    """The figures of all planes. `tenants` says which there are."""

    def __init__(self, planes: PlaneAccess, tenants: Callable[[], Iterable[str]], clock: Clock, budget: Budget) -> None:
        self._planes = planes
        self._tenants = tenants
        self._clock = clock
        self._budget = budget
        self._seen: dict[str, tuple[ApiFigures, ...]] = {}

    async def run(self) -> None:
        """Look at every plane again and again until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(LOOK_PERIOD_SECONDS)

    async def look(self) -> None:
        """Look at every plane once, a few at a time, and drop the figures of planes that are gone."""
        slots = asyncio.Semaphore(_LOOKS_AT_ONCE)
        there = set(self._tenants())
        for tenant in self._seen.keys() - there:
            del self._seen[tenant]
            metrics.forget(tenant)
        async with asyncio.TaskGroup() as group:
            for tenant in sorted(there):
                look = apart("the look at a plane's figures", partial(self._look, tenant, slots), tenant=tenant)
                group.create_task(look, name=f"figures of {tenant}")

    def pause(self) -> None:
        """Drop everything: only the leader reports planes."""
        self._seen.clear()

    async def _look(self, tenant: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            try:
                new = apifigures.read(await read_metrics(self._planes, self._budget, tenant), self._clock.monotonic())
            except UnreadError as error:
                _log.debug("no figures of the plane: %s", error, extra={"tenant": tenant})
                metrics.report_api(tenant, answers={}, seconds={}, inflight={})
                return
        if tenant not in self._tenants():
            return
        history = self._seen.get(tenant, ())
        # The first look has nothing to compare with: what was before it was counted by the leader before.
        answers = apifigures.answered(history[-1], new) if history else dict.fromkeys(apifigures.STATUSES, 0)
        self._seen[tenant] = history = apifigures.kept(history, new)
        seconds = {way: apifigures.slowest(history, way) for way in apifigures.WAYS}
        metrics.report_api(tenant, answers=answers, seconds=seconds, inflight=new.inflight)
