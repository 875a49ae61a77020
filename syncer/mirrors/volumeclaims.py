"""What volume snapshots need of the runtime beside the mirror: is a claim's source on the host yet, and was one taken before.

A claim that is filled from a snapshot is made after the snapshot's mirror, and hears when that comes. Only memory, no I/O.
"""

from typing import Final

from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Obj
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds import volumeclaim
from syncer.translate.kinds.snapshot import KIND
from syncer.translate.registry import KINDS
from syncer.watch.informers import Caches
from syncer.work import Item, Queue

_MOST_WAITING: Final = 10_000


class Snapshots:
    """Looks at the caches, and remembers which claims wait for which host snapshot."""

    def __init__(self, caches: Caches, queue: Queue) -> None:
        self._caches = caches
        self._queue = queue
        self._waiting: dict[str, set[Item]] = {}

    def check_new(self, item: Item, virtual: Obj, desired: Obj) -> None:
        """Let a claim wait for the snapshot that it is filled from; refuse to take anew what was taken and is gone."""
        was_taken = KINDS[item.kind].was_taken
        if was_taken is not None and was_taken(virtual):
            raise Untranslatable(Reason.HOST_REFUSED, "what was taken is no longer on the host; delete it and make another")
        if item.kind != "PersistentVolumeClaim" or not (name := volumeclaim.snapshot_below(desired)):
            return
        informer = self._caches.host.get(KIND)
        meta = informer.store.meta(Key(self._caches.settings.work_namespace, name)) if informer is not None else None
        if meta is not None and not meta.deleting and self._caches.origin(meta) is not None:
            return
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.setdefault(name, set()).add(item)
        text = "waits for its VolumeSnapshot, which is not on the host yet; the snapshot's own events say why"
        raise Untranslatable(Reason.REFERENCE_MISSING, text, "spec.dataSource")

    def seen(self, change: Change) -> None:
        """A host snapshot came, changed or went."""
        if change.kind != "deleted":
            for item in self._waiting.pop(change.key.name, ()):
                self._queue.add(item)
