"""The copies on the host: deletes them, and knows of those that it deleted what the cache does not show yet.

    answered "deleted"     -> the copy is gone, although the cache may go on showing it for a while
    no answer              -> it may be gone: what needs it creates it again, which finds it if it is there

Only memory: after a restart the first list shows what there is.
"""

from collections.abc import Mapping
from typing import Final

from bulkhead.api import labels as marks
from bulkhead.kube.objects import Meta
from bulkhead.work.remembered import Remembered
from syncer.mirrors.follower import Follower
from syncer.watch.informers import Caches
from syncer.work import Item
from syncer.write.host import HostWriter
from syncer.write.massdelete import MassDeleteBreaker

RETRY_SECONDS: Final = 30.0
_REMEMBERED: Final = 10_000


class Copies:
    """What the host holds of copies, and their end."""

    def __init__(self, caches: Caches, host: HostWriter, breaker: MassDeleteBreaker, followers: Mapping[str, Follower]) -> None:
        self._caches = caches
        self._host = host
        self._breaker = breaker
        self._followers = followers
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

    async def delete(self, item: Item, held: Meta, why: str) -> float | None:
        """Delete a copy; returns the seconds after which to try again when the plane is not trusted and nothing was done."""
        self._doubtful[item] = held.uid
        done = await self._host.delete(self._caches.kinds[item.kind], held.key, held.uid, grace=None, why=why)
        self._doubtful.pop(item, None)
        if not done:
            return RETRY_SECONDS
        self._gone[item] = held.uid
        return None

    async def delete_absent(self, item: Item, held: Meta | None) -> float | None:
        """Delete the copy of a virtual object that is proven absent; returns the seconds after which to try again."""
        if held is None or held.deleting:
            return None
        if not await self._breaker.may_delete(item.kind, held.annotation(marks.VIRTUAL_UID) or ""):
            return RETRY_SECONDS
        await self._followers[item.kind].before_delete(held)
        return await self.delete(item, held, "virtual object is gone")
