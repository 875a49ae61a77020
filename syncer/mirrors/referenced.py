"""Copies of what is mirrored on reference, ConfigMaps and Secrets: there as long as something mirrored refers to them.

    first reference       -> read in the plane, written to the host, before the holder that needs it
    virtual one changed   -> read and written again, unless both versions are those that were last found equal
    last reference gone   -> deleted, unless a host object without its virtual one names it
    virtual one gone      -> deleted, as for every other kind
    all too large         -> what is there stays as it is; what is new, or grows, waits for room
    refused by the host   -> what needs it says so, and waits with it

Their bodies are in no cache, so each is read when it is needed.
"""

import asyncio
from collections.abc import Iterator
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Key, Meta, version_of
from bulkhead.work.clock import Clock
from syncer.events import Recorder
from syncer.mirrors.copies import RETRY_SECONDS, Copies
from syncer.mirrors.references import HOLDERS, ON_REFERENCE, ReferenceIndex
from syncer.mirrors.room import MOST_BYTES, Room
from syncer.translate import Reason, Untranslatable
from syncer.translate.metadata import WANTED
from syncer.translate.registry import KINDS
from syncer.watch.informers import Caches
from syncer.work import Again, Item, Stale
from syncer.write import refusals
from syncer.write.host import HostWriter, stamped
from syncer.write.plane import VirtualWriter

_UNKNOWN_SECONDS: Final = 2.0
_NAMED_SECONDS: Final = 1.0
_UNLOOKED_SECONDS: Final = 1.0
_REFUSED_SECONDS: Final = 300.0


