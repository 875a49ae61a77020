"""Reconciles the tenants in the queue, several at a time and with a backoff for each tenant, only while this process leads."""

import asyncio
import logging
from random import uniform

from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.clock import Clock
from bulkhead.work.queue import KeyedQueue, Lane
from controller import metrics
from controller.tenant.reconcile import ReconcileFailed, Reconciler

_log = logging.getLogger(__name__)
_DEADLINE = 90.0


class Workers:
    """The workers that take names from the queue."""

    def __init__(self, queue: KeyedQueue[str], reconciler: Reconciler, clock: Clock, *, count: int) -> None:
        self._queue = queue
        self._reconciler = reconciler
        self._clock = clock
        self._count = count
        self._backoff: PerKeyBackoff[str] = PerKeyBackoff(0.1, 30.0, jitter=0.5)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._work(), name=f"worker {number}")

    async def _work(self) -> None:
        while True:
            tenant = await self._queue.get()
            metrics.queue_depth.set(len(self._queue))
            started = self._clock.monotonic()
            try:
                await self._reconcile(tenant)
            finally:
                metrics.reconcile_took(self._clock.monotonic() - started)
                self._queue.done(tenant)

    async def _reconcile(self, tenant: str) -> None:
        try:
            async with asyncio.timeout(_DEADLINE):
                outcome = await self._reconciler.reconcile(tenant)
        except ReconcileFailed as error:
            self._retry(tenant, str(error))
        except Exception as error:  # noqa: BLE001 - logged with its trace; one tenant's fault must not stop the others
            _log.exception("reconcile ended in an error", extra={"tenant": tenant})
            self._retry(tenant, str(error))
        else:
            metrics.reconciled("ok")
            self._backoff.forget(tenant)
            if outcome.again is not None:
                lane = Lane.FRESH if outcome.again < 10 else Lane.BACKFILL
                self._queue.add_after(tenant, outcome.again * uniform(0.9, 1.1), lane)  # noqa: S311 - spreads load

    def _retry(self, tenant: str, why: str) -> None:
        metrics.reconciled("failed")
        delay = self._backoff.next(tenant)
        _log.warning("reconcile failed, retrying: %s", why, extra={"tenant": tenant, "retry_in": round(delay, 2)})
        self._queue.add_after(tenant, delay)
