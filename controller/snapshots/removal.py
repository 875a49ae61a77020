"""Deletes what is stored of a scheduled snapshot whose object is being deleted, then takes the object's finalizer off.

    object deleted ──> its manifest is read ──> parts, then the manifest, are deleted ──> finalizer taken off
                   └─ none, another plane's, not signed here, too large ──> nothing stored is touched ──> finalizer taken off

The manifest goes last: a controller that dies in between leaves one that names missing parts, which counts for nothing and is
found again. One at a time, with pauses after failures; the object says why it is still there.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, KubeError, NotFound
from bulkhead.signing import SignatureError
from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import RefusedError
from bulkhead.snapshots.layout import MANIFEST, LayoutError, folder
from bulkhead.snapshots.manifest import Manifest
from bulkhead.snapshots.target import AbsentError, Target, TargetError, TooLargeError
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock
from controller.snapshots import status
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.places import Places
from controller.snapshots.schedule import FINALIZER, Plane, has_finalizer, slot_of

_log = logging.getLogger(__name__)
_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 300.0
_ATTEMPT_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of one snapshot: paths in the order in which they are deleted."""

    paths: tuple[str, ...]


class SnapshotRemovals:
    """The removals of one controller; close it at the end, and whenever the lease is lost."""

    def __init__(self, client: Client, clock: Clock, places: Places, tasks: SnapshotTasks) -> None:
        self._client = client
        self._clock = clock
        self._at = places
        self._taking = tasks
        self._one = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def has_place(self, name: str) -> bool:
        """Whether snapshots can be stored at a target, and so deleted; the installation's own has no name."""
        return self._at.at(name) is not None

    def order(self, request: Obj) -> None:
        """Remove what is stored of this object, unless that goes on already."""
        uid = str(request["metadata"]["uid"])
        if not has_finalizer(request) or not request["metadata"].get("deletionTimestamp"):
            return
        task = self._tasks.get(uid)
        if task is None or task.done():
            name = f"removal of snapshot {request['metadata']['name']}"
            self._tasks[uid] = asyncio.create_task(self._run(uid, request), name=name)

    async def close(self) -> None:
        """End all."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, uid: str, request: Obj) -> None:
        backoff = Backoff(_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        # What still takes it would store it after it was looked for.
        await self._taking.end(uid)
        while True:
            try:
                async with self._one, asyncio.timeout(_ATTEMPT_SECONDS):
                    await self._remove(request)
                    await self._release(request)
            except (TargetError, KubeError, SignatureError, TimeoutError) as error:
                why = str(error) or "the target did not answer in time"
                _log.warning("cannot remove what is stored of %s: %s", request["metadata"]["name"], why)
                await self._report(request, why)
                await self._clock.sleep(backoff.next())
                continue
            break
        self._tasks.pop(uid, None)

    async def _remove(self, request: Obj) -> None:
        name = request["metadata"]["name"]
        place = text(mapping(request.get("status")).get("target"))
        means = self._at.at(place)
        if means is None:
            _log.warning("snapshot %s stays stored: %s", name, self._at.missing(place))
            return
        target, ring = means.target(), await means.ring()
        try:
            stored = stored_of(request, await reading.named(target, ring, _identity(request), str(name)))
        except AbsentError:
            location = text(mapping(request.get("status")).get("location"))
            if location and not location.startswith(f"{target.place}/"):
                _log.warning("snapshot %s stays stored at %s: the target is %s now", name, location, target.place)
            return
        except (RefusedError, LayoutError, TooLargeError) as error:
            _log.warning("what is stored of snapshot %s stays: %s", name, error)
            return
        await _delete(target, stored)
        _log.info("snapshot %s is deleted, with what was stored of it", name)

    async def _release(self, request: Obj) -> None:
        """Take the finalizer off the object as it is now."""
        try:
            there = await self._client.get(kinds.TENANT_SNAPSHOTS, request["metadata"]["name"])
        except NotFound:
            return
        if there["metadata"]["uid"] != request["metadata"]["uid"]:
            return
        rest = [entry for entry in there["metadata"].get("finalizers") or [] if entry != FINALIZER]
        meta = {"finalizers": rest, "resourceVersion": there["metadata"]["resourceVersion"]}
        try:
            await self._client.patch(kinds.TENANT_SNAPSHOTS, there["metadata"]["name"], {"metadata": meta})
        except NotFound:
            return
        except Conflict:
            _log.info("snapshot %s changed meanwhile", there["metadata"]["name"])
            raise

    async def _report(self, request: Obj, why: str) -> None:
        body = {"metadata": {"uid": request["metadata"]["uid"]}, "status": status.removing(request, why, self._now())}
        try:
            await self._client.patch(kinds.TENANT_SNAPSHOTS, request["metadata"]["name"], body, subresource="status")
        except KubeError as error:
            _log.info("cannot report on a removal: %s", error)

    def _now(self) -> datetime:
        return self._clock.now()


def stored_of(request: Obj, found: Manifest) -> Stored:
    """The paths that belong to this object alone. Raises RefusedError if a manifest is of another snapshot or plane. Pure."""
    name, tenant = str(request["metadata"]["name"]), text(mapping(request.get("spec")).get("tenant"))
    identity = _identity(request)
    if (found.snapshot, found.identity, found.tenant) != (name, identity, tenant):
        raise RefusedError(f"its manifest is of snapshot {found.snapshot} of plane {found.identity} (Tenant {found.tenant})")
    reported = text(mapping(request.get("status")).get("identity"))
    if slot_of(request, Plane(tenant, identity)) is None or (reported and reported != identity):
        raise RefusedError("it is not one that a schedule asked for, or its labels were changed")
    home = folder(identity, name)
    return Stored((*(f"{home}/{found.attempt}/{part}" for part in found.parts), f"{home}/{MANIFEST}"))


def _identity(request: Obj) -> str:
    return text(mapping(request["metadata"].get("labels")).get(labels.SCHEDULED))


async def _delete(target: Target, stored: Stored) -> None:
    for path in stored.paths:
        await target.delete(path)
