"""Writes annotations: why pods wait, which running pods are over a quota, and what tenants have. It never touches a gate.

    verdicts ──> differs from the pod's annotation? ──> pods without one first ──> as many as there is time for
    notices ──┘      └── a running pod without a notice: its annotation is removed
    standings ──> differs from the quota's annotation? ──> at most one write a second for a tenant
    places in the queue ──> with the standing; by themselves at most every ten seconds

A new pod gets no verdict for a moment: most pods are admitted within it, and the members of a gang come one after another.
"""

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from bulkhead.api import ledger, names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.ledger.model import HELD, Line, PodVerdict, Rules, Standing, Why
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered
from controller.dispatch import metrics, patches
from controller.dispatch.apply import Writes, run_bounded, take_until_deadline
from controller.dispatch.hostpod import Seen
from controller.dispatch.quotas import Quota, notes_of
from controller.dispatch.seen import Pods

_log = logging.getLogger(__name__)
# Together with a turn this stays well within the two seconds in which a pod should get its verdict.
_UNTOLD_SECONDS: Final = 0.7
# A text that changes is written again only after this many seconds.
_REWRITE_AFTER_SECONDS: Final = 2.0
# While quota is reclaimed the numbers in the text change with each pod that ends.
_REWRITE_RECLAIMING_AFTER_SECONDS: Final = 60.0
# Places change with each workload that starts before them, in any tenant of the cohort.
_PLACES_AFTER_SECONDS: Final = 10.0
_BEGIN_WITHIN_SECONDS: Final = 0.5
_LONGEST_MESSAGE: Final = 1024
_MOST_REMEMBERED: Final = 20_000


class Verdicts:
    """Writes verdicts and notices to pods."""

    def __init__(self, writes: Writes, pods: Pods, clock: Clock) -> None:
        self._writes = writes
        self._pods = pods
        self._clock = clock
        # When a pod's text was written last, and for which reason.
        self._written: Remembered[str, tuple[float, Why | None]] = Remembered(_MOST_REMEMBERED)

    async def carry_out(self, verdicts: Mapping[str, PodVerdict], notices: Mapping[str, PodVerdict]) -> float | None:
        """Write what is due, in the order of the queue; returns in how many seconds more is due."""
        now = self._clock.monotonic()
        due: list[tuple[bool, Seen, str | None, Why | None]] = []
        later = []
        for uid, verdict in (*verdicts.items(), *notices.items(), *self._over(notices)):
            seen = self._pods.get(uid)
            text = None if verdict is None else ledger.write_verdict(str(verdict.why), verdict.message[:_LONGEST_MESSAGE])
            if seen is None or seen.verdict == (text or ""):
                continue
            why = None if verdict is None else verdict.why
            wait = max(seen.since + _UNTOLD_SECONDS, self._next_write(uid, why)) - now
            if wait > 0:
                later.append(wait)
            else:
                due.append((bool(seen.verdict), seen, text, why))
        due.sort(key=lambda item: item[0])
        started = len(due)
        begun = take_until_deadline(due, now + _BEGIN_WITHIN_SECONDS, self._clock.monotonic, lambda item: item[1].pod.uid)
        await run_bounded(begun, lambda item: self._write(*item[1:]))
        if started and self._clock.monotonic() > now + _BEGIN_WITHIN_SECONDS:
            later.append(0.0)
        return min(later, default=None)

    async def stand_down(self) -> None:
        """Remove every notice at once, however new it is, because from now on none is corrected."""
        noted = [seen for uid, _ in self._over({}) if (seen := self._pods.get(uid)) is not None]
        await run_bounded(noted, lambda seen: self._write(seen, None, None))

    def _over(self, notices: Mapping[str, PodVerdict]) -> Iterator[tuple[str, None]]:
        """Running pods with a notice that is no longer valid."""
        for seen in self._pods.seen():
            if seen.verdict and seen.pod.stage in HELD and not seen.pod.ending and seen.pod.uid not in notices:
                yield seen.pod.uid, None

    def _next_write(self, uid: str, why: Why | None) -> float:
        """The earliest moment for another text of a pod."""
        at, written = self._written.get(uid, (float("-inf"), None))
        is_same = why is Why.RECLAIMING and written is Why.RECLAIMING
        return at + (_REWRITE_RECLAIMING_AFTER_SECONDS if is_same else _REWRITE_AFTER_SECONDS)

    async def _write(self, seen: Seen, text: str | None, why: Why | None) -> None:
        self._written[seen.pod.uid] = self._clock.monotonic(), why
        await self._writes.patch("verdict", seen.pod, patches.verdict(seen.pod, text), then=seen.pod)


