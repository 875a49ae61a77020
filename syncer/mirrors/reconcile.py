"""The reconcile of all mirrored kinds except pods. It knows no kind by name.

    Item ──> mirrored on reference? ── yes ──> `referenced`
                  └─ no ──> virtual gone, or another       -> copy deleted, once a read of the plane proves the absence
                            deleted, and held by something -> copy stays, unless it may not
                            no longer mirrored, or refused -> copy deleted, unless it may stay; the tenant reads why
                            else                           -> references first, then create or patch, then status back

A kind's entry in `syncer.translate.registry` says what it is; what needs more at run time is a `follower`.
"""

import contextlib
from collections.abc import Mapping
from typing import Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube.errors import ApiError, Conflict, NotFound, NotServed
from bulkhead.kube.objects import Meta, key_of, uid_of
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered
from syncer.events import Recorder
from syncer.mirrors.copies import RETRY_SECONDS, Copies
from syncer.mirrors.follower import Follower
from syncer.mirrors.referenced import Referenced
from syncer.mirrors.references import HOLDERS, ReferenceIndex, mirrored_references
from syncer.quota.claims import Claims
from syncer.quota.waiting import Starved
from syncer.translate import Reason, TenantView, Untranslatable, diff
from syncer.translate.registry import KINDS, Translation
from syncer.watch.informers import Caches
from syncer.work import Again, Item, Queue, Stale
from syncer.write import refusals
from syncer.write.host import HostWriter, stamped
from syncer.write.massdelete import MassDeleteBreaker
from syncer.write.plane import VirtualWriter

