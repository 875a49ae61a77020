"""Manages planes that are kept without a Tenant: announces when they end, and ends them then as any other.

name without a Tenant ──> marks on its namespaces or slice ─┬─ in time ──> metric, and an Event a day before
                                                            └─ over ──> read again ──> a step of a teardown
"""

import hashlib
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bulkhead.api import names
from bulkhead.api.conditions import timestamp
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, KubeError, NotFound
from bulkhead.kube.objects import Key
from bulkhead.work.clock import Clock
from controller import metrics
from controller.decide.retain import Retained, announced, retained_by
from controller.host.owned import Owned
from controller.tenant.announcing import NAMESPACE
from controller.tenant.dismantle import Dismantler

_log = logging.getLogger(__name__)
REASON: Final = "RetentionEnds"
_LOOK_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Retaining:
    """Looks through one client."""

    client: Client
    owned: Owned
    dismantler: Dismantler
    clock: Clock

    async def look(self, name: str) -> float | None:
        """Do what is due for a name that has no Tenant; returns when to look again, in seconds."""
        seen = self._seen(name)
        metrics.report_retained(name, None if seen is None else (seen.until.timestamp() if seen.until else 0.0))
        if seen is None:
            return None
        now = self.clock.now()
        if not seen.ends(now):
            await self._announce(seen, announced(seen, now), now)
            return min(_LOOK_SECONDS, (seen.until - now).total_seconds() + 1) if seen.until is not None else _LOOK_SECONDS
        # What is ended for good is read from the API server, and not from a copy.
        fresh = await self._fresh(name)
        if fresh is None or not fresh.ends(self.clock.now()):
            return 1.0
        _log.info("the retained plane %s ends", fresh.identity, extra={"tenant": name})
        progress = await self.dismantler.step(fresh.as_tenant())
        return None if progress.done else progress.again

    def _seen(self, name: str) -> Retained | None:
        copies = (self.owned.get(resource, Key("", at)) for resource, at in _places(name))
        return next((found for obj in copies if (found := retained_by(obj, name)) is not None), None)

    async def _fresh(self, name: str) -> Retained | None:
        for resource, at in _places(name):
            try:
                found = retained_by(await self.client.get(resource, at), name)
            except NotFound:
                continue
            if found is not None:
                return found
        return None

    async def _announce(self, found: Retained, words: str, now: datetime) -> None:
        if not words:
            return
        _log.warning(words, extra={"tenant": found.tenant})
        try:
            await self.client.create(kinds.EVENTS, _event(found, words, timestamp(now)), NAMESPACE)
        except AlreadyExists:
            return
        except KubeError as error:
            _log.warning("cannot write event: %s", error, extra={"tenant": found.tenant})


def _places(name: str) -> list[tuple[kinds.Resource, str]]:
    """Where the marks are: the plane's namespace is what counts, the others are what may be left of it."""
    try:
        plane = names.plane_namespace(name)
    except names.InvalidTenantNameError:
        return []
    return [(kinds.NAMESPACES, plane), (kinds.NAMESPACES, f"{plane}{names.WORK_SUFFIX}"), (kinds.SERVICE_CIDRS, plane)]


def _event(found: Retained, words: str, stamp: str) -> Obj:
    # One Event for each plane and end.
    of = hashlib.sha256(f"{found.identity}/{found.until}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{found.tenant}.{of}"},
        "involvedObject": {"apiVersion": "v1", "kind": "Namespace", "name": names.plane_namespace(found.tenant)},
        "type": "Warning",
        "reason": REASON,
        "message": words,
        "source": {"component": "bulkhead-controller"},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