class Standings:
    """Writes standings, and the places of waiting pods, to the quotas of tenants."""

    def __init__(self, client: Client, writes: Writes, clock: Clock) -> None:
        self._client = client
        self._writes = writes
        self._clock = clock
        self._written: Remembered[str, tuple[str, float]] = Remembered(_MOST_REMEMBERED)
        self._placed: Remembered[str, float] = Remembered(_MOST_REMEMBERED)
        self.away = 0

    async def carry_out(
        self,
        standings: Mapping[str, Mapping[Line, Standing]],
        quotas: Mapping[str, Quota],
        rules: Mapping[str, Rules],
        queues: Mapping[str, Mapping[str, ledger.Place]],
    ) -> float | None:
        """Write standings and places that differ from the quota's; returns in how many seconds more is due."""
        due: list[tuple[Quota, dict[str, str | None]]] = []
        later: list[float] = []
        now = self._clock.monotonic()
        for name, lines in standings.items():
            quota = quotas.get(name)
            if quota is None:
                continue
            changes = self._changes(quota, lines, rules.get(quota.tenant.cohort, Rules()))
            queue = ledger.write_queue(queues[name]) if queues.get(name) else ""
            if queue != quota.queue and (wait := self._placed.get(name, float("-inf")) + _PLACES_AFTER_SECONDS - now) <= 0:
                changes[ledger.QUEUE] = queue or None
            elif queue != quota.queue:
                later.append(wait)
            text, at = self._written.get(name, ("", now - _REWRITE_AFTER_SECONDS))
            if not changes or (text == str(changes) and now < at + _REWRITE_AFTER_SECONDS):
                continue
            if now < at + 1.0:
                later.append(at + 1.0 - now)
            else:
                due.append((quota, changes))
        await run_bounded(due, lambda item: self._write(*item))
        return min(later, default=None)

    async def stand_down(self, quotas: Iterable[Quota]) -> None:
        """Remove all notes, because from now on they are not corrected.

        The time since when a tenant is over its quota would count for a later excess, whose pods would be reclaimed without
        the grace period. And what was borrowable once would bound a Slurm cluster, and be shown to the tenant, for ever.
        """
        noted = [quota for quota in quotas if notes_of(quota)]
        await run_bounded(noted, lambda quota: self._write(quota, dict.fromkeys(notes_of(quota))))

    def _changes(self, quota: Quota, lines: Mapping[Line, Standing], rules: Rules) -> dict[str, str | None]:
        """The annotations that have to change."""
        text = ledger.write_standing({line: dataclasses.asdict(standing) for line, standing in lines.items()})
        changes: dict[str, str | None] = {} if text == quota.standing else {ledger.STANDING: text}
        is_recorded = rules.over_quota == "Reclaim"
        over = {line for line, standing in lines.items() if is_recorded and standing.used > standing.ceiling}
        noted = quota.tenant.over_since
        if over != set(noted):
            now = self._clock.now().timestamp()
            since = {line: noted.get(line, now) for line in over}
            changes[ledger.OVER_SINCE] = ledger.write_over_since(since) if since else None
        return changes

    async def _write(self, quota: Quota, changes: dict[str, str | None]) -> None:
        tenant = quota.tenant.name
        self._written[tenant] = (str(changes), self._clock.monotonic())
        if ledger.QUEUE in changes:
            self._placed[tenant] = self._clock.monotonic()
        self._writes.may_write()
        try:
            await self._client.patch(kinds.RESOURCE_QUOTAS, names.POD_QUOTA, patches.annotations(changes), quota.namespace)
        except NotFound:
            return
        except KubeError as error:
            self.away += 1
            metrics.writes.labels("standing", "failed").inc()
            _log.warning("standing not written: %s", error, extra={"tenant": tenant})
        else:
            metrics.writes.labels("standing", "ok").inc()
