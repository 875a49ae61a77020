"""Services ask the host for the very ClusterIP that the plane gave them; here is what happens when the host has given it away.

held by node ports of the tenant's own            -> they look for another, the Service is tried again at once
held by the copy of a Service that has it no more -> that copy goes, the Service is tried again at once
held by anything else                             -> the tenant reads so, and it is tried again

And each needs room for its endpoints (`syncer/quota/extent.py`): a new one waits, one that is there stays as it was.
"""

from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ApiError, Unprocessable
from bulkhead.kube.objects import key_of
from syncer.mirrors.follower import Follower
from syncer.quota.extent import Extent
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds import nodeports
from syncer.translate.kinds.service import address_of
from syncer.watch.informers import Caches
from syncer.work import Item, Queue

_FREED_SECONDS: Final = 2.0


class Services(Follower):
    """Says what a refused address means, and whether there is room for a Service."""

    def __init__(self, caches: Caches, queue: Queue, extent: Extent) -> None:
        super().__init__("Service")
        self._caches = caches
        self._queue = queue
        self._extent = extent

    def before_create(self, item: Item, desired: Obj) -> None:  # noqa: ARG002 -- the copy's own key counts
        """Take room for the endpoints of a new Service."""
        self._extent.claim_service(key_of(desired), desired, is_there=False)

    def before_patch(self, host: Obj, desired: Obj) -> None:
        """Take room for what a Service reaches more than before."""
        self._extent.claim_service(key_of(host), desired, is_there=True)

    def refused(self, error: ApiError, virtual: Obj) -> float | Untranslatable | None:
        """Wait for the tenant's own to give way, or name the address that is taken."""
        self._extent.drop_service(self._caches.host_key("Service", key_of(virtual)))
        if not isinstance(error, Unprocessable) or "already allocated" not in error.message:
            return None
        address = address_of(virtual)
        if self._gives_way(address):
            return _FREED_SECONDS
        return Untranslatable(
            Reason.HOST_REFUSED,
            f"address {address} is in use on the host; it is tried again; recreate the Service to get another address",
            "spec.clusterIP",
        )

    def _gives_way(self, address: str) -> bool:
        """Whether only node ports of the tenant's own are at an address, or a copy that is about to go."""
        services = self._caches.host["Service"].store
        for host in services.objects():
            meta = services.meta(key_of(host)) if address_of(host) == address else None
            item = self._caches.work_of("Service", meta) if meta is not None else None
            if item is not None and (item.kind == nodeports.KIND or self._has_left(item, address)):
                self._queue.add(item)
                return True
        return False

    def _has_left(self, item: Item, address: str) -> bool:
        """Whether the Service of a copy is gone in the plane, or has another address there."""
        virtual = self._caches.virtual[item.kind].store.get(item.key)
        return virtual is None or address_of(virtual) != address
