"""A kept-up copy of one kind: list, watch, list again when the server forgot where we were.

Never decodes a body by itself and never changes anything on the server. Objects lie in the store as encoded bytes with
decoded metadata; `managedFields` are dropped on arrival, and whatever else a `shrink` of the caller's drops.

    list ──> store ──> watch from there ──┬─ event ──────────> store ──> on_change
      ^                                   ├─ stream ended ───> same version or newer there? watch on
      └── Gone, rolled back, errors ──────┴─ anything else ──> wait, watch on

A list shows only what is there now. What vanished in between is reported as `deleted` with `relist=True`: an absence that
was inferred, not a deletion that was observed. A DELETED event of a watch has `relist=False`.

A server whose data was replaced may have reached our version in another history, and no answer shows that. A caller that knows
calls `list_again`: a list follows in which no version counts as known.

A `rolling` store keeps the newest of what has no end, such as events; what it forgets is not told.

An `optional` kind is one that a server may not serve. Then it counts as read, `served` is False, the store stays as it was
(an API that is switched off reports no deletion), and once in a while it is asked for again.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NoReturn, TypeAlias

import msgspec

from bulkhead.kube.client import Client
from bulkhead.kube.codec import compact
from bulkhead.kube.errors import (
    LONGEST_RETRY_AFTER_SECONDS,
    ApiError,
    Gone,
    KubeError,
    NotServed,
    ProtocolError,
    Throttled,
    Timeout,
    TooLarge,
    Unavailable,
)
from bulkhead.kube.objects import Key, Meta, Resource, is_older, version_number
from bulkhead.kube.store import Entry, Indexer, Store
from bulkhead.kube.watch import WATCH_SILENCE_SECONDS, WatchEvent

_log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 0.8
# With its spread at most 24 s, so that a server that is back is heard within half a minute.
_LONGEST_RETRY_SECONDS = LONGEST_RETRY_AFTER_SECONDS
_RETRY_SPREAD_SECONDS = 1.0  # within which informers that are to try at once do so
_FAILURES_BEFORE_RELIST = 3
_RETRY_UNSERVED_SECONDS = 20.0  # less than what the watchers of silence allow
_OBJECTS_BETWEEN_YIELDS = 100
_SHORT_WATCH_SECONDS = 1.0
_LISTED = 4  # times as large as what is kept of it a list may be: with `managedFields`, and what a `shrink` drops


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one object. `relist`: inferred from a relist, not observed in an event.

    `last` is a deleted object, encoded: as the event has it, or as it was held. A window into an answer, so copy what is kept.
    """

    kind: Literal["added", "modified", "deleted"]
    key: Key
    meta: Meta
    relist: bool = False
    last: bytes | msgspec.Raw = field(default=b"", compare=False, repr=False)


# What is stored of an object: its metadata and body, from the encoded object and its metadata where those are decoded already.
# An object with an empty body does not matter to the caller: nothing of it is stored, and it counts as deleted if it was.
Shrink: TypeAlias = Callable[[bytes | msgspec.Raw, Meta | None], tuple[Meta, bytes]]


class _WentBackError(ProtocolError):
    """A watch sent something older than what it had sent before."""


