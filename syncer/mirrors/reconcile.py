"""Everything that is mirrored and is no pod, on its way to the host: ConfigMaps, Secrets, Services, claims and others.

ConfigMaps and Secrets are mirrored while a pod or an Ingress refers to them: the first reference makes the copy, before what
needs it; the last one takes it away. Services ask the host for the very ClusterIP that the plane gave them; when the host has
given it away, the tenant reads so and it is tried again. Deletion by absence needs the plane's own word, and passes the
mass-delete breaker.
"""

import asyncio
import contextlib
import logging
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from bulkhead.api import labels as marks
from bulkhead.kube.errors import ApiError, Conflict, NotFound, NotServed, Unprocessable
from bulkhead.kube.objects import Key, Meta, Obj, Resource, key_of, uid_of
from syncer.events import Recorder
from syncer.mirrors.copies import Copies
from syncer.mirrors.references import HOLDERS, ReferenceIndex, mirrored_references
from syncer.mirrors.slices import Slices
from syncer.mirrors.volumeclaims import Snapshots
from syncer.mirrors.volumes import Volumes
from syncer.quota.claims import Claims
from syncer.quota.waiting import Starved
from syncer.translate import Reason, TenantView, Untranslatable, diff, selectors
from syncer.translate.kinds import deviceclaim, disruptionbudget, endpointslice, nodeports, volumeclaim
from syncer.translate.kinds.service import address_of
from syncer.translate.metadata import WANTED
from syncer.translate.references import CLAIM, POD_GROUP
from syncer.translate.registry import KINDS, Translation
from syncer.watch.informers import MIRRORED, Caches
from syncer.work import Again, Item, Queue, Stale
from syncer.write import host as down
from syncer.write import refusals
from syncer.write.host import HostWriter
from syncer.write.massdelete import MassDeleteBreaker
from syncer.write.plane import VirtualWriter

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 30.0
_UNKNOWN_SECONDS: Final = 2.0
_ADDRESS_RETRY_SECONDS: Final = 15.0
# Kinds whose spec no API server lets change.
_UNCHANGING: Final = frozenset({deviceclaim.KIND, POD_GROUP})
# Refusals that say nothing of the object itself.
_BY_HOST: Final = frozenset({Reason.NAME_TAKEN, Reason.HOST_REFUSED, Reason.QUOTA_EXCEEDED})


