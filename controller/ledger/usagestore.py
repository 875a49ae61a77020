"""Where metered usage lies on the host: one open page, written over and over, and closed ones that nobody changes.

    open() ──> save(page), save(page), … ── full ──> close(page) ──┬─ a ConfigMap that cannot change any more
                                                                   └─ the open page, empty, of the next number
    every write names the version that it follows ──> another one wrote ──> OvertakenError ──> open() again

Sums and the moment up to which they reach are one object and one write. A page that was closed by a controller which died
before it began the next one is found by its number. Old pages go by age, and by the bytes of all pages.
"""

import logging
from dataclasses import dataclass
from typing import Final

from bulkhead.api import labels, names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, NotFound
from bulkhead.kube.objects import Obj, uid_of, version_of
from bulkhead.ledger import usagebook
from bulkhead.ledger.metering import HOUR
from bulkhead.ledger.usagebook import Page, UnreadableError

_log = logging.getLogger(__name__)
_KEPT: Final = 400 * 24 * HOUR
_MOST_BYTES: Final = 128 * 1024 * 1024
# After a longer gap pods are not asked for what was before.
_LONGEST_GAP: Final = 40 * 24 * HOUR


class OvertakenError(Exception):
    """Another process has written usage: what this one has counted since its last write is not its own to count."""


@dataclass(frozen=True, slots=True)
class _Closed:
    """A closed page, by what its name and its annotations say."""

    name: str
    uid: str
    number: int
    until: int
    size: int


class UsageStore:
    """The pages, for one writer."""

    def __init__(self, client: Client, namespace: str, writer: str) -> None:
        self._client = client
        self._namespace = namespace
        self._writer = writer
        self._version = ""

    async def open(self, now: int) -> Page:
        """The page to go on with; from now on where nothing was ever counted, or where what there is cannot be read."""
        closed = await self._closed()
        last = max((each.number for each in closed), default=0)
        page = Page(last + 1, now)
        self._version = ""
        try:
            stored = await self._client.get(kinds.CONFIG_MAPS, names.USAGE_OPEN, self._namespace)
        except NotFound:
            page.until = max((each.until for each in closed), default=now)
        else:
            self._version = version_of(stored)
            page = self._readable(stored) or page
        if any(each.number == page.number and each.until >= page.until for each in closed):
            page = Page(page.number + 1, page.until)
        page.until = min(max(page.until, now - _LONGEST_GAP), now)
        page.writer = self._writer
        if not self._version:
            # From this moment on nothing is lost.
            await self.save(page)
        return page

    async def save(self, page: Page) -> bytes:
        """Write the open page; returns it as it is written."""
        stored = usagebook.write(page)
        body = usagebook.config_map(page, stored, closed=False)
        try:
            if self._version:
                await self._replace(body)
            else:
                self._version = version_of(await self._client.create(kinds.CONFIG_MAPS, body, self._namespace))
        except (AlreadyExists, Conflict) as error:
            await self._own_write(page.number, error)
            await self._replace(body)
        except NotFound:
            # Somebody deleted it: everything that it had is here.
            self._version = version_of(await self._client.create(kinds.CONFIG_MAPS, body, self._namespace))
        return stored

    async def close(self, page: Page, stored: bytes) -> Page:
        """Keep a page as it was saved, and begin the next one."""
        same = [each for each in await self._closed() if each.number == page.number]
        for each in same:
            # Left by a controller that died, or that did not know yet that it no longer led.
            if each.until < page.until:
                await self._client.delete(kinds.CONFIG_MAPS, each.name, self._namespace, uid=each.uid)
        if all(each.until < page.until for each in same):
            await self._client.create(kinds.CONFIG_MAPS, usagebook.config_map(page, stored, closed=True), self._namespace)
        following = Page(page.number + 1, page.until, self._writer)
        await self.save(following)
        return following

    async def tidy(self, now: int) -> None:
        """Delete closed pages that are too old, or too many."""
        size = 0
        for each in sorted(await self._closed(), key=lambda each: each.number, reverse=True):
            size += each.size
            if each.until < now - _KEPT or size > _MOST_BYTES:
                await self._client.delete(kinds.CONFIG_MAPS, each.name, self._namespace, uid=each.uid)

    async def _replace(self, body: Obj) -> None:
        """Write over the version that was read or written last, and over no other."""
        versioned = body | {"metadata": body["metadata"] | {"resourceVersion": self._version}}
        answer = await self._client.patch(kinds.CONFIG_MAPS, names.USAGE_OPEN, versioned, self._namespace)
        self._version = version_of(answer)

    async def _own_write(self, number: int, error: Exception) -> None:
        """Take over the version of an own write to which no answer came; raise `OvertakenError` if it was another's."""
        stored = await self._client.get(kinds.CONFIG_MAPS, names.USAGE_OPEN, self._namespace)
        page = self._readable(stored)
        # A write of an earlier number that arrives only now holds what is closed since.
        if page is None or page.writer != self._writer or page.number > number:
            raise OvertakenError(f"usage is written by another process: {error}") from error
        self._version = version_of(stored)

    async def _closed(self) -> list[_Closed]:
        selector = f"{labels.USAGE}=closed"
        listed = await self._client.list_metadata(kinds.CONFIG_MAPS, self._namespace, label_selector=selector)
        return [_closed_of(each) for each in listed.items if usagebook.number_of(each["metadata"]["name"])]

    def _readable(self, stored: Obj) -> Page | None:
        try:
            return usagebook.page_of(stored)
        except UnreadableError as error:
            _log.error("stored usage cannot be read, and is begun anew: %s", error)
            return None


def _closed_of(obj: Obj) -> _Closed:
    noted = obj["metadata"].get("annotations") or {}
    until, size = (str(noted.get(key) or "") for key in (labels.USAGE_UNTIL, labels.USAGE_BYTES))
    name = str(obj["metadata"]["name"])
    return _Closed(
        name,
        uid_of(obj),
        usagebook.number_of(name),
        until=int(until) if until.isdecimal() and len(until) < 20 else 0,
        # What does not say how large it is counts as one of the largest.
        size=int(size) if size.isdecimal() and len(size) < 10 else 1 << 20,
    )