class Informer:
    """List + watch of one resource into a store."""

    def __init__(
        self,
        client: Client,
        r: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        on_change: Callable[[Change], None] | None = None,
        indexers: Mapping[str, Indexer] | None = None,
        metadata_only: bool = False,
        shrink: Shrink = compact,
        inactivity: float = WATCH_SILENCE_SECONDS,
        max_bytes: int = 256 * 1024 * 1024,
        rolling: bool = False,
        optional: bool = False,
    ) -> None:
        self.resource = r
        self.served = True
        self.store = Store(r, indexers or {}, max_bytes=max_bytes, rolling=rolling)
        self.resource_version = ""
        self.relists = 0
        # Whether the last list was larger than what is kept: what is beyond is not known.
        self.full = False
        self.last_error: KubeError | None = None
        # Called when a server that was away is heard again.
        self.on_back: Callable[[], None] = _nothing
        self._away = False
        self._hurry = asyncio.Event()
        # Ends the running list or watch. How often `list_again` was called: up to now, and before the last whole list began.
        self._round: asyncio.Timeout | None = None
        self._asked = self._answered = 0
        self._max_bytes = max_bytes
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._on_change = on_change
        self._metadata_only = metadata_only
        self._shrink = shrink
        self._inactivity = inactivity
        self._optional = optional
        self._synced = asyncio.Event()
        self._heard = 0.0
        self._failures = 0

    async def synced(self) -> None:
        """Wait for the first whole list."""
        await self._synced.wait()

    @property
    def has_synced(self) -> bool:
        """Whether the first list was read."""
        return self._synced.is_set()

    @property
    def max_bytes(self) -> int:
        """How much of the server's objects is kept at most."""
        return self._max_bytes

    def silence(self) -> float:
        """Seconds since the server last sent anything; infinite before the first time."""
        return asyncio.get_running_loop().time() - self._heard if self._heard else float("inf")

    def try_now(self) -> None:
        """Cut a pause short: another informer has heard this server. Each tries at its own moment within a second."""
        self._hurry.set()

    def list_again(self) -> None:
        """List once more, whatever the versions: the server's data was replaced. Ends a running list, watch or pause."""
        self._asked += 1
        if self._round is not None and not self._round.expired():
            self._round.reschedule(asyncio.get_running_loop().time())
        self._hurry.set()

    async def run(self) -> NoReturn:
        """Keep the store up to date until cancelled."""
        while True:
            try:
                await self._until_replaced()
            except (Gone, _WentBackError) as error:
                self._forget(error, "too old a version" if isinstance(error, Gone) else "older events again")
                if self._failures:
                    # Gone again at once: not compaction but a server that plays with us.
                    await self._pause(error)
                self._failures += 1
            except NotServed as error:
                await (self._unserved(error) if self._optional else self._pause(error))
            except KubeError as error:
                await self._pause(error)

    async def _until_replaced(self) -> None:
        """Follow the server until it or `list_again` ends that."""
        ends = self._round = asyncio.timeout(None)
        try:
            async with ends:
                await self._follow()
        except TimeoutError:
            if not ends.expired():
                raise
            _log.info("listing again: the data was replaced", extra={"resource": str(self.resource)})
        finally:
            self._round = None

    async def _follow(self) -> None:
        """List where no version is known, and watch from there until the server ends it."""
        if self._asked != self._answered:
            self.resource_version = ""
        if not self.resource_version:
            await self._list()
        elif await self._rolled_back():
            self._forget(ProtocolError(f"{self.resource}: the server's version is behind ours"), "rolled back")
            return
        await self._watch()

    # -- listing

    async def _list(self) -> None:
        seen: set[Key] = set()
        asked = self._asked
        version = ""
        full: TooLarge | None = None
        pages = self._client.pages(
            self.resource,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            metadata_only=self._metadata_only,
            most=_LISTED * self._max_bytes,
        )
        async for page in pages:
            self._hear()
            for position, raw in enumerate(page.items):
                meta, body = self._shrink(raw, None)
                seen.add(meta.key)
                try:
                    self._put(meta, body, relist=True, replaced=asked != self._answered)
                except TooLarge as error:
                    full = error
                if position % _OBJECTS_BETWEEN_YIELDS == _OBJECTS_BETWEEN_YIELDS - 1:
                    await asyncio.sleep(0)
            version = page.resource_version
        if version_number(version) is None:
            raise ProtocolError(f"list of {self.resource}: no resource version")
        for key in set(self.store.keys()) - seen:
            self._drop(key, relist=True)
        if full is not None:
            # What is gone has made room: the next list has it.
            raise full
        self.resource_version = version
        self._answered = asked
        self.relists += 1
        self.full = False
        self.served = True
        self._synced.set()

    async def _rolled_back(self) -> bool:
        """Whether the server counts from an earlier point than we: a restored or replaced plane.

        A watch from a version in the future is accepted and then silent about everything that happens before it, so this
        is asked before each watch that does not follow a list.
        """
        # The field selector is kept: a client that may read one object by its name may list nothing else.
        pages = self._client.pages(
            self.resource, self._namespace, limit=1, field_selector=self._field_selector, metadata_only=True
        )
        async with contextlib.aclosing(pages):
            async for page in pages:
                self._hear()
                return is_older(page.resource_version, self.resource_version)
        return False

    # -- watching

    async def _watch(self) -> None:
        events = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self.resource_version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            metadata_only=self._metadata_only,
            inactivity=self._inactivity,
        )
        started = asyncio.get_running_loop().time()
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    self._take(event)
                    if self._heard - started > _SHORT_WATCH_SECONDS:
                        self._failures = 0
        except Timeout:
            if asyncio.get_running_loop().time() - started < self._inactivity:
                raise
            # Silence is not a failure: bookmarks of quiet kinds come only where etcd reports progress. Whether the server
            # lives is asked before watching on.
            _log.debug("watch was silent", extra={"resource": str(self.resource)})
            return
        if asyncio.get_running_loop().time() - started < _SHORT_WATCH_SECONDS:
            # Watching on at once would be a loop as fast as the server can close.
            raise ProtocolError(f"watch of {self.resource}: ended at once")
        self._failures = 0

    def _take(self, event: WatchEvent) -> None:
        self._hear()
        self.last_error = None
        if version_number(event.meta.resource_version) is None:
            raise ProtocolError(f"watch of {self.resource}: event without resource version")
        if is_older(event.meta.resource_version, self.resource_version):
            # Events come in order. Taken, an older one would bring back an object of the same name that was replaced since.
            raise _WentBackError(f"watch of {self.resource}: event of version {event.meta.resource_version} after a later one")
        if event.type == "DELETED":
            self._drop(event.key, relist=False, final=event)
        elif event.type != "BOOKMARK":
            meta, body = self._shrink(event.raw, event.meta)
            if not self._outdated(meta):
                self._put(meta, body, relist=False)
        self.resource_version = event.meta.resource_version

    def _outdated(self, meta: Meta) -> bool:
        held = self.store.meta(meta.key)
        return held is not None and held.uid == meta.uid and is_older(meta.resource_version, held.resource_version)

    # -- the store and the caller

    def _put(self, meta: Meta, body: bytes, *, relist: bool, replaced: bool = False) -> None:
        """Store an object. `replaced`: its version may be the one that is held, of another history."""
        held = self.store.meta(meta.key)
        if not body:
            self._drop(meta.key, relist=relist)
            return
        if held is not None and held.uid != meta.uid:
            self._drop(meta.key, relist=relist)
            held = None
        if held is not None and held.resource_version == meta.resource_version and not replaced:
            return
        self.store.put(Entry(meta, body))
        self._tell(Change("added" if held is None else "modified", meta.key, meta, relist))

    def _drop(self, key: Key, *, relist: bool, final: WatchEvent | None = None) -> None:
        held, body = self.store.meta(key), self.store.body(key)
        if held is None:
            return
        if final is not None and final.meta.uid != held.uid:
            # The end of an object that was replaced by another of its name: ours lives on.
            return
        self.store.drop(key)
        self._tell(Change("deleted", key, final.meta if final else held, relist, final.raw if final else body or b""))

    def _tell(self, change: Change) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(change)
        except Exception:  # noqa: BLE001 -- logged with its trace
            # A bug in one callback must not stop the copy that all others read.
            _log.exception("change not handled", extra={"resource": str(self.resource), "object": str(change.key)})

    # -- trouble

    def _hear(self) -> None:
        self._heard = asyncio.get_running_loop().time()
        if self._away:
            self._away = False
            self.on_back()

    def _forget(self, error: KubeError, why: str) -> None:
        self.last_error = error
        self.resource_version = ""
        _log.info("listing again: %s", why, extra={"resource": str(self.resource)})

    async def _unserved(self, error: NotServed) -> None:
        """The server answers, and has no such kind."""
        self._hear()
        if self.served:
            _log.warning("not served: %s", error, extra={"resource": str(self.resource)})
        self.served = False
        self.last_error = error
        self.resource_version = ""
        self._failures = 0
        self._synced.set()
        await self._wait(_RETRY_UNSERVED_SECONDS)

    async def _pause(self, error: KubeError) -> None:
        self.last_error = error
        # Without a version it was a list: a watch may meet one large object among many that went.
        self.full = self.full or (isinstance(error, TooLarge) and not self.resource_version)
        self._failures += 1
        away = isinstance(error, Unavailable | Timeout | Throttled)
        self._away = self._away or away
        if not away and self._failures % _FAILURES_BEFORE_RELIST == 0:
            # A server that was merely away reports by watch what happened meanwhile, deletions included; a list cannot.
            self._forget(error, "repeated errors")
        delay: float = min(_LONGEST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2 ** min(self._failures - 1, 10))
        delay *= random.uniform(0.5, 1.5)  # noqa: S311 -- spreading load, not secrets
        if isinstance(error, ApiError) and error.retry_after is not None:
            delay = max(delay, error.retry_after)
        _log.warning("watch failed: %s", error, extra={"resource": str(self.resource), "retry_in": round(delay, 1)})
        await self._wait(delay)

    async def _wait(self, delay: float) -> None:
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._hurry.wait()
                await asyncio.sleep(random.uniform(0, _RETRY_SPREAD_SECONDS))  # noqa: S311 -- spreading load, not secrets


def _nothing() -> None:
    """The default of callbacks."""