class Mirrors:
    """Reconciles everything that is mirrored and is not a pod."""

    def __init__(
        self,
        caches: Caches,
        queue: Queue,
        host: HostWriter,
        virtual: VirtualWriter,
        *,
        references: ReferenceIndex,
        breaker: MassDeleteBreaker,
        recorder: Recorder,
        volumes: Volumes,
        claims: Claims,
        starved: Starved,
        slices: Slices,
    ) -> None:
        self._caches = caches
        self._queue = queue
        self._host = host
        self._virtual = virtual
        self._references = references
        self._breaker = breaker
        self._recorder = recorder
        self._volumes = volumes
        self._claims = claims
        self._starved = starved
        self.snapshots = Snapshots(caches, queue)
        self.slices = slices
        # Virtual and host version of ConfigMaps and Secrets when they were last found equal.
        self._equal: dict[Item, tuple[str, str]] = {}
        self._copies = Copies(caches, host)
        self._turns: WeakValueDictionary[Item, asyncio.Lock] = WeakValueDictionary()

    def queue(self, item: Item) -> None:
        """Look at an object soon."""
        if item.kind in KINDS:
            self._queue.add(item)

    async def ensure(self, item: Item) -> None:
        """Have a ConfigMap or Secret on the host before the pod that needs it; one that does not exist is no obstacle."""
        if item.kind in MIRRORED:
            async with self._turn(item):
                await self._referenced(item)

    async def reconcile(self, item: Item) -> float | None:
        """Bring one object forward; returns seconds after which to look again."""
        if not KINDS[item.kind].on_reference:
            return await self._watched(item) if self._caches.serves(item.kind) else await self._unserved(item)
        async with self._turn(item):
            if self._references.refers(item.kind, item.key):
                return await self._referenced(item)
            return await self._unreferenced(item)

    def _turn(self, item: Item) -> asyncio.Lock:
        """Pods that need a copy and the copy's own key meet here: one makes it, or takes it away, and the others see that."""
        return self._turns.setdefault(item, asyncio.Lock())

    async def _unreferenced(self, item: Item) -> float | None:
        self._equal.pop(item, None)
        held = self._copies.held(item)
        if held is None or held.deleting:
            return None
        if self._holders_unknown():
            # Its end comes without an event for this key: without another look the copy would stay.
            return _UNKNOWN_SECONDS
        return None if await self._copies.delete(item, held, "nothing refers to it") else _RETRY_SECONDS

    def _holders_unknown(self) -> bool:
        """Whether a host pod's own virtual pod is not there: what it refers to cannot be known, so nothing is taken from it."""
        for kind in HOLDERS:
            for meta in self._caches.host[kind].store.metas():
                who = self._caches.origin(meta)
                if who is None or who.kind != kind:
                    continue
                virtual = self._caches.virtual[kind].store.meta(Key(who.namespace, who.name))
                if virtual is None or virtual.uid != who.uid:
                    return True
        return False

    # -- ConfigMaps and Secrets

    async def _referenced(self, item: Item) -> float | None:
        r = MIRRORED[item.kind]
        held, meta = self._copies.surely_held(item), self._caches.virtual[item.kind].store.meta(item.key)
        if held is not None and meta is not None and self._equal.get(item) == (meta.resource_version, held.resource_version):
            return None
        virtual = await self._virtual.read(r, item.key)
        if virtual is None or virtual["metadata"].get("deletionTimestamp"):
            return await self._gone(item, self._copies.held(item)) if virtual is None else None
        try:
            desired = down.stamped(KINDS[item.kind].to_host(virtual, self._caches.view()))
            made = await self._write(item, desired, held)
            self._copies.confirm(item)
        except Untranslatable as refused:
            self._recorder.warn(virtual, str(refused.reason), str(refused))
            return _RETRY_SECONDS * 10
        if made is not None:
            self._equal[item] = (str(virtual["metadata"].get("resourceVersion")), str(made["metadata"].get("resourceVersion")))
        elif held is not None:
            self._equal[item] = (str(virtual["metadata"].get("resourceVersion")), held.resource_version)
        return None

    async def _write(self, item: Item, desired: Obj, held: Meta | None) -> Obj | None:
        r = MIRRORED[item.kind]
        if held is not None and held.annotation(WANTED) == desired["metadata"]["annotations"][WANTED]:
            return None
        if held is None:
            try:
                made = await self._host.create(r, desired, self._caches.view())
            except Stale as stale:
                made = stale.host
            if (made["metadata"].get("annotations") or {}).get(WANTED) == desired["metadata"]["annotations"][WANTED]:
                return made
            there = made["metadata"]
        else:
            there = msgspec.to_builtins(held)
        return await self._host.renew(r, desired, there, self._caches.view())

    async def _gone(self, item: Item, held: Meta | None) -> float | None:
        """The virtual object is proven absent."""
        self._equal.pop(item, None)
        if held is None or held.deleting:
            return None
        if not self._breaker.may_delete(item.kind, item.key):
            return _RETRY_SECONDS
        if item.kind == CLAIM:
            # First, as long as the host claim is there to tell of it after a crash.
            await self._volumes.release(held.annotation(marks.VIRTUAL_UID) or "")
        return None if await self._copies.delete(item, held, "virtual object is gone") else _RETRY_SECONDS

    # -- what is mirrored whether or not a pod refers to it

    async def _watched(self, item: Item) -> float | None:
        kind = KINDS[item.kind]
        virtual = self._caches.virtual[item.kind].store.get(item.key)
        host = self._caches.host[item.kind].store.get(self._caches.host_key(item.kind, item.key))
        if virtual is None:
            return await self._absent(item, host)
        if host is not None and host["metadata"].get("labels", {}).get(marks.VIRTUAL_UID) != uid_of(virtual):
            return await self._replaced(item, virtual, host)
        if virtual["metadata"].get("deletionTimestamp"):
            # What holds it goes first, its end is told; but nobody keeps by a finalizer what is not offered any more.
            return None if host is None or kind.may_stay(host, self._caches.view()) else await self._unwanted(item, host)
        if not kind.mirrored(virtual):
            return await self._unwanted(item, host)
        try:
            return await self._follow(item, virtual, host)
        except Untranslatable as refused:
            return await self._withdraw(item, host, refused) or await self._tell(kind, virtual, host, refused)

    async def _unserved(self, item: Item) -> float:
        """One side has no such kind, or not now: nothing is done on either, but the tenant is told."""
        virtual = self._caches.virtual[item.kind].store.get(item.key)
        if virtual is not None:
            refused = Untranslatable(Reason.NOT_SUPPORTED, self._caches.unserved(item.kind))
            self._recorder.warn(virtual, str(refused.reason), str(refused))
            if self._caches.host[item.kind].store.meta(self._caches.host_key(item.kind, item.key)) is None:
                await self._block(KINDS[item.kind], virtual, refused)
        return _RETRY_SECONDS

    async def _withdraw(self, item: Item, host: Obj | None, refused: Untranslatable) -> float | None:
        """Take away what an earlier form of a refused object left on the host, where it may not stay."""
        if refused.reason in _BY_HOST or (host is not None and KINDS[item.kind].may_stay(host, self._caches.view())):
            return None
        return await self._unwanted(item, host)

    async def _refer(self, item: Item, virtual: Obj) -> None:
        """What the object refers to comes to the host before it, and what it named before goes."""
        _, last = self._references.set(item, mirrored_references(item.kind, virtual))
        for each in sorted(self._references.of(item)):
            await self.ensure(each)
        for each in last:
            self.queue(each)

    def _release(self, item: Item) -> None:
        for each in self._references.forget(item):
            self.queue(each)

    async def _tell(self, kind: Translation, virtual: Obj, host: Obj | None, refused: Untranslatable) -> float:
        """Say why an object is refused, by event and by status where the kind has a place for it; a copy tells on."""
        again = self._refuse(virtual, refused)
        if kind.kind == deviceclaim.KIND and refusals.is_quota(refused):
            self._starved.add(key_of(virtual), kind.kind)
        if host is None:
            await self._block(kind, virtual, refused)
        elif kind.was_taken is not None:
            await self._report(kind, virtual, host)
        return again

    async def _block(self, kind: Translation, virtual: Obj, refused: Untranslatable) -> None:
        """Say in the status that an object has no place on the host, where the kind has a place for it."""
        if kind.blocked is not None:
            # A tenant can take the status out of a definition, or the whole API away; then the event has to do.
            with contextlib.suppress(NotFound):
                await self._virtual.refusal(virtual, refused, _resource(kind), kind.blocked)

    def _refuse(self, virtual: Obj, refused: Untranslatable) -> float:
        self._recorder.warn(virtual, str(refused.reason), str(refused))
        if refused.reason in {Reason.NAME_TAKEN, Reason.HOST_REFUSED}:
            return _ADDRESS_RETRY_SECONDS
        return _RETRY_SECONDS if refused.retriable else _RETRY_SECONDS * 10

    async def _absent(self, item: Item, host: Obj | None) -> float | None:
        """The cache has no virtual object any more: only the plane's own word counts."""
        if host is None:
            self._starved.forget(item.key, item.kind)
            self._release(item)
            return None
        # The copy that the question is about: the cache may show another one when it is answered.
        held = self._copies.held(item)
        if await self._virtual.read(MIRRORED[item.kind], item.key) is not None:
            return 1.0
        return await self._gone(item, held)

    async def _replaced(self, item: Item, virtual: Obj, host: Obj) -> float | None:
        """The host object is of an earlier virtual object of this name."""
        if host["metadata"].get("deletionTimestamp"):
            return 1.0
        held = self._copies.held(item)
        found = await self._virtual.read(_resource(KINDS[item.kind]), item.key)
        if found is None or uid_of(found) != uid_of(virtual):
            return 1.0
        return await self._gone(item, held) or 0.2

    async def _follow(self, item: Item, virtual: Obj, host: Obj | None) -> float | None:
        kind, view = KINDS[item.kind], self._caches.view()
        r = _resource(kind)
        desired = self._desired(kind, virtual, host)
        if item.kind in HOLDERS:
            await self._refer(item, virtual)
        try:
            if host is None:
                self.snapshots.check_new(item, virtual, desired)
                await self._make(item, desired, view)
                return None
            patch = diff.object_patch(desired, host)
            if patch is not None:
                await self._host.patch(r, key_of(host), patch.body, content_type=patch.content_type)
            await self._report(kind, virtual, host)
        except (Stale, diff.Recreate) as instead:
            old = instead.host if isinstance(instead, Stale) else host
            if old is not None:
                await self._host.delete(r, key_of(old), uid_of(old), grace=None, why="made anew for its virtual object")
            return 0.2
        except Conflict:
            return 0.2
        except NotServed:
            if not kind.optional or host is not None:
                raise
            # The watch of an API that was taken away may go on for minutes.
            return await self._unserved(item)
        except ApiError as error:
            if _address_taken(error, r.kind) and self._gives_way(address_of(virtual)):
                return _UNKNOWN_SECONDS
            raise _refusal(error, virtual, r.kind) from error
        return None

    def _desired(self, kind: Translation, virtual: Obj, host: Obj | None) -> Obj:
        """What should be on the host; the tenant is told what of it stays behind."""
        view = self._caches.view()
        if host is not None:
            # What their class withdrew since stops nothing of what a claim or a group that is there may still change.
            view = volumeclaim.as_made(view, host) if kind.kind == CLAIM else view
            view = view.standing() if kind.kind in _UNCHANGING else view
        if kind.kind == endpointslice.KIND:
            desired = endpointslice.to_host(virtual, view, self.slices.holders)
            remarks = endpointslice.left_out(virtual, view, self.slices.holders)
        elif kind.kind == disruptionbudget.KIND:
            desired, remarks = disruptionbudget.to_host(virtual, view, self._selected), []
        else:
            desired, remarks = kind.to_host(virtual, view), kind.remarks(virtual, view)
        for remark in remarks:
            self._recorder.warn(virtual, str(Reason.NOT_SUPPORTED), remark)
        return down.stamped(desired) if kind.stamped else desired

    async def _make(self, item: Item, desired: Obj, view: TenantView) -> None:
        """Create the host object; a claim for devices only where they fit beside what pods and claims hold."""
        if item.kind != deviceclaim.KIND:
            await self._host.create(MIRRORED[item.kind], desired, view)
            return
        place = key_of(desired)
        self._claims.claim(place, desired, item.kind)
        try:
            await self._host.create(MIRRORED[item.kind], desired, view)
        except (Stale, Again, Untranslatable, ApiError):
            self._claims.drop(place)
            raise
        self._starved.forget(item.key, item.kind)

    def _selected(self, selector: Obj) -> int:
        return sum(selectors.selects(selector, meta.labels or {}) for meta in self._caches.host["Pod"].store.metas())

    def _gives_way(self, address: str) -> bool:
        """Whether only node ports of the tenant's own are at an address: they look for another."""
        for host in self._caches.host["Service"].store.objects():
            meta = self._caches.host["Service"].store.meta(key_of(host)) if address_of(host) == address else None
            item = self._caches.work_of("Service", meta) if meta is not None else None
            if item is not None and item.kind == nodeports.KIND:
                self._queue.add(item)
                return True
        return False

    async def _report(self, kind: Translation, virtual: Obj, host: Obj) -> None:
        """Carry up what the host says of its object."""
        if kind.kind == CLAIM:
            await self._volumes.bind(virtual, host)
            fresh = await self._virtual.read(_resource(kind), key_of(virtual)) if _unbound(virtual, host) else virtual
            if fresh is None or uid_of(fresh) != uid_of(virtual):
                return
            virtual = fresh
        if kind.status_to_virtual is not None:
            await self._virtual.status(_resource(kind), virtual, kind.status_to_virtual(host, virtual, self._caches.view()))

    async def _unwanted(self, item: Item, host: Obj | None) -> float | None:
        self._release(item)
        if host is None:
            return None
        r = _resource(KINDS[item.kind])
        done = await self._host.delete(r, key_of(host), uid_of(host), grace=None, why="is not mirrored any more")
        return None if done else _RETRY_SECONDS


def _resource(kind: Translation) -> Resource:
    return MIRRORED[kind.kind]


def _unbound(virtual: Obj, host: Obj) -> bool:
    """Whether the cache still shows a claim without the volume that it was given just now."""
    return volumeclaim.is_bound(host) and not (virtual.get("spec") or {}).get("volumeName")


def _address_taken(error: ApiError, kind: str) -> bool:
    return kind == "Service" and isinstance(error, Unprocessable) and "already allocated" in error.message


def _refusal(error: ApiError, virtual: Obj, kind: str) -> Exception:
    """The host's no in the tenant's words; anything that is only trouble stays as it is."""
    if _address_taken(error, kind):
        address = address_of(virtual)
        return Untranslatable(
            Reason.HOST_REFUSED,
            f"address {address} is in use on the host; it is tried again, or delete and create the Service to get another",
            "spec.clusterIP",
        )
    hope = f"The {kind} is made when enough is free."
    return refusals.explain(error, str(virtual["metadata"].get("name", "")), hope) or error
