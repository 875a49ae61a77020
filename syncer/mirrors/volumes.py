"""The tenant's side of a bound claim: its PersistentVolume, the binding, and the end of the volume with its claim.

    host claim bound -> virtual PersistentVolume created, marked Bound -> virtual claim gets volumeName -> its status says Bound
    host claim gone, or without a volume again -> volume Failed, until the host has bound the claim again
    virtual claim gone -> volume Released and deleted -> host claim deleted (by `reconcile`): a crash in between loses nothing

The plane runs no volume binder: what it would write is written here. Volumes that a tenant created itself are never touched.
"""

import logging
from typing import Any, Final

from bulkhead.api import labels as marks
from bulkhead.api.claimnotes import BIND_COMPLETED, BOUND_BY_CONTROLLER
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, NotFound
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from bulkhead.work.remembered import Remembered
from syncer import metrics
from syncer.logs import about
from syncer.translate.kinds import volumeclaim

_log = logging.getLogger(__name__)

_REMEMBERED: Final = 20_000
_GONE: Final = "the host no longer has this volume"


class Volumes:
    """Writes volumes into the plane."""

    def __init__(self, plane: Client) -> None:
        self._plane = plane
        # UIDs of claims whose volume this process found right, with the size that it then had.
        self._known: Remembered[str, str] = Remembered(_REMEMBERED)

    async def bind(self, virtual: Obj, host: Obj) -> None:
        """Give a virtual claim its volume once the host has bound its mirror."""
        if not volumeclaim.is_bound(host):
            return
        wanted = volumeclaim.volume(virtual, host)
        size = str(wanted["spec"]["capacity"]["storage"])
        if self._known.get(uid_of(virtual)) != size:
            await self._create(wanted)
        spec = virtual.get("spec") or {}
        if spec.get("volumeName") != wanted["metadata"]["name"]:
            await self._point(virtual, wanted["metadata"]["name"])
        self._known[uid_of(virtual)] = size

    def forget_plane(self) -> None:
        """The plane's data was replaced: an older copy has claims whose volumes were made after it."""
        self._known.clear()

    async def _create(self, wanted: Obj) -> None:
        name = wanted["metadata"]["name"]
        try:
            volume = await self._plane.create(PERSISTENT_VOLUMES, wanted)
            metrics.virtual_write("PersistentVolume", "create")
            _log.info("virtual volume created", extra=about("PersistentVolume", Key("", name)))
        except AlreadyExists:
            volume = await self._plane.get(PERSISTENT_VOLUMES, name)
        capacity = wanted["spec"]["capacity"]
        if marks.is_platforms(volume) and (volume.get("spec") or {}).get("capacity") != capacity:
            metrics.virtual_write("PersistentVolume", "patch")
            await self._plane.patch(PERSISTENT_VOLUMES, name, {"spec": {"capacity": capacity}})
        if (volume.get("status") or {}).get("phase") != "Bound":
            await self._phase(volume, "Bound")

    async def _point(self, virtual: Obj, name: str) -> None:
        key = key_of(virtual)
        annotations = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
        body: dict[str, Any] = {
            "metadata": {"uid": uid_of(virtual), "annotations": annotations},
            "spec": {"volumeName": name},
        }
        metrics.virtual_write("PersistentVolumeClaim", "patch")
        await self._plane.patch(PERSISTENT_VOLUME_CLAIMS, key.name, body, key.namespace)

    async def fail(self, claim_uid: str) -> None:
        """Show that the host no longer has a volume for a claim.

        The virtual volume stays: a scheduler of the tenant's own places pods only where the volumes of their claims exist, and
        a claim may get its next volume only after its pod was placed.
        """
        self._known.pop(claim_uid, None)
        try:
            volume = await self._plane.get(PERSISTENT_VOLUMES, volumeclaim.volume_name(claim_uid))
            if marks.is_platforms(volume) and (volume.get("status") or {}).get("phase") == "Bound":
                await self._phase(volume, "Failed", _GONE)
        except (NotFound, Conflict):
            return

    async def _phase(self, volume: Obj, phase: str, message: str | None = None) -> None:
        body = {"metadata": {"uid": uid_of(volume)}, "status": {"phase": phase, "message": message}}
        metrics.virtual_write("PersistentVolume", "status")
        await self._plane.patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], body, subresource="status")

    async def release(self, claim_uid: str) -> None:
        """Release and delete the volume of a claim that is gone."""
        self._known.pop(claim_uid, None)
        try:
            volume = await self._plane.get(PERSISTENT_VOLUMES, volumeclaim.volume_name(claim_uid))
            if not marks.is_platforms(volume):
                return
            if (volume.get("status") or {}).get("phase") != "Released":
                # Its protection holds a volume for as long as it counts as bound.
                await self._phase(volume, "Released")
            if not volume["metadata"].get("deletionTimestamp"):
                metrics.virtual_write("PersistentVolume", "delete")
                await self._plane.delete(PERSISTENT_VOLUMES, volume["metadata"]["name"], uid=uid_of(volume))
        except (NotFound, Conflict):
            return
