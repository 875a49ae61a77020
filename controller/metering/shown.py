"""Notes on each tenant's quota how long it held devices on each of the last days, for its plane to show.

    closed pages, each read once ──┐
    the open page of this process ─┴──> sums by tenant and day ──> differs from the note? ──> one patch of `tenant-quota`

The syncer passes the note on into the plane, as it does the ledger's. A round begins every five minutes; a tenant that holds
nothing gets no write. Level-triggered: what a process did not write, the next round writes. Nothing is counted here.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NoReturn

from bulkhead.api import labels, names, ownusage
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.metering import usagebook
from bulkhead.metering.byday import ByDay, first_day, of_present, own_usages, sums_by_day
from bulkhead.metering.meter import HOUR
from bulkhead.metering.usagebook import Page, UnreadableError
from bulkhead.work.clock import Clock

_log = logging.getLogger(__name__)
EVERY_SECONDS: Final = 300.0
# After the process began to lead: what is open is read by then.
_FIRST_SECONDS: Final = 20.0
_WRITES_AT_ONCE: Final = 4
_DAY: Final = 24 * HOUR
_DATE_CHARACTERS: Final = len("2026-06-01")


class Shown:
    """Writes the notes while its process leads."""

    def __init__(self, client: Client, namespace: str, clock: Clock, page: Callable[[], Page]) -> None:
        """`page` is the page that this process counts on; number 0 before it counts."""
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._page = page
        # Closed pages do not change. Only their sums are kept.
        self._closed: dict[str, ByDay] = {}

    async def run(self) -> NoReturn:
        """Write until cancelled."""
        await self._clock.sleep(_FIRST_SECONDS)
        while True:
            try:
                await self.round()
            except KubeError as error:
                _log.warning("device-hours of tenants not shown: %s", error)
            await self._clock.sleep(EVERY_SECONDS)

    async def round(self) -> None:
        """Write the notes that differ."""
        page = self._page()
        if not page.number:
            return
        until = page.until
        await self._read_closed(until)
        selector = f"metadata.name={names.POD_QUOTA}"
        # The namespace is as old as the tenant, and a plane that is taken up again keeps it.
        namespaces = [mapping(found.get("metadata")) for found in (await self._client.list(kinds.NAMESPACES)).items]
        made = {str(meta["name"]): str(meta["creationTimestamp"])[:_DATE_CHARACTERS] for meta in namespaces}
        present = {names.tenant_of_work(str(meta["name"])): str(meta["uid"]) for meta in namespaces}
        usages = own_usages([*self._closed.values(), sums_by_day(page)], until, present)
        due = []
        for quota in (await self._client.list(kinds.RESOURCE_QUOTAS, field_selector=selector)).items:
            meta = mapping(quota.get("metadata"))
            namespace = str(meta.get("namespace"))
            tenant = names.tenant_of_work(namespace)
            usage = usages.get(tenant) if tenant else None
            found = ownusage.read(mapping(meta.get("annotations")).get(ownusage.ANNOTATION))
            if usage is None:
                continue
            text = ownusage.write(of_present(usage, made.get(namespace, "")))
            wanted = ownusage.read(text)
            # The time up to which it is counted is not news by itself.
            if found is None or wanted is None or found.rows != wanted.rows:
                due.append((namespace, text))
        places = asyncio.Semaphore(_WRITES_AT_ONCE)
        await asyncio.gather(*(self._note(places, namespace, text) for namespace, text in due))

    async def _read_closed(self, now: int) -> None:
        """Sum up closed pages that were not read yet, and forget those that are too old."""
        listed = await self._client.list_metadata(kinds.CONFIG_MAPS, self._namespace, label_selector=f"{labels.USAGE}=closed")
        reaching = sorted((usagebook.reaches(found), str(found["metadata"]["name"])) for found in listed.items)
        recent = [name for reaches, name in reaching if reaches >= first_day(now) * _DAY]
        # A page and its sums exist beside each other while one takes the other's place.
        wanted = set({usagebook.number_of(name) or name: name for name in recent}.values())
        self._closed = {name: sums for name, sums in self._closed.items() if name in wanted}
        for name in sorted(wanted - self._closed.keys()):
            try:
                stored = await self._client.get(kinds.CONFIG_MAPS, name, self._namespace)
                # A page may have thousands of rows.
                self._closed[name] = await asyncio.to_thread(lambda found: sums_by_day(usagebook.page_of(found)), stored)
            except NotFound:
                continue
            except UnreadableError as error:
                _log.warning("device-hours of a page are not shown: ConfigMap %s: %s", name, error)
                self._closed[name] = {}

    async def _note(self, places: asyncio.Semaphore, namespace: str, text: str) -> None:
        body = {"metadata": {"annotations": {ownusage.ANNOTATION: text}}}
        async with places:
            try:
                await self._client.patch(kinds.RESOURCE_QUOTAS, names.POD_QUOTA, body, namespace)
            except NotFound:
                return
            except KubeError as error:
                _log.warning("device-hours not shown: %s", error, extra={"namespace": namespace})
