"""The tasks that take snapshots: one for each TenantSnapshot that is not finished, a few at once.

    order ──> wait for a place ──> take ──┬─> whole ──────────────────────┬─> its report, tried until the host takes it
                                          └─> tried again, with pauses ───┘   ──> Stored or Failed

An order replaces that of an earlier reconcile, so that the next attempt has present keys and addresses. After a restart the
controller takes unfinished snapshots again from the beginning: nothing of an attempt counts without its manifest. What a
reconcile has seen may be older than the end of a task, so each report and each attempt begins with a look at the object
itself (`controller.snapshots.reports`): what is finished is never taken again, and never becomes Failed. If the host does not
take the report of an end, that report alone is repeated, by this task and then by whatever reconcile comes next; a controller
that did not see that end finds what is stored (`controller.snapshots.already`).
"""

import asyncio
import logging
from dataclasses import replace
from datetime import datetime
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.signing import SignatureError
from bulkhead.snapshots.bundle import BundleError
from bulkhead.snapshots.frames import TornError
from bulkhead.snapshots.layout import LayoutError
from bulkhead.snapshots.sealing import SealError
from bulkhead.snapshots.target import TargetError
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered
from controller.snapshots import status
from controller.snapshots.already import NameTakenError
from controller.snapshots.places import Places
from controller.snapshots.reports import Report, Reports
from controller.snapshots.source import NoMemberError
from controller.snapshots.spec import Order
from controller.snapshots.status import Progress
from controller.snapshots.take import Means, take

_log = logging.getLogger(__name__)
AT_ONCE: Final = 2
ATTEMPTS: Final = 6
_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 120.0
_REPORT_SECONDS: Final = 2.0
_MOST_ENDS: Final = 1000


class SnapshotTasks:
    """The tasks of one controller; close it at the end, and whenever the lease is lost."""

    def __init__(self, client: Client, clock: Clock, places: Places) -> None:
        self._clock = clock
        self._at = places
        self._reports = Reports(client, clock)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._orders: dict[str, Order] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # How those ended that are whole or were given up, by UID, until the host has taken the report.
        self._ends: Remembered[str, Report] = Remembered(_MOST_ENDS)

    def order(self, order: Order) -> None:
        """Take this snapshot, unless that was ordered before."""
        self._orders[order.uid] = order
        task = self._tasks.get(order.uid)
        if task is None or task.done():
            self._tasks[order.uid] = asyncio.create_task(self._run(order.uid), name=f"snapshot {order.name}")

    async def end(self, uid: str) -> None:
        """End what is taken for one TenantSnapshot."""
        await self._end([uid])
        self._ends.pop(uid, None)

    async def forget(self, tenant: str) -> None:
        """End what is taken of a tenant that is taken down."""
        await self._end([uid for uid, order in self._orders.items() if order.spec.tenant == tenant])

    async def close(self) -> None:
        """End all tasks."""
        await self._end(list(self._tasks))
        self._ends.clear()

    async def fail(self, request: Obj, why: str) -> None:
        """Report that a snapshot will not be taken, unless it has ended otherwise. Raises KubeError if that is not certain."""
        uid = str(request["metadata"]["uid"])
        await self._reports.write(request, self._ends.get(uid) or self._failed(why))
        self._ends.pop(uid, None)

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
        try:
            if uid not in self._ends:
                await self._take(uid, order)
            if uid in self._ends:
                await self._reports.insist(order.request, self._ends[uid])
                self._ends.pop(uid, None)
        except (KubeError, TimeoutError) as error:
            # The next reconcile orders it again.
            _log.error("snapshot %s: the host does not take the report of its end: %s", order.name, error)
        self._orders.pop(uid, None)
        self._tasks.pop(uid, None)

    async def _take(self, uid: str, order: Order) -> None:
        means = self._at.at(order.place)
        if means is None:
            self._ends[uid] = self._failed(f"{self._at.missing(order.place)}; then ask for another snapshot")
        else:
            if self._places.locked():
                words = f"{AT_ONCE} others are being taken"
                await self._tell(order.request, lambda looked: status.waiting(looked, words, self._now()))
            async with self._places:
                await self._attempts(uid, order.place, means)

    async def _attempts(self, uid: str, place: str, means: Means) -> None:
        backoff = Backoff(_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        for attempt in range(1, ATTEMPTS + 1):
            order = self._orders[uid]
            try:
                await self._attempt(order, place, means, attempt)
            except (NameTakenError, SealError, BundleError, LayoutError, SignatureError) as error:
                # None of these changes by itself.
                self._ends[uid] = self._failed(str(error))
            except Exception as error:  # noqa: BLE001 - a task that ended unseen would be begun again at once, for ever
                known = isinstance(error, KubeError | NoMemberError | TornError | TargetError | TimeoutError)
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
                    self._ends[uid] = self._failed(f"{ATTEMPTS} attempts failed, the last one because: {why}")
                    return
                await self._pause(order, attempt, why, backoff.next())
                continue
            return

    async def _pause(self, order: Order, attempt: int, why: str, seconds: float) -> None:
        await self._tell(order.request, lambda looked: status.retrying(looked, attempt, why, seconds, self._now()))
        await self._clock.sleep(seconds)

    async def _attempt(self, order: Order, place: str, means: Means, attempt: int) -> None:
        progress = Progress(attempt, place=place)
        # Where it is has to be known before anything is stored there: else nothing finds it to delete it.
        wanted = await self._reports.write(order.request, lambda looked: status.running(looked, progress, self._now()))
        if not wanted:
            return
        reporting = _Reporting(self, order.request, progress)
        watching = asyncio.create_task(reporting.run(), name=f"progress of snapshot {order.name}")
        try:
            made, location = await take(order, means, self._now(), reporting.note)
            now = self._now()
            self._ends[order.uid] = lambda looked: status.stored(looked, made, location, now)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        _log.info("snapshot %s is stored at %s", order.name, location, extra={"tenant": order.spec.tenant})

    async def progress(self, request: Obj, progress: Progress) -> None:
        """Report how far an attempt is, and wait for the time of the next report."""
        await self._tell(request, lambda looked: status.running(looked, progress, self._now()))
        await self._clock.sleep(_REPORT_SECONDS)

    async def _tell(self, request: Obj, report: Report) -> None:
        """Report what another report follows."""
        try:
            await self._reports.write(request, report)
        except KubeError as error:
            _log.warning("cannot report on snapshot %s: %s", request["metadata"]["name"], error)

    def _failed(self, why: str) -> Report:
        now = self._now()
        return lambda looked: status.failed(looked, why, now)

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
            await self._tasks.progress(self._request, self._progress)
