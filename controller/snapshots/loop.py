"""The tasks that take snapshots: one for each TenantSnapshot that is not finished, a few at once.

    order ──> wait for a place ──> take ──┬─> Stored
                                          └─> tried again, with pauses ──> Failed

An order replaces that of an earlier reconcile, so that the next attempt has present keys and addresses. After a restart the
controller takes unfinished snapshots again from the beginning: nothing of an attempt counts without its manifest. What a
reconcile has seen may be older than the end of a task, so a task begins with a look at the object itself: what is finished is
never taken again, and never becomes Failed.
"""

import asyncio
import logging
from dataclasses import replace
from datetime import datetime
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.signing import SignatureError
from bulkhead.snapshots.bundle import BundleError
from bulkhead.snapshots.frames import TornError
from bulkhead.snapshots.layout import LayoutError
from bulkhead.snapshots.sealing import SealError
from bulkhead.snapshots.target import TargetError
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock
from controller.snapshots import status
from controller.snapshots.places import Places
from controller.snapshots.spec import Order
from controller.snapshots.status import Progress
from controller.snapshots.take import Means, take

_log = logging.getLogger(__name__)
AT_ONCE: Final = 2
ATTEMPTS: Final = 6
_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 120.0
_REPORT_SECONDS: Final = 2.0


class SnapshotTasks:
    """The tasks of one controller; close it at the end, and whenever the lease is lost."""

    def __init__(self, client: Client, clock: Clock, places: Places) -> None:
        self._client = client
        self._clock = clock
        self._at = places
        self._places = asyncio.Semaphore(AT_ONCE)
        self._orders: dict[str, Order] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def order(self, order: Order) -> None:
        """Take this snapshot, unless that was ordered before."""
        self._orders[order.uid] = order
        task = self._tasks.get(order.uid)
        if task is None or task.done():
            self._tasks[order.uid] = asyncio.create_task(self._run(order.uid), name=f"snapshot {order.name}")

    async def end(self, uid: str) -> None:
        """End what is taken for one TenantSnapshot."""
        await self._end([uid])

    async def forget(self, tenant: str) -> None:
        """End what is taken of a tenant that is taken down."""
        await self._end([uid for uid, order in self._orders.items() if order.spec.tenant == tenant])

    async def close(self) -> None:
        """End all tasks."""
        await self._end(list(self._tasks))

    async def fail(self, request: Obj, why: str) -> None:
        """Report that a snapshot will not be taken, unless it is finished."""
        if await self._is_wanted(request):
            await self._report(request, status.failed(request, why, self._now()))

    async def _end(self, uids: list[str]) -> None:
        tasks = [task for uid in uids if (task := self._tasks.pop(uid, None)) is not None]
        for uid in uids:
            self._orders.pop(uid, None)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, uid: str) -> None:
        order = self._orders[uid]
        if await self._is_wanted(order.request):
            await self._take(uid, order)
        self._orders.pop(uid, None)
        self._tasks.pop(uid, None)

    async def _take(self, uid: str, order: Order) -> None:
        means = self._at.at(order.place)
        if means is None:
            await self.fail(order.request, f"{self._at.missing(order.place)}; then ask for another snapshot")
        else:
            if self._places.locked():
                words = f"{AT_ONCE} others are being taken"
                await self._report(order.request, status.waiting(order.request, words, self._now()))
            async with self._places:
                await self._attempts(uid, order.place, means)

    async def _is_wanted(self, request: Obj) -> bool:
        """Whether the object is there and not finished; False where the host does not say, until the next reconcile."""
        meta = request["metadata"]
        try:
            found = await self._client.get(kinds.TENANT_SNAPSHOTS, meta["name"])
        except NotFound:
            return False
        except KubeError as error:
            _log.warning("cannot read TenantSnapshot %s, so nothing is done about it: %s", meta["name"], error)
            return False
        there = found["metadata"]
        return there["uid"] == meta["uid"] and not there.get("deletionTimestamp") and not status.finished(found)

    async def _attempts(self, uid: str, place: str, means: Means) -> None:
        backoff = Backoff(_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        for attempt in range(1, ATTEMPTS + 1):
            order = self._orders[uid]
            try:
                await self._attempt(order, place, means, attempt)
            except (SealError, BundleError, LayoutError, SignatureError) as error:
                # None of these changes by itself.
                await self.fail(order.request, str(error))
            except Exception as error:  # noqa: BLE001 - a task that ended unseen would be begun again at once, for ever
                known = isinstance(error, KubeError | TornError | TargetError | TimeoutError)
                why = str(error) if known else f"{type(error).__name__}: {error}"
                _log.warning(
                    "snapshot %s: attempt %d failed: %s",
                    order.name,
                    attempt,
                    why,
                    extra={"tenant": order.spec.tenant},
                    exc_info=not known,
                )
                if attempt == ATTEMPTS:
                    await self.fail(order.request, f"{ATTEMPTS} attempts failed, the last one because: {why}")
                    return
                seconds = backoff.next()
                made = status.retrying(order.request, attempt, why, seconds, self._now())
                await self._report(order.request, made)
                await self._clock.sleep(seconds)
                continue
            return

    async def _attempt(self, order: Order, place: str, means: Means, attempt: int) -> None:
        # Where it is has to be known before anything is stored there: else nothing finds it to delete it.
        await self._report(
            order.request, status.running(order.request, Progress(attempt, place=place), self._now()), needed=True
        )
        reporting = _Reporting(self, order.request, Progress(attempt, place=place))
        watching = asyncio.create_task(reporting.run(), name=f"progress of snapshot {order.name}")
        try:
            made, location = await take(order, means, self._now(), reporting.note)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        await self._report(order.request, status.stored(order.request, made, location, self._now()), needed=True)
        _log.info("snapshot %s is stored at %s", order.name, location, extra={"tenant": order.spec.tenant})

    async def report(self, request: Obj, progress: Progress) -> None:
        """Report how far an attempt is."""
        await self._report(request, status.running(request, progress, self._now()))

    async def pause(self) -> None:
        """Between two reports."""
        await self._clock.sleep(_REPORT_SECONDS)

    async def _report(self, request: Obj, wanted: Obj, *, needed: bool = False) -> None:
        try:
            body = {"metadata": {"uid": request["metadata"]["uid"]}, "status": wanted}
            await self._client.patch(kinds.TENANT_SNAPSHOTS, request["metadata"]["name"], body, subresource="status")
        except NotFound:
            _log.info("TenantSnapshot %s is gone", request["metadata"]["name"])
        except KubeError as error:
            if needed:
                raise
            _log.warning("cannot report on a snapshot: %s", error)

    def _now(self) -> datetime:
        return self._clock.now()


class _Reporting:
    """Reports the progress of one attempt from time to time."""

    def __init__(self, tasks: SnapshotTasks, request: Obj, progress: Progress) -> None:
        self._tasks = tasks
        self._request = request
        self._progress = progress

    def note(self, store: int, stored: int) -> None:
        """An attempt came this far."""
        self._progress = replace(self._progress, store=store, stored=stored)

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._tasks.report(self._request, self._progress)
            await self._tasks.pause()