_REFUSED_SECONDS: Final = 300.0
_BY_HOST_SECONDS: Final = 15.0
_BEHIND_SECONDS: Final = 1.0
_SOON_SECONDS: Final = 0.2
_REMEMBERED: Final = 10_000
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
        claims: Claims,
        starved: Starved,
        followers: Mapping[str, Follower],
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._queue = queue
        self._host = host
        self._virtual = virtual
        self._references = references
        self._recorder = recorder
        self._claims = claims
        self._starved = starved
        self._followers = followers
        # By UID of a virtual object: the status of its copy, which was withdrawn.
        self._withdrawn: Remembered[str, Obj] = Remembered(_REMEMBERED)
        self._copies = Copies(caches, host, breaker, followers)
        self._referenced = Referenced(
            caches, host, virtual, references=references, copies=self._copies, recorder=recorder, clock=clock
        )

    def forget_plane(self) -> None:
        """The plane's data was replaced: drop what was remembered of it by UID or version."""
        self._referenced.forget_plane()
        for follower in self._followers.values():
            follower.forget_plane()

    def queue(self, item: Item) -> None:
        """Reconcile an object soon."""
        self._queue.add(item)

    async def ensure(self, item: Item) -> None:
        """Have a copy of what is mirrored on reference on the host, before the pod that needs it."""
        await self._referenced.ensure(item)

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one object; returns the seconds after which to do so again."""
        if KINDS[item.kind].on_reference:
            return await self._referenced.reconcile(item)
        return await self._watched(item) if self._caches.serves(item.kind) else await self._unserved(item)

    async def _watched(self, item: Item) -> float | None:
        kind = KINDS[item.kind]
        virtual = self._caches.virtual[item.kind].store.get(item.key)
        host = self._caches.host[item.kind].store.get(self._caches.host_key(item.kind, item.key))
        if virtual is None:
            return await self._absent(item, host)
        if host is not None and host["metadata"].get("labels", {}).get(marks.VIRTUAL_UID) != uid_of(virtual):
            return await self._replaced(item, virtual, self._copies.held(item))
        if virtual["metadata"].get("deletionTimestamp"):
            # What holds it goes first, and its end is an event; but no finalizer keeps a copy that may not stay.
            return None if host is None or kind.may_stay(host, self._caches.view()) else await self._unwanted(item, host)
        if not kind.mirrored(virtual):
            return await self._unwanted(item, host)
        try:
            return await self._follow(item, virtual, host)
        except Untranslatable as refused:
            return await self._not_accepted(item, virtual, host, refused)

    # -- the virtual object is gone

    async def _absent(self, item: Item, host: Obj | None) -> float | None:
        """The cache no longer has the virtual object: only a read of the plane proves that it is gone."""
        if host is None:
            self._starved.forget(item.key, item.kind)
            self._release(item)
            await self._followers[item.kind].gone(item)
            return None
        # The copy that the question is about: the cache may show another one when it is answered.
        held = self._copies.held(item)
        if await self._virtual.read(self._caches.kinds[item.kind], item.key) is not None:
            return _BEHIND_SECONDS
        return await self._copies.delete_absent(item, held)

    async def _replaced(self, item: Item, virtual: Obj, copy: Meta | None) -> float | None:
        """The copy on the host is of an earlier virtual object of this name; None if it was deleted already."""
        if copy is not None and copy.deleting:
            return _BEHIND_SECONDS
        found = await self._virtual.read(self._caches.kinds[item.kind], item.key)
        if found is None or uid_of(found) != uid_of(virtual):
            return _BEHIND_SECONDS
        return await self._copies.delete_absent(item, copy) or _SOON_SECONDS

    async def _unwanted(self, item: Item, host: Obj | None) -> float | None:
        self._release(item)
        if host is None:
            return None
        r = self._caches.kinds[item.kind]
        done = await self._host.delete(r, key_of(host), uid_of(host), grace=None, why="is no longer mirrored")
        return None if done else RETRY_SECONDS

    # -- the virtual object is there

    async def _follow(self, item: Item, virtual: Obj, host: Obj | None) -> float | None:
        kind, r, follower = KINDS[item.kind], self._caches.kinds[item.kind], self._followers[item.kind]
        desired = self._desired(kind, virtual, host)
        if item.kind in HOLDERS:
            await self._refer(item, virtual)
        try:
            if host is None:
                if kind.was_taken is not None and kind.was_taken(virtual):
                    text = "its data is no longer on the host; delete it and create another"
                    raise Untranslatable(Reason.HOST_REFUSED, text)
                follower.before_create(item, desired)
                await self._create(item, desired, self._caches.view())
                return None
            patch = diff.object_patch(desired, host)
            if patch is not None:
                follower.before_patch(host, desired)
                await self._host.patch(r, key_of(host), patch.body, content_type=patch.content_type)
            await self._status(kind, virtual, host)
        except Stale as stale:
            # The cache does not show it yet.
            return await self._replaced(item, virtual, codec.decode_meta(codec.encode(stale.host)))
        except (diff.Recreate, Conflict) as instead:
            if isinstance(instead, diff.Recreate) and host is not None:
                await self._host.delete(r, key_of(host), uid_of(host), grace=None, why="recreated for its virtual object")
            return _SOON_SECONDS
        except NotServed:
            if not kind.optional or host is not None:
                raise
            # The watch of an API that was taken away may go on for minutes.
            return await self._unserved(item)
        except ApiError as error:
            answer = follower.refused(error, virtual) or _explained(error, virtual, item.kind)
            if isinstance(answer, float):
                return answer
            raise answer from error
        return None

    def _desired(self, kind: Translation, virtual: Obj, host: Obj | None) -> Obj:
        """The desired host object; an event tells the tenant which parts are not mirrored."""
        view = self._caches.view()
        desired, remarks = self._followers[kind.kind].translate(
            virtual, view if host is None else kind.view_of_copy(view, host)
        )
        for remark in remarks:
            self._recorder.warn(virtual, str(Reason.NOT_SUPPORTED), remark, beside=True)
        return stamped(desired) if kind.stamped else desired

    async def _create(self, item: Item, desired: Obj, view: TenantView) -> None:
        """Create the host object; what asks for devices only where they fit beside what pods and others hold."""
        if not KINDS[item.kind].counted:
            await self._host.create(self._caches.kinds[item.kind], desired, view)
            return
        place = key_of(desired)
        self._claims.claim(place, desired, item.kind)
        try:
            await self._host.create(self._caches.kinds[item.kind], desired, view)
        except (Stale, Again, Untranslatable, ApiError):
            self._claims.drop(place)
            raise
        self._starved.forget(item.key, item.kind)

    async def _status(self, kind: Translation, virtual: Obj, host: Obj) -> None:
        """Write the status of the host object to the virtual one."""
        current = await self._followers[kind.kind].before_status(virtual, host)
        if current is not None and kind.status_to_virtual is not None:
            status = kind.status_to_virtual(host, current, self._caches.view())
            await self._virtual.status(self._caches.kinds[kind.kind], current, status)

    # -- the virtual object is refused

    async def _not_accepted(self, item: Item, virtual: Obj, host: Obj | None, refused: Untranslatable) -> float:
        """Say why an object is refused; the host copy of its earlier form, and what it refers to, go unless they may stay."""
        kind = KINDS[item.kind]
        if refused.reason in _BY_HOST or (host is not None and kind.may_stay(host, self._caches.view())):
            return await self._refuse(kind, virtual, host, refused)
        return await self._withdraw(item, virtual, host) or await self._refuse(kind, virtual, None, refused)

    async def _withdraw(self, item: Item, virtual: Obj, host: Obj | None) -> float | None:
        """Delete the host copy of a refused object's earlier form, which may not stay."""
        kind = KINDS[item.kind]
        if host is not None and kind.status_to_virtual is not None:
            self._withdrawn[uid_of(virtual)] = kind.status_to_virtual(host, virtual, self._caches.view())
        return await self._unwanted(item, host)

    async def _take_back(self, kind: Translation, virtual: Obj) -> None:
        """Take the status of a withdrawn copy out of the virtual object.

        Another status than the copy's is not ours: a controller that the tenant runs may serve the object now.
        """
        given = self._withdrawn.get(uid_of(virtual))
        if given is None or kind.status_to_virtual is None:
            return
        if self._virtual.shows(virtual, given):
            none = kind.status_to_virtual({}, virtual, self._caches.view())
            await self._virtual.status(self._caches.kinds[kind.kind], virtual, none)
        self._withdrawn.pop(uid_of(virtual), None)

    async def _refuse(self, kind: Translation, virtual: Obj, host: Obj | None, refused: Untranslatable) -> float:
        """Say why an object is refused, by event, and by status where it has no copy and the kind has a place for it.

        A copy that stays is served as before, so its status is followed.
        """
        self._recorder.warn(virtual, str(refused.reason), str(refused))
        if kind.counted and refusals.is_quota(refused):
            self._starved.add(key_of(virtual), kind.kind)
        if host is None:
            await self._block(kind, virtual, refused)
            await self._take_back(kind, virtual)
            await self._followers[kind.kind].without_copy(Item(kind.kind, key_of(virtual)), virtual)
        else:
            await self._status(kind, virtual, host)
        if refused.reason in {Reason.NAME_TAKEN, Reason.HOST_REFUSED}:
            return _BY_HOST_SECONDS
        return RETRY_SECONDS if refused.retriable else _REFUSED_SECONDS

    async def _unserved(self, item: Item) -> float:
        """Tell the tenant that one side does not serve the kind; nothing is done on either side."""
        virtual = self._caches.virtual[item.kind].store.get(item.key)
        if virtual is not None and KINDS[item.kind].needs_host(self._caches.view()):
            refused = Untranslatable(Reason.NOT_SUPPORTED, self._caches.unserved(item.kind))
            self._recorder.warn(virtual, str(refused.reason), str(refused))
            if self._caches.host[item.kind].store.meta(self._caches.host_key(item.kind, item.key)) is None:
                await self._block(KINDS[item.kind], virtual, refused)
        return RETRY_SECONDS

    async def _block(self, kind: Translation, virtual: Obj, refused: Untranslatable) -> None:
        """Say in the status that an object has no place on the host, where the kind has a place for it."""
        if kind.blocked is not None:
            # A tenant can take the status out of a definition, or the whole API away; then the event has to do.
            with contextlib.suppress(NotFound):
                await self._virtual.refusal(virtual, refused, self._caches.kinds[kind.kind], kind.blocked)

    # -- references

    async def _refer(self, item: Item, virtual: Obj) -> None:
        """Mirror what the object refers to before it, and remove what it no longer refers to."""
        _, last = self._references.set(item, mirrored_references(item.kind, virtual))
        for reference in sorted(self._references.of(item)):
            await self.ensure(reference)
        for reference in last:
            self.queue(reference)

    def _release(self, item: Item) -> None:
        for reference in self._references.forget(item):
            self.queue(reference)


def _explained(error: ApiError, virtual: Obj, kind: str) -> Exception:
    """The host's refusal in the tenant's words; any other error stays as it is."""
    when_free = f"The {kind} is made when enough is free."
    return refusals.explain(error, str(virtual["metadata"].get("name", "")), when_free) or error
