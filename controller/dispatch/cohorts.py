"""Writes the status of each Cohort: what its tenants have together, what waits, and which rules cannot work.

    Snapshot, Decisions ──> summaries, in a thread ──> differs from the Cohort's status? ──> one write of it

It counts at most once a second. It never creates a Cohort: a cohort without an object has no status, and an object that was
deleted meanwhile stays deleted. The next turn corrects a status that another writer changed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.ledger.cohorts import EMPTY, Summary, status, summaries
from bulkhead.ledger.model import Decisions, Snapshot
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered
from controller.dispatch import metrics
from controller.dispatch.apply import DeposedError, run_bounded
from controller.dispatch.quotas import Cohort

_log = logging.getLogger(__name__)
_COUNT_EVERY_SECONDS: Final = 1.0
# The same status is not written again before the watch can have shown it. After a refusal nothing is written for longer.
_REWRITE_AFTER_SECONDS: Final = 2.0
_REFUSED_WAIT_SECONDS: Final = 30.0
# How often statuses are updated while the ledger takes no turns.
_LOOK_EVERY_SECONDS: Final = 30.0
_MOST_COHORTS_REMEMBERED: Final = 10_000


class Statuses:
    """The statuses of all Cohorts."""

    def __init__(self, client: Client, leads: Callable[[], bool], clock: Clock) -> None:
        self._client = client
        self._leads = leads
        self._clock = clock
        self._at = -_COUNT_EVERY_SECONDS
        # The last written status without its times, and until when it is not written again. After a failed write the status is
        # None, and nothing is written until then.
        self._written: Remembered[str, tuple[Obj | None, float]] = Remembered(_MOST_COHORTS_REMEMBERED)

    async def carry_out(self, snapshot: Snapshot, decisions: Decisions, cohorts: Mapping[str, Cohort]) -> float | None:
        """Write statuses that differ from the Cohort's; returns in how many seconds more is due."""
        wait = self._wait()
        if wait > 0 or not cohorts:
            return wait if cohorts else None
        return await self._say(await asyncio.to_thread(summaries, snapshot, decisions, cohorts.keys()), cohorts)

    async def without_tenants(self, cohorts: Mapping[str, Cohort]) -> float | None:
        """The same if no tenant is in any cohort."""
        wait = self._wait()
        if wait > 0 or not cohorts:
            return wait if cohorts else None
        return await self._say(dict.fromkeys(cohorts, EMPTY), cohorts) or _LOOK_EVERY_SECONDS

    def _wait(self) -> float:
        return self._at + _COUNT_EVERY_SECONDS - self._clock.monotonic()

    async def _say(self, found: Mapping[str, Summary], cohorts: Mapping[str, Cohort]) -> float | None:
        self._at = now = self._clock.monotonic()
        due: list[tuple[str, Obj]] = []
        later: list[float] = []
        for name, cohort in cohorts.items():
            wanted = status(found[name], cohort.status, cohort.generation, self._clock.now())
            if wanted == cohort.status:
                continue
            written, until = self._written.get(name, ({}, now))
            if now < until and (written is None or written == _apart_from_times(wanted)):
                later.append(until - now)
            else:
                due.append((name, wanted))
        await run_bounded(due, lambda item: self._write(*item))
        refused = (self._written.get(name, ({}, now)) for name, _ in due)
        later += [until - now for written, until in refused if written is None]
        return min(later, default=None)

    async def _write(self, name: str, wanted: Obj) -> None:
        if not self._leads():
            raise DeposedError
        now = self._clock.monotonic()
        self._written[name] = (_apart_from_times(wanted), now + _REWRITE_AFTER_SECONDS)
        try:
            await self._client.patch(kinds.COHORTS, name, {"status": wanted}, subresource="status")
        except NotFound:
            # It was deleted, or its definition is of an older version.
            self._written[name] = (None, now + _REFUSED_WAIT_SECONDS)
        except KubeError as error:
            self._written[name] = (None, now + _REFUSED_WAIT_SECONDS)
            metrics.writes.labels("status", "failed").inc()
            _log.warning("status of a cohort not written: %s", error, extra={"cohort": name})
        else:
            metrics.writes.labels("status", "ok").inc()


def _apart_from_times(wanted: Obj) -> Obj:
    """The status without the times of its conditions, which are known only once the watch has shown the last write."""
    conditions = [{**condition, "lastTransitionTime": ""} for condition in wanted["conditions"]]
    return wanted | {"conditions": conditions}