class Referenced:
    """Reconciles what is mirrored on reference."""

    def __init__(
        self,
        caches: Caches,
        host: HostWriter,
        virtual: VirtualWriter,
        *,
        references: ReferenceIndex,
        copies: Copies,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._host = host
        self._virtual = virtual
        self._references = references
        self._copies = copies
        self._recorder = recorder
        self._clock = clock
        # When they were last read, and what was found.
        self._named: tuple[float, frozenset[tuple[str, str]]] = (float("-inf"), frozenset())
        # Virtual and host version when they were last found equal.
        self._equal: dict[Item, tuple[str, str]] = {}
        self._sizes: Room | None = None
        self._turns: WeakValueDictionary[Item, asyncio.Lock] = WeakValueDictionary()

    async def ensure(self, item: Item) -> None:
        """Create the copy on the host before the object that needs it; a missing virtual object is not an error.

        Raises Untranslatable if the host refuses the copy, for lack of quota perhaps.
        """
        async with self._turn(item):
            try:
                await self._needed(item)
            finally:
                self._room.looked_at(item)

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one object; returns the seconds after which to do so again."""
        async with self._turn(item):
            needed = self._references.refers(item.kind, item.key)
            try:
                again = await (self._needed(item) if needed else self._unneeded(item))
            except Untranslatable as refused:
                again = RETRY_SECONDS if refused.retriable else _REFUSED_SECONDS
            self._room.looked_at(item)
            return again

    def forget_plane(self) -> None:
        """The plane's data was replaced: its versions may be those that were found equal, of other contents."""
        self._equal.clear()

    def _turn(self, item: Item) -> asyncio.Lock:
        """Serialise pods that need a copy with the copy's own key: one creates or deletes it, and the others see the result."""
        return self._turns.setdefault(item, asyncio.Lock())

    async def _unneeded(self, item: Item) -> float | None:
        self._equal.pop(item, None)
        held = self._copies.held(item)
        if held is None:
            self._room.free(item)
        if held is None or held.deleting:
            return None
        if (item.kind, held.name) in self._named_by_others():
            # Its end comes without an event for this key: unless this is tried again the copy would stay.
            return _UNKNOWN_SECONDS
        return await self._copies.delete(item, held, "nothing refers to it")

    def _named_by_others(self) -> frozenset[tuple[str, str]]:
        """Kind and host name of what host objects name whose own virtual object is not there: after a restart only those know.

        Such a pod may linger on a dead node for days, so it holds no copy but those that it names. They only become fewer
        while this process runs, and many keys ask at once: an answer counts for a second.
        """
        now = self._clock.monotonic()
        if now - self._named[0] >= _NAMED_SECONDS:
            self._named = now, frozenset(self._read_names())
        return self._named[1]

    def _read_names(self) -> Iterator[tuple[str, str]]:
        for holder in (holder for holder in HOLDERS if holder in self._caches.kinds):
            store = self._caches.host[holder].store
            for meta in store.metas():
                if self._is_alone(holder, meta):
                    for reference in KINDS[holder].references(store.get(meta.key) or {}):
                        yield reference.kind, reference.name

    def _is_alone(self, kind: str, meta: Meta) -> bool:
        """Whether the virtual object of a host object is not there, or another one of its name is."""
        identity = self._caches.origin(meta)
        if identity is None or identity.kind != kind:
            return False
        virtual = self._caches.virtual[kind].store.meta(Key(identity.namespace, identity.name))
        return virtual is None or virtual.uid != identity.uid

    async def _needed(self, item: Item) -> float | None:
        held, meta = self._copies.surely_held(item), self._caches.virtual[item.kind].store.meta(item.key)
        if held is not None and meta is not None and self._equal.get(item) == (meta.resource_version, held.resource_version):
            return None
        virtual = await self._virtual.read(self._caches.kinds[item.kind], item.key)
        if virtual is None:
            self._equal.pop(item, None)
            if self._copies.held(item) is None:
                self._room.free(item)
            return await self._copies.delete_absent(item, self._copies.held(item))
        # One that is being deleted and is held by a finalizer is there for pods, as a kubelet reads it.
        try:
            version = await self._write(item, stamped(KINDS[item.kind].to_host(virtual, self._caches.view())), held)
        except Untranslatable as refused:
            self._recorder.warn(virtual, str(refused.reason), str(refused))
            return _REFUSED_SECONDS
        except ApiError as error:
            refusal = refusals.explain(error, item.key.name, f"The {item.kind} is copied when enough is free.")
            if refusal is None:
                raise
            self._recorder.warn(virtual, str(refusal.reason), str(refusal))
            raise refusal from error
        self._copies.confirm(item)
        self._equal[item] = (version_of(virtual), version)
        return None

    @property
    def _room(self) -> Room:
        if self._sizes is None:
            # The host's caches are read before the first key is worked on.
            self._sizes = Room(self._there(), MOST_BYTES)
        return self._sizes

    def _there(self) -> Iterator[Item]:
        for kind in ON_REFERENCE:
            for meta in self._caches.host[kind].store.metas():
                item = self._caches.work_of(kind, meta)
                if item is not None and item.kind == kind:
                    yield item

    async def _write(self, item: Item, desired: Obj, held: Meta | None) -> str:
        """Create or renew the copy where it is not as desired; returns its version."""
        r, wanted = self._caches.kinds[item.kind], desired["metadata"]["annotations"][WANTED]
        size = len(msgspec.json.encode(desired))
        if held is not None and held.annotation(WANTED) == wanted:
            self._room.set(item, size)
            return held.resource_version
        if not self._room.take(item, size):
            if not self._room.knows_others(item):
                raise Again(_UNLOOKED_SECONDS, "the sizes of other copies are not known yet")
            message = f"ConfigMaps and Secrets that pods and Ingresses use may have {MOST_BYTES >> 20} MiB together"
            raise Untranslatable(Reason.TOO_LARGE, message, "data")
        if held is not None:
            return version_of(await self._host.renew(r, desired, msgspec.to_builtins(held), self._caches.view()))
        try:
            there = await self._host.create(r, desired, self._caches.view())
        except Stale as stale:
            there = stale.host
        if (there["metadata"].get("annotations") or {}).get(WANTED) == wanted:
            return version_of(there)
        return version_of(await self._host.renew(r, desired, there["metadata"], self._caches.view()))
