"""Stores metered usage on the host: one open page, written over and over, and closed pages that do not change.

    open() ──> save(page), save(page), … ── full ──> close(page) ──┬─ an immutable ConfigMap
                                                                   └─ the open page, empty, with the next number
    every write names the version that it follows ──> another process wrote ──> OvertakenError ──> open() again
    a page damaged by hand ──> overwritten from memory, or counted again from the end of the last closed page

The sums and the time up to which they are counted are one object and one write. If a controller dies after it has closed a page
and before it has begun the next, the next one notices by the page's number. Old pages are deleted by age. If all pages become
too large, the oldest lose the names on them and keep their sums: tenants choose the names, and with them the size.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bulkhead.api import labels, names
from bulkhead.api.ledger import moment, seconds
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, NotFound, Unprocessable
from bulkhead.kube.objects import uid_of, version_of
from bulkhead.metering import usagebook
from bulkhead.metering.meter import HOUR
from bulkhead.metering.usagebook import Page, UnreadableError
from controller.metering import metrics

_log = logging.getLogger(__name__)
_PAGES_KEPT: Final = 400 * 24 * HOUR
_MOST_BYTES_OF_PAGES: Final = 128 * 1024 * 1024
# Of pages that still have names: the rest is room for sums, which a tenant's names cannot enlarge.
_MOST_BYTES_WITH_NAMES: Final = 96 * 1024 * 1024
_MOST_SUMMED_UP_AT_ONCE: Final = 64
# After a longer gap, usage before it is not recovered from pods.
_LONGEST_GAP: Final = 40 * 24 * HOUR
# The clock of the process that counted before may have been ahead by so much: this one counts on once it has caught up.
_LONGEST_AHEAD: Final = HOUR


class OvertakenError(Exception):
    """Another process has written usage, so what this process has counted since its last write may be counted already."""


@dataclass(frozen=True, slots=True)
class _Closed:
    """A closed page, as its name and annotations describe it."""

    name: str
    uid: str
    number: int
    until: int
    size: int

    @property
    def is_sums(self) -> bool:
        """Whether its names were left out."""
        return usagebook.has_no_names(self.name)


class UsageStore:
    """The pages, for one writer."""

    def __init__(self, client: Client, namespace: str, writer: str) -> None:
        self._client = client
        self._namespace = namespace
        self._writer = writer
        self._version = ""

    async def open(self, now: int) -> Page:
        """The page to continue; an empty one that begins now if nothing was ever counted, or if stored pages cannot be read."""
        closed = await self._closed()
        last = max((closed_page.number for closed_page in closed), default=0)
        self._version = ""
        page, is_mended = None, False
        try:
            stored = await self._client.get(kinds.CONFIG_MAPS, names.USAGE_OPEN, self._namespace)
        except NotFound:
            begun = now
        else:
            self._version = version_of(stored)
            begun = _created(stored, now)
            page = _continued(stored, last)
            is_mended = page is None
        if page is None:
            # The lost part is counted again, as far as pods still exist whose timestamps show since when they hold devices.
            page = Page(last + 1, await self._end_of(closed, begun))
        if any(closed_page.number == page.number and closed_page.until >= page.until for closed_page in closed):
            page = Page(page.number + 1, page.until)
        page.until = max(page.until if page.until <= now + _LONGEST_AHEAD else now, now - _LONGEST_GAP)
        page.writer = self._writer
        if is_mended:
            metrics.pages.labels("repaired").inc()
            _log.error("usage is counted again from %s on", moment(page.until / 1000))
        if is_mended or not self._version:
            # From this moment on nothing is lost.
            await self.save(page)
        return page

    async def save(self, page: Page) -> bytes:
        """Write the open page; returns it as it is written."""
        stored = usagebook.fitted(page)
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
            # It was deleted by hand; this process still has its whole content.
            self._version = version_of(await self._client.create(kinds.CONFIG_MAPS, body, self._namespace))
        return stored

    async def _replace(self, body: Obj) -> None:
        """Overwrite the version that was read or written last; fails if there is another one."""
        versioned = body | {"metadata": body["metadata"] | {"resourceVersion": self._version}}
        try:
            answer = await self._client.patch(kinds.CONFIG_MAPS, names.USAGE_OPEN, versioned, self._namespace)
        except Unprocessable as error:
            stored = await self._client.get(kinds.CONFIG_MAPS, names.USAGE_OPEN, self._namespace)
            if not usagebook.is_spoilt(stored):
                raise
            _log.error("the open page of usage cannot be written, and is recreated: %s", error)
            metrics.pages.labels("repaired").inc()
            await self._client.delete(kinds.CONFIG_MAPS, names.USAGE_OPEN, self._namespace, resource_version=self._version)
            answer = await self._client.create(kinds.CONFIG_MAPS, body, self._namespace)
        self._version = version_of(answer)

    async def close(self, page: Page, stored: bytes) -> Page:
        """Keep a page as it was saved, and begin the next one."""
        same = [closed_page for closed_page in await self._closed() if closed_page.number == page.number]
        for closed_page in same:
            # It exists already: from a controller that died, or that had not yet noticed that it no longer led.
            if closed_page.until < page.until:
                await self._delete(closed_page)
        if all(closed_page.until < page.until for closed_page in same):
            await self._client.create(kinds.CONFIG_MAPS, usagebook.config_map(page, stored, closed=True), self._namespace)
        following = Page(page.number + 1, page.until, self._writer)
        await self.save(following)
        return following

    async def tidy(self, now: int) -> None:
        """Delete closed pages that are too old, or too many; before that, leave out names if those take too much."""
        size = 0
        for closed_page in await self._smaller(await self._closed()):
            size += closed_page.size
            # A page whose annotation was lost does not say how old it is; it goes by size, after those that were closed later.
            is_old = 0 < closed_page.until < now - _PAGES_KEPT
            if is_old or size > _MOST_BYTES_OF_PAGES:
                await self._delete(closed_page)

    async def _smaller(self, closed: Sequence[_Closed]) -> list[_Closed]:
        """All pages, the newest first, after names were left out of the oldest if pages with names take too much."""
        summed = {closed_page.number for closed_page in closed if closed_page.is_sums}
        found, large, size = list[_Closed](), list[_Closed](), 0
        for closed_page in sorted(closed, key=lambda closed_page: closed_page.number, reverse=True):
            if not closed_page.is_sums and closed_page.number in summed:
                # Its sums exist already: a controller died before it deleted the page.
                await self._delete(closed_page)
                continue
            size += 0 if closed_page.is_sums else closed_page.size
            is_large = size > _MOST_BYTES_WITH_NAMES and not closed_page.is_sums
            (large if is_large else found).append(closed_page)
        waiting, chosen = large[:-_MOST_SUMMED_UP_AT_ONCE], large[-_MOST_SUMMED_UP_AT_ONCE:]
        found += [*waiting, *[await self._sum_up(closed_page) for closed_page in chosen]]
        return sorted(found, key=lambda closed_page: closed_page.number, reverse=True)

    async def _sum_up(self, closed_page: _Closed) -> _Closed:
        """Put the sums of a page in its place; a page that cannot be read stays."""
        stored = await self._client.get(kinds.CONFIG_MAPS, closed_page.name, self._namespace)
        try:
            # A page may have thousands of rows.
            body = await asyncio.to_thread(usagebook.without_names, stored)
        except UnreadableError:
            return closed_page
        made = await self._client.create(kinds.CONFIG_MAPS, body, self._namespace)
        await self._delete(closed_page)
        return _closed_of(made)

    async def _delete(self, closed_page: _Closed) -> None:
        await self._client.delete(kinds.CONFIG_MAPS, closed_page.name, self._namespace, uid=closed_page.uid)

    async def _own_write(self, number: int, error: Exception) -> None:
        """Take the version of an own unanswered write, or of a damaged page; if another process wrote it, `OvertakenError`."""
        stored = await self._client.get(kinds.CONFIG_MAPS, names.USAGE_OPEN, self._namespace)
        page = _readable(stored)
        if page is not None and page.writer != self._writer:
            raise OvertakenError(f"usage is written by another process: {error}") from error
        # An own write of an earlier number that arrived late has content that is closed since. A later number is another's.
        if page is None or page.number > number:
            _log.error("the open page of usage is damaged, and is overwritten with the content in memory")
            metrics.pages.labels("repaired").inc()
        self._version = version_of(stored)

    async def _closed(self) -> list[_Closed]:
        selector = f"{labels.USAGE}=closed"
        listed = await self._client.list_metadata(kinds.CONFIG_MAPS, self._namespace, label_selector=selector)
        return [_closed_of(config_map) for config_map in listed.items if usagebook.number_of(config_map["metadata"]["name"])]

    async def _end_of(self, closed: Sequence[_Closed], begun: int) -> int:
        """The time up to which closed pages reach, from the last page's content: annotations may have been edited."""
        last = max(closed, key=lambda closed_page: closed_page.number, default=None)
        if last is None:
            return begun
        page = _readable(await self._client.get(kinds.CONFIG_MAPS, last.name, self._namespace))
        return max(closed_page.until for closed_page in closed) if page is None else page.until


