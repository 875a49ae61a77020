"""Applies planned objects to the host by server-side apply, in parallel within a stage; unchanged objects cost no write.

If the host rejects writes because a field is immutable, all such objects of a stage raise one `Unchangeable`: a retry never
succeeds, and the caller decides whether the rest goes on without them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping

from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.apply import ApplyMemory
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError, KubeError, Unprocessable
from bulkhead.kube.objects import Key, Resource, key_of
from controller.decide.extras import Refused
from controller.decide.plan import Deletion
from controller.existing import Slot, slot_of
from controller.tenant.failure import failure_of
from controller.tenant.observe import Observed
from controller.unchangeable import unchangeable

_log = logging.getLogger(__name__)
_PARALLEL = 6
_EXTRA_SECONDS = 15.0
_SERVICE_TRIES = 60
_SERVICE_PAUSE = 0.05


class Outdated(Exception):  # noqa: N818 - a state of what was observed, not a failure
    """The observation is older than the host's state: observe again before deciding anything else."""


class Unchangeable(Unprocessable):
    """Some objects were not written, because their fields are immutable; all other objects of the stage were."""

    def __init__(self, refused: tuple[Refused, ...]) -> None:
        super().__init__(
            422, "Invalid", "; ".join(f"{refusal.slot.kind} {refusal.slot.name}: {refusal.words}" for refusal in refused)
        )
        self.refused = refused


class Applier:
    """Writes through the host's client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._memory = ApplyMemory()
        self._slots = asyncio.Semaphore(_PARALLEL * 4)
        self.applied = 0
        self.skipped = 0

    async def stage(self, objects: Iterable[Obj], observed: Mapping[tuple[Resource, Key], Obj]) -> int:
        """Apply a stage; returns the number of writes. Raises the first error after all other writes have finished.

        Raises Unchangeable only if every error is of that kind.
        """
        objects = tuple(objects)
        results = await asyncio.gather(
            *(self._apply(obj, observed.get((_resource(obj), key_of(obj)))) for obj in objects), return_exceptions=True
        )
        refused = []
        for obj, result in zip(objects, results, strict=True):
            if isinstance(result, ApiError) and unchangeable(result.status, result.message):
                refused.append(Refused(slot_of(obj), Reason.HOST_REFUSED, result.message))
            elif isinstance(result, BaseException):
                raise result
        if refused:
            raise Unchangeable(tuple(refused))
        return sum(result is True for result in results)

    async def create_only(self, objects: Iterable[Obj], observed: Mapping[tuple[Resource, Key], Obj]) -> int:
        """Like `stage`, but an object that was not observed is only created: existing keys must not be replaced."""
        objects = list(objects)
        there = [obj for obj in objects if (_resource(obj), key_of(obj)) in observed]
        missing = [obj for obj in objects if obj not in there]
        try:
            await asyncio.gather(*(self._create(obj) for obj in missing))
        except AlreadyExists as error:
            raise Outdated(f"keys exist that this reconcile had not observed: {error}") from error
        return await self.stage(there, observed) + len(missing)

    async def delete(self, deletions: Iterable[Deletion], observed: Mapping[tuple[Resource, Key], Obj]) -> None:
        """Delete orphans, each only if it is still the observed object. Raises the first error after all deletions."""
        results = await asyncio.gather(*(self._delete(deletion, observed) for deletion in deletions), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def extras(
        self, objects: Iterable[Obj], deletions: Iterable[Deletion], observed: Mapping[tuple[Resource, Key], Obj]
    ) -> tuple[Refused, ...]:
        """Apply and delete objects independently of each other; returns those that failed, and never raises for them."""
        refused = await asyncio.gather(
            *(self._tried(slot_of(obj), self.stage([obj], observed)) for obj in objects),
            *(self._tried(deletion.slot, self.delete([deletion], observed), deleting=True) for deletion in deletions),
        )
        return tuple(refusal for refusal in refused if refusal is not None)

    async def _tried(self, slot: Slot, call: Awaitable[object], *, deleting: bool = False) -> Refused | None:
        try:
            # A webhook of the host may block for longer than the tenant's other objects should wait.
            async with asyncio.timeout(_EXTRA_SECONDS):
                await call
        except Unchangeable as error:
            return error.refused[0]
        except (KubeError, TimeoutError) as error:
            why = failure_of(error)
            return Refused(slot, why.reason, why.message, deleting)
        return None

    def forget(self, namespaces: Iterable[str]) -> None:
        """Drop the records of a deleted tenant's namespaces."""
        self._memory.forget(frozenset(namespaces))

    async def _create(self, obj: Obj) -> None:
        async with self._slots:
            await self._client.create(_resource(obj), obj)
        self.applied += 1

    async def _delete(self, deletion: Deletion, observed: Mapping[tuple[Resource, Key], Obj]) -> None:
        kind, namespace, name = deletion.slot
        resource = next((r for r, key in observed if r.kind == kind and key == Key(namespace, name)), None)
        if resource is None:
            return
        _log.info("deleting orphan", extra={"object": f"{kind} {namespace}/{name}"})
        async with self._slots:
            await self._client.delete(resource, name, namespace or None, uid=deletion.uid or None)

    async def _apply(self, intent: Obj, observed: Obj | None) -> bool:
        if self._memory.unchanged(intent, observed):
            self.skipped += 1
            return False
        async with self._slots:
            result = await self._write(_resource(intent), intent)
        self.applied += 1
        self._memory.remember(intent, left=result)
        return True

    async def _write(self, resource: Resource, intent: Obj) -> Obj:
        if resource is not kinds.SERVICES:
            return await self._client.apply(resource, intent)
        for _ in range(_SERVICE_TRIES):
            try:
                return await self._client.apply(resource, intent)
            except ApiError as error:
                # The host takes a moment to learn of a new ServiceCIDR. Until then it reports that the address is in no range.
                if not _no_range_yet(error):
                    raise
            await asyncio.sleep(_SERVICE_PAUSE)
        return await self._client.apply(resource, intent)


class Stages:
    """The stages of one facet of one tenant.

    If the tenant was built before, an immutable object is reported and does not block the rest: it stays as it is in any case.
    If the tenant was not built before, it blocks every later stage: no plane is better than an unprotected one.
    """

    def __init__(self, applier: Applier, observed: Observed) -> None:
        self._applier = applier
        self._built = observed.built
        self._there = observed.objects
        self.refused: tuple[Refused, ...] = ()

    async def apply(self, objects: Iterable[Obj]) -> None:
        """Apply one stage."""
        await self._through(self._applier.stage(objects, self._there))

    async def create_only(self, objects: Iterable[Obj]) -> None:
        """Apply one stage without overwriting objects that were not observed."""
        await self._through(self._applier.create_only(objects, self._there))

    async def _through(self, stage: Awaitable[object]) -> None:
        try:
            await stage
        except Unchangeable as error:
            if not self._built:
                raise
            self.refused = (*self.refused, *error.refused)


def _no_range_yet(error: ApiError) -> bool:
    text = str(error)
    return (
        "clusterIP" in text
        and ("range" in text or "allocator" in text or "not ready" in text)
        and "already allocated" not in text
    )


def _resource(obj: Obj) -> Resource:
    return kinds.resource_of(str(obj["apiVersion"]), str(obj["kind"]))
