"""Writes decisions: to many pods at once, in one request for each pod, and never two requests for one pod at the same time.

    decision ──> body ──> request ──┬─ answer ──────────────> the pod as it is now
                                    ├─ refused, gone ────────> the next turn decides again, and delays this pod
                                    └─ no answer, conflict ──> doubt: the pod is read again before the next decision

This module repeats no write, because only the next decision knows whether it is still wanted. A refused write delays only that
pod; a host that does not answer delays all of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from enum import Enum, auto
from typing import Final, TypeVar

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import STRATEGIC_PATCH, Client
from bulkhead.kube.errors import ApiError, KubeError, NotFound, Throttled
from bulkhead.kube.objects import uid_of
from bulkhead.ledger.model import Pod
from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered
from controller.dispatch import metrics
from controller.dispatch.seen import Pods

_log = logging.getLogger(__name__)
T = TypeVar("T")
MOST_WRITES_AT_ONCE: Final = 16
_MOST_PODS_REMEMBERED: Final = 20_000
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"


class DeposedError(Exception):
    """The process no longer holds the lease, so it may write nothing."""


async def run_bounded(items: Iterable[T], work: Callable[[T], Awaitable[object]]) -> None:
    """Do `work` for all items, in order and a few at a time."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(MOST_WRITES_AT_ONCE):
            group.create_task(worker())


def take_until_deadline(
    items: Iterable[T], deadline: float, monotonic: Callable[[], float], whole: Callable[[T], object]
) -> Iterator[T]:
    """Yield items until the deadline, and after it those that belong together with the last one."""
    last: object = None
    for item in items:
        this = whole(item)
        if this != last and monotonic() > deadline:
            return
        last = this
        yield item


class Eviction(Enum):
    """What became of the request for an eviction."""

    ACCEPTED = auto()
    REFUSED = auto()  # by a disruption budget, so that it may be accepted later
    FAILED = auto()


class Writes:
    """Writes to pods, and remembers which of them failed."""

    def __init__(self, client: Client, pods: Pods, clock: Clock, leads: Callable[[], bool]) -> None:
        self._client = client
        self._leads = leads
        self._pods = pods
        self._clock = clock
        self._backoff: PerKeyBackoff[str] = PerKeyBackoff(0.5, 60.0, max_keys=_MOST_PODS_REMEMBERED)
        # By UID of a pod whose write was refused: when it may be written to again.
        self._refused: Remembered[str, float] = Remembered(_MOST_PODS_REMEMBERED)
        # How many requests of this turn the host did not answer.
        self.away = 0

    def may_write(self) -> None:
        """Raise `DeposedError` unless this process leads now. A process that was paused learns of a lost lease only here."""
        if not self._leads():
            raise DeposedError

    def due(self) -> float | None:
        """In how many seconds the first pod that was refused may be written to again."""
        now = self._clock.monotonic()
        return min((at - now for at in self._refused.values() if at > now), default=None)

    async def patch(self, what: str, pod: Pod, body: Obj, *, then: Pod, subresource: str | None = None) -> bool:
        """Send a strategic merge patch to a pod; `then` is the pod as it may be if no answer comes. Whether it succeeded."""

        async def call() -> Obj | None:
            return await self._client.patch(
                kinds.PODS, pod.name, body, pod.namespace, content_type=STRATEGIC_PATCH, subresource=subresource
            )

        return await self._write(what, pod, call, then)

    async def delete(self, what: str, pod: Pod, *, grace: int | None = None, version: str | None = None) -> bool:
        """Delete a pod by its UID; with `version` only if it has not changed since. Whether it succeeded."""

        async def call() -> Obj | None:
            return await self._client.delete(
                kinds.PODS, pod.name, pod.namespace, grace_seconds=grace, uid=pod.uid, resource_version=version
            )

        return await self._write(what, pod, call, replace(pod, ending=True))

    async def evict(self, pod: Pod, body: Obj) -> Eviction:
        """Request an eviction."""
        self.may_write()
        try:
            await self._client.create_subresource(kinds.PODS, pod.name, "eviction", body, pod.namespace)
        except KubeError as error:
            if _is_of_budgets(error):
                metrics.writes.labels("evict", "budget").inc()
                _log.info("eviction refused for now: %s", error, extra=_names(pod))
                return Eviction.REFUSED
            self._trouble("evict", pod, replace(pod, ending=True), error)
            return Eviction.FAILED
        metrics.writes.labels("evict", "ok").inc()
        self._accepted(pod)
        self._pods.ends(pod.uid)
        return Eviction.ACCEPTED

    async def read_again(self) -> None:
        """Read the pods whose present state is unknown."""
        await run_bounded(self._pods.doubts(), self._read)

    async def _read(self, pod: Pod) -> None:
        try:
            found = await self._client.get(kinds.PODS, pod.name, pod.namespace)
        except NotFound:
            self._pods.gone(pod.uid)
        except KubeError as error:
            self.away += 1
            _log.warning("pod not read: %s", error, extra=_names(pod))
        else:
            if uid_of(found) == pod.uid:
                self._pods.answered(found)
            else:
                self._pods.gone(pod.uid)

    async def _write(self, what: str, pod: Pod, call: Callable[[], Awaitable[Obj | None]], then: Pod) -> bool:
        if self._refused.get(pod.uid, 0.0) > self._clock.monotonic():
            return False
        self.may_write()
        try:
            answer = await call()
        except KubeError as error:
            return self._trouble(what, pod, then, error)
        metrics.writes.labels(what, "ok").inc()
        self._accepted(pod)
        if answer is None:
            self._pods.gone(pod.uid)
        else:
            self._pods.answered(answer)
        return True

    def _trouble(self, what: str, pod: Pod, then: Pod, error: KubeError) -> bool:
        if isinstance(error, NotFound):
            self._pods.gone(pod.uid)
            metrics.writes.labels(what, "gone").inc()
            return False
        if not isinstance(error, ApiError) or error.status >= 500 or error.status == 0:
            self.away += 1
            self._pods.doubt(then)
        elif isinstance(error, Throttled):
            self.away += 1
        else:
            self._refused[pod.uid] = self._clock.monotonic() + self._backoff.next(pod.uid)
            # A pod with another UID may have the name now, or the pod may have changed since it was observed.
            self._pods.doubt(pod)
        metrics.writes.labels(what, "failed").inc()
        _log.warning("not written: %s: %s", what, error, extra=_names(pod))
        return False

    def _accepted(self, pod: Pod) -> None:
        self._backoff.forget(pod.uid)
        self._refused.pop(pod.uid, None)


def _is_of_budgets(error: KubeError) -> bool:
    """Whether disruption budgets refuse an eviction: one that has none left, or several, of which API servers take no pod.

    To the latter they answer 500. It is the tenant's doing, and says nothing of the host, which all tenants would wait for.
    """
    several = isinstance(error, ApiError) and error.status == 500 and _SEVERAL_BUDGETS in error.message
    return several or isinstance(error, Throttled)


def _names(pod: Pod) -> dict[str, str]:
    return {"namespace": pod.namespace, "pod": pod.name, "tenant": pod.tenant}
