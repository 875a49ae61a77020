"""The copies on the host: deletes them, and knows of those that it deleted what the cache does not show yet.

    answered "deleted"     -> the copy is gone, although the cache may go on showing it for a while
    no answer              -> it may be gone: what needs it creates it again, which finds it if it is there

Only memory: after a restart the first list shows what there is.
"""

from typing import Final

from bulkhead.kube.objects import Meta
from bulkhead.work.remembered import Remembered
from syncer.watch.informers import MIRRORED, Caches
from syncer.work import Item
from syncer.write.host import HostWriter

_REMEMBERED: Final = 10_000


class Copies:
    """See the module."""

    def __init__(self, caches: Caches, host: HostWriter) -> None:
        self._caches = caches
        self._host = host
        # UIDs of copies that were deleted, and of those whose deletion was not answered.
        self._gone: Remembered[Item, str] = Remembered(_REMEMBERED)
        self._doubtful: Remembered[Item, str] = Remembered(_REMEMBERED)

    def held(self, item: Item) -> Meta | None:
        """The copy that the cache shows, unless it was deleted since."""
        meta = self._caches.host[item.kind].store.meta(self._caches.host_key(item.kind, item.key))
        return None if meta is not None and meta.uid == self._gone.get(item) else meta

    def surely_held(self, item: Item) -> Meta | None:
        """The same, but for one whose deletion was asked for and not answered."""
        meta = self.held(item)
        return None if meta is not None and meta.uid == self._doubtful.get(item) else meta

    def confirm(self, item: Item) -> None:
        """A copy was created, or found to be there."""
        self._doubtful.pop(item, None)

    async def delete(self, item: Item, held: Meta, why: str) -> bool:
        """Delete a copy; False when the plane is not trusted and nothing was done."""
        self._doubtful[item] = held.uid
        done = await self._host.delete(MIRRORED[item.kind], held.key, held.uid, grace=None, why=why)
        self._doubtful.pop(item, None)
        if done:
            self._gone[item] = held.uid
        return done
