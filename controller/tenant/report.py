"""Writes a Tenant's status once at the end of a reconcile if it has changed, and updates metrics and Events from it."""

import logging

from bulkhead.api.conditions import ConditionType, is_true
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.work.clock import Clock
from controller import metrics
from controller.decide import creation
from controller.tenant import status
from controller.tenant.announcing import Announcer

_log = logging.getLogger(__name__)


class Reporter:
    """Writes statuses through one client."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._announcer = Announcer(client, clock)

    async def report(self, tenant: Obj, wanted: Obj) -> bool:
        """Write a status; returns False if the Tenant is gone."""
        metrics.report(str(tenant["metadata"]["name"]), wanted)
        there = True
        if status.changed(tenant, wanted):
            self._count_first_ready(tenant, wanted)
            body = {"status": status.patch(tenant, wanted)}
            try:
                await self._client.patch(kinds.TENANTS, tenant["metadata"]["name"], body, subresource="status")
            except NotFound:
                there = False
            else:
                before = (tenant.get("status") or {}).get("conditions") or []
                await self._announcer.announce(tenant, before, wanted["conditions"])
        else:
            # What could not be written of earlier changes.
            await self._announcer.announce(tenant, [], [])
        return there

    def _count_first_ready(self, tenant: Obj, wanted: Obj) -> None:
        # What was reported before Ready does not count: the plane has its data long before its syncer is ready.
        meta, now = tenant["metadata"], self._clock.now()
        if not is_true(wanted["conditions"], ConditionType.READY) or not creation.is_traced(tenant, now.timestamp()):
            return
        seconds = metrics.first_ready(str(meta["uid"]), str(meta["creationTimestamp"]), now)
        if seconds is not None:
            _log.info("tenant ready", extra={"tenant": str(meta["name"]), "seconds": round(seconds, 1)})
