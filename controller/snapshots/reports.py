"""Writes the status of TenantSnapshots: only over the version that was just looked at, and an end until the host takes it.

    look ──┬─ finished, being deleted, gone ──> nothing is written
           └─ else ──> write over this version ── changed meanwhile, refused, no answer ──> KubeError

A report that arrives late therefore never undoes the end of a snapshot, whichever of the two was sent first.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, KubeError, NotFound
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock
from controller.snapshots import status

_log = logging.getLogger(__name__)
# With the pauses about half an hour: a host that refuses for longer takes no other report either.
MOST_TRIES: Final = 40
_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_TRY_SECONDS: Final = 20.0
# The status to write, made from the object that was looked at.
Report: TypeAlias = Callable[[Obj], Obj]


class Reports:
    """Reports through one client."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def write(self, request: Obj, report: Report) -> bool:
        """Report. False if the object is finished, being deleted or gone. Raises KubeError if that is not known."""
        name = request["metadata"]["name"]
        try:
            looked = await self._client.get(kinds.TENANT_SNAPSHOTS, name)
            if not _is_open(looked, request):
                return False
            meta = {key: looked["metadata"][key] for key in ("uid", "resourceVersion")}
            body = {"metadata": meta, "status": report(looked)}
            await self._client.patch(kinds.TENANT_SNAPSHOTS, name, body, subresource="status")
        except NotFound:
            _log.info("TenantSnapshot %s is gone", name)
            return False
        return True

    async def insist(self, request: Obj, report: Report) -> None:
        """Report, and try again while the host does not take it. Raises KubeError or TimeoutError after the last try."""
        backoff = Backoff(_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        for number in itertools.count(1):
            try:
                async with asyncio.timeout(_TRY_SECONDS):
                    await self.write(request, report)
            except (KubeError, TimeoutError) as error:
                if number == MOST_TRIES:
                    raise
                seconds = max(backoff.next(), _asked_for(error))
                why = str(error) or f"no answer within {_TRY_SECONDS:g} s"
                _log.warning("cannot report on snapshot %s, next try in %.0f s: %s", request["metadata"]["name"], seconds, why)
            else:
                return
            await self._clock.sleep(seconds)


def _is_open(looked: Obj, request: Obj) -> bool:
    """Whether this is the object of the request, not finished and not being deleted."""
    meta = looked["metadata"]
    return meta["uid"] == request["metadata"]["uid"] and not meta.get("deletionTimestamp") and not status.finished(looked)


def _asked_for(error: Exception) -> float:
    """The seconds for which the host asked not to be asked again."""
    return (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
