"""PersistentVolumeClaims: their volumes in the plane, and the snapshots that some of them are filled from.

new claim of a snapshot -> waits until the snapshot's copy is on the host, which queues it
host claim bound        -> `volumes` binds the virtual claim, then its status is written
    new, virtual bound  -> made a second time: the tenant reads that the data is lost
host claim gone, and refused now -> volume Failed and virtual claim Lost, until the host claim is made again
virtual claim gone      -> `volumes` releases its volume, then the host claim is deleted
    and host claim gone -> `volumes` releases its volume
"""

from collections.abc import Iterable
from typing import Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta, key_of, uid_of
from bulkhead.kube.resources import PERSISTENT_VOLUME_CLAIMS
from bulkhead.work.remembered import Remembered
from syncer.events import Recorder
from syncer.mirrors.follower import Follower
from syncer.mirrors.volumes import Volumes
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds import snapshot, volumeclaim
from syncer.translate.references import CLAIM
from syncer.watch.informers import Caches, Subscription
from syncer.work import Item, Queue
from syncer.write.host import HostWriter
from syncer.write.plane import VirtualWriter

_MOST_WAITING: Final = 10_000
_LOST: Final = "the host no longer has the volume of this claim and makes a new, empty one; what the volume held is not in it"
_GONE: Final = "the host no longer has the volume of this claim, and makes no other now; other events of the claim say why"


class VolumeClaims(Follower):
    """Remembers which claims wait for which host snapshot, and has volumes bound and released."""

    def __init__(
        self, caches: Caches, queue: Queue, host: HostWriter, virtual: VirtualWriter, *, volumes: Volumes, recorder: Recorder
    ) -> None:
        super().__init__(CLAIM)
        self._host = host
        self._recorder = recorder
        self._caches = caches
        self._queue = queue
        self._virtual = virtual
        self._volumes = volumes
        self._waiting: dict[str, set[Item]] = {}
        # UIDs of claims that are gone in the plane, until their volumes are released.
        self._ended: Remembered[Key, str] = Remembered(_MOST_WAITING)

    def subscriptions(self) -> Iterable[Subscription]:
        """Host snapshots, and virtual claims."""
        return (
            Subscription("host", snapshot.KIND, self._snapshot_changed),
            Subscription("virtual", CLAIM, self._claim_changed),
        )

    def _claim_changed(self, change: Change) -> None:
        if change.kind == "deleted":
            self._ended[change.key] = change.meta.uid

    def before_create(self, item: Item, desired: Obj) -> None:
        """Let a claim wait for the snapshot that it is filled from."""
        name = volumeclaim.snapshot_on_host(desired)
        if not name:
            return
        informer = self._caches.host.get(snapshot.KIND)
        meta = informer.store.meta(Key(self._caches.settings.work_namespace, name)) if informer is not None else None
        if meta is not None and not meta.deleting and self._caches.origin(meta) is not None:
            return
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.setdefault(name, set()).add(item)
        text = "waits for its VolumeSnapshot, which is not on the host yet; the snapshot's events say why"
        raise Untranslatable(Reason.REFERENCE_MISSING, text, "spec.dataSource")

    def _snapshot_changed(self, change: Change) -> None:
        if change.kind != "deleted":
            for item in self._waiting.pop(change.key.name, ()):
                self._queue.add(item)

    def forget_plane(self) -> None:
        """Have volumes looked at again."""
        self._volumes.forget_plane()

    async def before_status(self, virtual: Obj, host: Obj) -> Obj | None:
        """Bind the claim to its volume; the status is for the claim that has it."""
        if volumeclaim.has_lost_its_volume(virtual, host):
            self._recorder.warn(virtual, str(Reason.VOLUME_LOST), _LOST)
        if volumeclaim.had_volume(virtual) and not volumeclaim.is_bound(host):
            await self._volumes.fail(uid_of(virtual))
        await self._volumes.bind(virtual, host)
        if not volumeclaim.is_bound(host) or (virtual.get("spec") or {}).get("volumeName"):
            return virtual
        # The cache still shows the claim without the volume that it was given just now.
        fresh = await self._virtual.read(PERSISTENT_VOLUME_CLAIMS, key_of(virtual))
        return fresh if fresh is not None and uid_of(fresh) == uid_of(virtual) else None

    async def without_copy(self, item: Item, virtual: Obj) -> None:
        """Show a claim as lost that had a volume, once the host itself says that the copy is gone."""
        if not volumeclaim.had_volume(virtual) or (virtual.get("status") or {}).get("phase") == volumeclaim.LOST:
            return
        if await self._host.read(PERSISTENT_VOLUME_CLAIMS, self._caches.host_key(CLAIM, item.key)) is not None:
            return
        self._recorder.warn(virtual, str(Reason.VOLUME_LOST), _GONE)
        await self._volumes.fail(uid_of(virtual))
        await self._virtual.status(PERSISTENT_VOLUME_CLAIMS, virtual, {"phase": volumeclaim.LOST})

    async def before_delete(self, copy: Meta) -> None:
        """Release the volume first: after a crash the host claim is all that still shows that this is to be done."""
        uid = copy.annotation(marks.VIRTUAL_UID) or ""
        await self._volumes.release(uid)
        identity = self._caches.origin(copy)
        if identity is not None and self._ended.get(key := Key(identity.namespace, identity.name)) == uid:
            del self._ended[key]

    async def gone(self, item: Item) -> None:
        """Release the volume of a claim whose host claim went before it: nothing on the host shows that this is to be done."""
        uid = self._ended.get(item.key)
        if uid is None:
            return
        found = await self._virtual.read(PERSISTENT_VOLUME_CLAIMS, item.key)
        if found is None or uid_of(found) != uid:
            await self._volumes.release(uid)
        if self._ended.get(item.key) == uid:
            del self._ended[item.key]
