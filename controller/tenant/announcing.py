"""Writes an Event for each change of a Tenant's conditions, so that `kubectl describe tenant` shows what happened and when.

Events are for people: the reconcile goes on without one that cannot be written. If the host's API server is only busy or away,
the next reconcile tries again, in their order. The name of an Event is derived from the condition, the status and the reason,
so a repetition raises its count. A Tenant has at most as many Events as there are such triples, and the number of writes per
time is bounded, however often a condition flaps.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import Final

from bulkhead.api.conditions import timestamp
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, KubeError, NotFound, may_pass
from bulkhead.kube.objects import uid_of
from bulkhead.kube.resources import EVENTS, TENANTS
from bulkhead.work.bucket import Bucket
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered
from controller.decide.announce import Announcement, announcements

_log = logging.getLogger(__name__)

# The namespace that the API server requires for Events about cluster-scoped objects.
NAMESPACE: Final = "default"
BURST: Final = 20
SECONDS_EACH: Final = 30.0
_WRITE_SECONDS: Final = 5.0
_TENANTS_REMEMBERED: Final = 4096


class Announcer:
    """Writes Events through one client."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        # Keyed by the Tenant's UID.
        self._buckets: Remembered[str, Bucket] = Remembered(_TENANTS_REMEMBERED)
        self._owed: Remembered[str, list[Announcement]] = Remembered(_TENANTS_REMEMBERED)

    async def announce(self, tenant: Obj, before: Sequence[Obj], now: Sequence[Obj]) -> None:
        """Write Events for the conditions that differ between two statuses, after those that could not be written before."""
        uid, about = uid_of(tenant), {"tenant": tenant["metadata"]["name"]}
        waiting = [*(self._owed.pop(uid, None) or ()), *announcements(before, now)][-BURST:]
        for place, announcement in enumerate(waiting):
            if not self._may_write(uid):
                _log.info("event dropped: too many events of this tenant", extra=about)
                return
            try:
                async with asyncio.timeout(_WRITE_SECONDS):
                    await self._write(tenant, announcement)
            except (KubeError, TimeoutError) as error:
                _log.warning("cannot write event: %s", error, extra=about)
                if may_pass(error):
                    self._owed[uid] = waiting[place:]
                    return

    def _may_write(self, uid: str) -> bool:
        bucket = self._buckets.get(uid) or Bucket(self._clock, most=BURST, seconds_each=SECONDS_EACH)
        self._buckets[uid] = bucket
        return bucket.take()

    async def _write(self, tenant: Obj, told: Announcement) -> None:
        name, stamp = _name(tenant, told), timestamp(self._clock.now())
        try:
            await self._client.create(EVENTS, _event(tenant, told, name, stamp), NAMESPACE)
        except AlreadyExists:
            found = await self._client.get(EVENTS, name, NAMESPACE)
            count = found.get("count")
            again = {"message": told.message, "lastTimestamp": stamp, "count": (count if isinstance(count, int) else 1) + 1}
            try:
                await self._client.patch(EVENTS, name, again, NAMESPACE)
            except NotFound:
                # The Event has just expired.
                await self._client.create(EVENTS, _event(tenant, told, name, stamp), NAMESPACE)


def _name(tenant: Obj, told: Announcement) -> str:
    of = hashlib.sha256(f"{uid_of(tenant)}/{told.condition}/{told.status}/{told.reason}".encode()).hexdigest()[:16]
    return f"{tenant['metadata']['name']}.{of}"


def _event(tenant: Obj, told: Announcement, name: str, stamp: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {
            "apiVersion": TENANTS.api_version,
            "kind": TENANTS.kind,
            "name": tenant["metadata"]["name"],
            "uid": uid_of(tenant),
        },
        "type": told.type,
        "reason": told.reason,
        "message": told.message,
        "source": {"component": "bulkhead-controller"},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
