"""Brings planned objects onto an API server: server-side apply, side by side within a stage, nothing for what is already so.

The memory is a shortcut and no truth: it says that an intent was applied and what the object looked like afterwards, status and
bookkeeping left out. Anything else seen later means drift, and the intent is applied again.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping

import msgspec

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError
from bulkhead.kube.objects import Key, Obj, Resource, key_of, uid_of
from controller.decide.plan import Deletion

_log = logging.getLogger(__name__)
_PARALLEL = 6
_MEMORY = 20_000
_SERVICE_TRIES = 60
_SERVICE_PAUSE = 0.05


class Outdated(Exception):  # noqa: N818 - a state of our copy, not a failure
    """What was seen is older than what is there: look again before anything else is decided."""


class Applier:
    """Applies through the host's client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: OrderedDict[tuple[Resource, Key], tuple[bytes, bytes]] = OrderedDict()
        self._slots = asyncio.Semaphore(_PARALLEL * 4)
        self.applied = 0
        self.skipped = 0

    async def stage(self, objects: Iterable[Obj], observed: Mapping[tuple[Resource, Key], Obj]) -> int:
        """Apply a stage; returns how many writes that took. The first error is raised once the others are through."""
        results = await asyncio.gather(
            *(self._apply(obj, observed.get((_resource(obj), key_of(obj)))) for obj in objects), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return sum(result is True for result in results)

    async def create_only(self, objects: Iterable[Obj], observed: Mapping[tuple[Resource, Key], Obj]) -> int:
        """Like `stage`, but what was not seen is created and never written over: keys that exist must not be replaced."""
        objects = list(objects)
        there = [obj for obj in objects if (_resource(obj), key_of(obj)) in observed]
        missing = [obj for obj in objects if obj not in there]
        try:
            await asyncio.gather(*(self._create(obj) for obj in missing))
        except AlreadyExists as error:
            raise Outdated(f"keys exist that were not seen: {error}") from error
        return await self.stage(there, observed) + len(missing)

    async def delete(self, deletions: Iterable[Deletion], observed: Mapping[tuple[Resource, Key], Obj]) -> None:
        """Delete orphans, each only if it is still the object that was observed."""
        for deletion in deletions:
            kind, namespace, name = deletion.slot
            resource = next((r for r, key in observed if r.kind == kind and key == Key(namespace, name)), None)
            if resource is None:
                continue
            _log.info("deleting orphan", extra={"object": f"{kind} {namespace}/{name}"})
            await self._client.delete(resource, name, namespace or None, uid=deletion.uid or None)

    def forget(self, namespaces: Iterable[str]) -> None:
        """Drop what is known of a tenant that is gone."""
        gone = set(namespaces)
        for slot in [slot for slot in self._known if slot[1].namespace in gone or slot[1].name in gone]:
            del self._known[slot]

    async def _create(self, obj: Obj) -> None:
        async with self._slots:
            await self._client.create(_resource(obj), obj)
        self.applied += 1

    async def _apply(self, intent: Obj, observed: Obj | None) -> bool:
        resource, key = _resource(intent), key_of(intent)
        digest = _digest(intent)
        if observed is not None and self._known.get((resource, key)) == (digest, _essence(observed)):
            self.skipped += 1
            return False
        async with self._slots:
            result = await self._write(resource, intent)
        self.applied += 1
        self._known[resource, key] = (digest, _essence(result))
        self._known.move_to_end((resource, key))
        if len(self._known) > _MEMORY:
            self._known.popitem(last=False)
        return True

    async def _write(self, resource: Resource, intent: Obj) -> Obj:
        if resource is not kinds.SERVICES:
            return await self._client.apply(resource, intent)
        for _ in range(_SERVICE_TRIES):
            try:
                return await self._client.apply(resource, intent)
            except ApiError as error:
                # The host takes a moment to learn of a new ServiceCIDR, and says until then that the address is in no range.
                if not _no_range_yet(error):
                    raise
            await asyncio.sleep(_SERVICE_PAUSE)
        return await self._client.apply(resource, intent)


def _no_range_yet(error: ApiError) -> bool:
    text = str(error)
    return (
        "clusterIP" in text
        and ("range" in text or "allocator" in text or "not ready" in text)
        and "already allocated" not in text
    )


def _resource(obj: Obj) -> Resource:
    return kinds.resource_of(str(obj["apiVersion"]), str(obj["kind"]))


def _digest(obj: Obj) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(obj, order="deterministic"), digest_size=16).digest()


def _essence(obj: Obj) -> bytes:
    """What of a stored object counts: identity, labels, annotations and content."""
    meta = obj["metadata"]
    kept = {key: value for key, value in obj.items() if key not in {"metadata", "status", "apiVersion", "kind"}}
    marks = [meta.get("labels"), {k: v for k, v in (meta.get("annotations") or {}).items() if not k.startswith("deployment.")}]
    return _digest({"content": kept, "marks": marks, "uid": uid_of(obj), "going": meta.get("deletionTimestamp")})