def _continued(stored: Obj, last: int) -> Page | None:
    """The open page, if it can be read and its number is that of the last closed page or the one after."""
    page = _readable(stored)
    if page is not None and last and page.number not in {last, last + 1}:
        _log.error("the open page of usage has number %d, and the last closed one %d", page.number, last)
        return None
    return page


def _readable(stored: Obj) -> Page | None:
    try:
        return usagebook.page_of(stored)
    except UnreadableError as error:
        _log.error("stored usage cannot be read: ConfigMap %s: %s", stored["metadata"]["name"], error)
        return None


def _created(stored: Obj, now: int) -> int:
    """When the open page was created, which is when metering began."""
    at = seconds(stored["metadata"].get("creationTimestamp"))
    return now if at is None else round(at * 1000)


def _closed_of(obj: Obj) -> _Closed:
    noted = obj["metadata"].get("annotations") or {}
    until, size = (str(noted.get(key) or "") for key in (labels.USAGE_UNTIL, labels.USAGE_BYTES))
    name = str(obj["metadata"]["name"])
    return _Closed(
        name,
        uid_of(obj),
        usagebook.number_of(name),
        until=int(until) if until.isdecimal() and len(until) < 20 else 0,
        # A page without a size counts as the largest possible.
        size=int(size) if size.isdecimal() and len(size) < 10 else 1 << 20,
    )
