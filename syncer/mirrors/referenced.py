"""Copies of what is mirrored on reference, ConfigMaps and Secrets: there as long as something mirrored refers to them.

    first reference       -> read in the plane, written to the host, before the holder that needs it
    virtual one changed   -> read and written again, unless both versions are those that were last found equal
    last reference gone   -> deleted, unless there is a host object whose references cannot be known
    virtual one gone      -> deleted, as for every other kind

Their bodies are in no cache, so each is read when it is needed.
"""

import asyncio
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, Meta, version_of
from syncer.events import Recorder
from syncer.mirrors.copies import Copies
from syncer.mirrors.references import HOLDERS, ReferenceIndex
from syncer.translate import Untranslatable
from syncer.translate.metadata import WANTED
from syncer.translate.registry import KINDS
from syncer.watch.informers import Caches
from syncer.work import Item, Stale
from syncer.write.host import HostWriter, stamped
from syncer.write.plane import VirtualWriter

_UNKNOWN_SECONDS: Final = 2.0
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
    ) -> None:
        self._caches = caches
        self._host = host
        self._virtual = virtual
        self._references = references
        self._copies = copies
        self._recorder = recorder
        # Virtual and host version when they were last found equal.
        self._equal: dict[Item, tuple[str, str]] = {}
        self._turns: WeakValueDictionary[Item, asyncio.Lock] = WeakValueDictionary()

    async def ensure(self, item: Item) -> None:
        """Create the copy on the host before the object that needs it; a missing virtual object is not an error."""
        async with self._turn(item):
            await self._needed(item)

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one object; returns the seconds after which to do so again."""
        async with self._turn(item):
            if self._references.refers(item.kind, item.key):
                return await self._needed(item)
            return await self._unneeded(item)

    def _turn(self, item: Item) -> asyncio.Lock:
        """Serialise pods that need a copy with the copy's own key: one creates or deletes it, and the others see the result."""
        return self._turns.setdefault(item, asyncio.Lock())

    async def _unneeded(self, item: Item) -> float | None:
        self._equal.pop(item, None)
        held = self._copies.held(item)
        if held is None or held.deleting:
            return None
        if self._holders_unknown():
            # Its end comes without an event for this key: unless this is tried again the copy would stay.
            return _UNKNOWN_SECONDS
        return await self._copies.delete(item, held, "nothing refers to it")

    def _holders_unknown(self) -> bool:
        """Whether a host object's own virtual object is not there: what that refers to is unknown, so no copy is deleted."""
        for kind in (holder for holder in HOLDERS if holder in self._caches.kinds):
            for meta in self._caches.host[kind].store.metas():
                identity = self._caches.origin(meta)
                if identity is None or identity.kind != kind:
                    continue
                virtual = self._caches.virtual[kind].store.meta(Key(identity.namespace, identity.name))
                if virtual is None or virtual.uid != identity.uid:
                    return True
        return False

    async def _needed(self, item: Item) -> float | None:
        held, meta = self._copies.surely_held(item), self._caches.virtual[item.kind].store.meta(item.key)
        if held is not None and meta is not None and self._equal.get(item) == (meta.resource_version, held.resource_version):
            return None
        virtual = await self._virtual.read(self._caches.kinds[item.kind], item.key)
        if virtual is None:
            self._equal.pop(item, None)
            return await self._copies.delete_absent(item, self._copies.held(item))
        if virtual["metadata"].get("deletionTimestamp"):
            return None
        try:
            version = await self._write(item, stamped(KINDS[item.kind].to_host(virtual, self._caches.view())), held)
        except Untranslatable as refused:
            self._recorder.warn(virtual, str(refused.reason), str(refused))
            return _REFUSED_SECONDS
        self._copies.confirm(item)
        self._equal[item] = (version_of(virtual), version)
        return None

    async def _write(self, item: Item, desired: Obj, held: Meta | None) -> str:
        """Create or renew the copy where it is not as desired; returns its version."""
        r, wanted = self._caches.kinds[item.kind], desired["metadata"]["annotations"][WANTED]
        if held is not None:
            if held.annotation(WANTED) == wanted:
                return held.resource_version
            return version_of(await self._host.renew(r, desired, msgspec.to_builtins(held), self._caches.view()))
        try:
            there = await self._host.create(r, desired, self._caches.view())
        except Stale as stale:
            there = stale.host
        if (there["metadata"].get("annotations") or {}).get(WANTED) == wanted:
            return version_of(there)
        return version_of(await self._host.renew(r, desired, there["metadata"], self._caches.view()))
