"""Keeps the host Service of a virtual Service's node ports: beside the mirrored one, never with it.

It has a key of its own (`nodeports.KIND`, the virtual Service's name), so a host that refuses external addresses holds up
nothing else: the mirrored Service works on, the tenant reads why its node ports do not, and they are retried now and then.
Deletion by absence is as careful as for mirrors: a read of the plane proves the absence, and the mass-delete breaker allows it.
"""

from typing import Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ApiError, Conflict, Unprocessable
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.kube.resources import SERVICES
from bulkhead.work.remembered import Remembered
from syncer.events import Recorder
from syncer.quota.extent import Extent
from syncer.translate import Untranslatable, diff
from syncer.translate.kinds import nodeports
from syncer.translate.kinds.service import address_of
from syncer.translate.origin import virtual_uid
from syncer.watch.informers import Caches
from syncer.work import Stale
from syncer.write import refusals
from syncer.write.host import HostWriter
from syncer.write.massdelete import MassDeleteBreaker
from syncer.write.plane import VirtualWriter

_SOON_SECONDS: Final = 0.2
_ROOM_SECONDS: Final = 30.0
_REFUSED_SECONDS: Final = 300.0
_RANGE_SECONDS: Final = 15.0  # the host does not know the tenant's slice of addresses yet
_ELSEWHERE_LIMIT: Final = 256
_WHEN_FREE: Final = "The node ports are served when enough is free."


class NodePorts:
    """Reconciles the host Services of node ports."""

    def __init__(
        self,
        caches: Caches,
        host: HostWriter,
        virtual: VirtualWriter,
        *,
        breaker: MassDeleteBreaker,
        recorder: Recorder,
        extent: Extent,
    ) -> None:
        self._caches = caches
        self._host = host
        self._virtual = virtual
        self._breaker = breaker
        self._recorder = recorder
        self._extent = extent
        # Addresses that the host refused: Services that this syncer does not see have them.
        self._elsewhere: Remembered[str, None] = Remembered(_ELSEWHERE_LIMIT)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile the node ports of one Service; returns the seconds after which to do so again."""
        virtual = self._caches.virtual["Service"].store.get(key)
        host = self._caches.host["Service"].store.get(self._caches.host_key(nodeports.KIND, key))
        if virtual is None:
            return None if host is None else await self._absent(key, host)
        if host is not None and host["metadata"].get("labels", {}).get(marks.VIRTUAL_UID) != uid_of(virtual):
            return await self._absent(key, host) or _SOON_SECONDS
        if virtual["metadata"].get("deletionTimestamp"):
            return None  # what holds it goes first; its end is an event
        try:
            return await self._follow(virtual, host)
        except Untranslatable as refused:
            self._elsewhere.clear()
            self._recorder.warn(virtual, str(refused.reason), f"node ports are not served: {refused}", beside=True)
            return _ROOM_SECONDS if refused.retriable else _REFUSED_SECONDS

    async def _absent(self, key: Key, host: Obj) -> float | None:
        """The cache lacks the virtual Service of a host Service: only a read of the plane proves that it is gone."""
        found = await self._virtual.read(SERVICES, key)
        if found is not None and uid_of(found) == host["metadata"].get("labels", {}).get(marks.VIRTUAL_UID):
            return 1.0
        if not await self._breaker.may_delete("Service", virtual_uid(host)):
            return _ROOM_SECONDS
        return await self._end(host, "virtual object is gone")

    async def _end(self, host: Obj, why: str) -> float | None:
        done = await self._host.delete(SERVICES, key_of(host), uid_of(host), grace=None, why=why)
        return None if done else _ROOM_SECONDS

    async def _follow(self, virtual: Obj, host: Obj | None) -> float | None:
        view = self._caches.view()
        if not nodeports.wanted(virtual, view):
            return None if host is None else await self._end(host, "no longer has node ports")
        if host is not None and not nodeports.may_keep(address_of(host), view):
            return await self._end(host, "gives its address to a Service of the tenant") or _SOON_SECONDS
        address = nodeports.choose(virtual, view, self._taken()) if host is None else address_of(host)
        desired = nodeports.to_host(virtual, view, address)
        try:
            if host is None:
                self._extent.claim_service(key_of(desired), desired, is_there=False)
                await self._host.create(SERVICES, desired, view)
                return None
            patch = diff.object_patch(desired, host)
            if patch is not None:
                self._extent.claim_service(key_of(host), desired, is_there=True)
                await self._host.patch(SERVICES, key_of(host), patch.body, content_type=patch.content_type)
        except (Stale, Conflict):
            return _SOON_SECONDS
        except ApiError as error:
            self._extent.drop_service(key_of(desired))
            if isinstance(error, Unprocessable) and "failed to allocate" in error.message:
                return self._next_address(address, error)
            raise refusals.explain(error, str(virtual["metadata"].get("name", "")), _WHEN_FREE) or error from error
        return None

    def _next_address(self, address: str, error: Unprocessable) -> float:
        if "already allocated" not in error.message:
            return _RANGE_SECONDS
        self._elsewhere[address] = None
        return _SOON_SECONDS

    def _taken(self) -> set[str]:
        return {address_of(service) for service in self._caches.host["Service"].store.objects()} | self._elsewhere.keys()
