"""Writes to the host: create, update, delete of mirrored objects. Every one passes the budget, and so do reads past the caches.

Never adopts an object without our markers, never deletes without a UID precondition, and never deletes while the plane is
quarantined. All of it may be repeated after a crash: a create that meets our own object of the same virtual UID is done.

For ConfigMaps and Secrets an annotation holds the hash of what was last written: their host bodies are not kept here, and an
object that did not change costs neither a write nor a read, not even after a restart.
"""

import contextlib
import hashlib
import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, NotFound, Unprocessable
from bulkhead.kube.objects import Key, Resource, key_of, uid_of
from bulkhead.work.remembered import Remembered
from syncer import metrics
from syncer.logs import about
from syncer.translate import Reason, TenantView, Untranslatable, origin, othersmarks
from syncer.translate.metadata import WANTED
from syncer.work import Again, Stale
from syncer.write.budget import WriteBudget
from syncer.write.identity import PlaneIdentity

_log = logging.getLogger(__name__)

_REMEMBERED: Final = 20_000
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def digest(desired: Obj) -> str:
    """What `WANTED` holds for an object."""
    return hashlib.sha256(_encode(desired)).hexdigest()[:32]


def stamped(desired: Obj) -> Obj:
    """`desired` with the hash of itself."""
    meta = desired["metadata"]
    return desired | {"metadata": meta | {"annotations": (meta.get("annotations") or {}) | {WANTED: digest(desired)}}}


class HostWriter:
    """The only place that writes mirrored objects on the host."""

    def __init__(self, client: Client, budget: WriteBudget, identity: PlaneIdentity) -> None:
        self._client = client
        self._budget = budget
        self._identity = identity
        # What was posted, by kind and key: for which virtual object.
        self._posted: Remembered[tuple[str, Key], str] = Remembered(_REMEMBERED)

    async def create(self, r: Resource, desired: Obj, view: TenantView) -> Obj:
        """Create, or find that it was created before; `Stale` when the name belongs to an earlier virtual object.

        A host charges each create to its quotas, refused or not, until it recounts. So an object that was created and is not in
        the cache yet is read before it is created again.
        """
        place, uid = (r.kind, key_of(desired)), str((desired["metadata"].get("labels") or {}).get(marks.VIRTUAL_UID) or "")
        if uid and self._posted.get(place) == uid and (found := await self.read(r, place[1])) is not None:
            return self._adopted(found, desired, view)
        await self._budget.take()
        self._posted[place] = uid
        try:
            made = await self._client.create(r, desired)
        except AlreadyExists:
            return await self._adopt(r, desired, view)
        self._wrote(r, "create", made)
        _log.info("host object created", extra=about(r.kind, _origin_key(desired), host=made["metadata"]["name"]))
        return made

    async def _adopt(self, r: Resource, desired: Obj, view: TenantView) -> Obj:
        found = await self.read(r, key_of(desired))
        if found is None:
            raise Again(0.1, "host object was deleted while it was read")
        return self._adopted(found, desired, view)

    @staticmethod
    def _adopted(found: Obj, desired: Obj, view: TenantView) -> Obj:
        """The existing object, if it was created for the same virtual object."""
        owner = origin.of_host(found, view)
        if owner is None:
            raise Untranslatable(
                Reason.NAME_TAKEN, "an object that the platform did not create has this object's name on the host"
            )
        if owner.uid != desired["metadata"]["labels"][marks.VIRTUAL_UID]:
            raise Stale(found)
        if found["metadata"].get("deletionTimestamp"):
            raise Again(0.5, "host object is still being deleted")
        return found

    async def replace(self, r: Resource, desired: Obj, uid: str) -> Obj:
        """Write an object whole, if it is still the one with this UID."""
        await self._budget.take()
        written = await self._client.replace(r, desired | {"metadata": desired["metadata"] | {"uid": uid}})
        self._wrote(r, "update", written)
        return written

    async def renew(self, r: Resource, desired: Obj, there: Mapping[str, Any], view: TenantView) -> Obj:
        """Replace the copy with this metadata, or recreate it; what others added to it stays if possible."""
        uid = str(there["uid"])
        tried = othersmarks.kept(desired, there)
        with contextlib.suppress(Unprocessable):
            return await self.replace(r, tried, uid)
        # The cache may not show the latest annotations yet; the host's policies let none of them be dropped or put back.
        found = await self.read(r, key_of(desired))
        if found is not None and uid_of(found) == uid and (again := othersmarks.kept(desired, found["metadata"])) != tried:
            with contextlib.suppress(Unprocessable):
                return await self.replace(r, again, uid)
        # An immutable field: the copy is recreated, and its readers keep what they have mounted until they restart.
        await self.delete(r, key_of(desired), uid, grace=None, why="cannot be changed in place")
        return await self.create(r, desired, view)

    async def patch(
        self,
        r: Resource,
        key: Key,
        body: Any,
        *,
        subresource: str | None = None,
        content_type: str | None = None,
        urgent: bool = False,
    ) -> Obj:
        """Patch an object; the body carries the UID where that matters."""
        await self._budget.take(urgent=urgent)
        options = {} if content_type is None else {"content_type": content_type}
        written = await self._client.patch(r, key.name, body, key.namespace, subresource=subresource, **options)
        self._wrote(r, "patch", written)
        return written

    async def delete(self, r: Resource, key: Key, uid: str, *, grace: int | None, why: str, version: str | None = None) -> bool:
        """Delete one exact object, with `version` as it was seen. False when the plane is not trusted and nothing was done."""
        return (await self.end(r, key, uid, grace=grace, why=why, version=version))[0]

    async def end(
        self, r: Resource, key: Key, uid: str, *, grace: int | None, why: str, version: str | None = None
    ) -> tuple[bool, Obj | None]:
        """Delete as `delete` does; also returns the object as the host last had it, where it says so."""
        if not await self._identity.trusted():
            _log.warning("host object kept: plane not trusted", extra=about(r.kind, key, why=why))
            return False, None
        await self._budget.take()
        try:
            last = await self._client.delete(r, key.name, key.namespace, grace_seconds=grace, uid=uid, resource_version=version)
        except Conflict:
            # Another object has the name by now, or another version: the one that was meant is gone.
            return True, None
        self._posted.pop((r.kind, key), None)
        self._wrote(r, "delete", last)
        _log.info("host object deleted", extra=about(r.kind, key, why=why, grace=grace))
        return True, last

    def _wrote(self, r: Resource, verb: str, kept: Obj | None) -> None:
        """Count a write, and charge its size in the host's store."""
        metrics.host_write(r.kind, verb)
        self._budget.spend(len(_encode(kept)) if kept else 0)

    async def read(self, r: Resource, key: Key) -> Obj | None:
        """Read from the host's API server, past the cache; None where there is no such object."""
        await self._budget.take_read()
        try:
            return await self._client.get(r, key.name, key.namespace)
        except NotFound:
            return None


def _origin_key(desired: Obj) -> Key:
    annotations = desired["metadata"].get("annotations") or {}
    return Key(annotations.get(marks.VIRTUAL_NAMESPACE, ""), annotations.get(marks.VIRTUAL_NAME, ""))
