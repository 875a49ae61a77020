"""Which host pod holds which address: EndpointSlices that a tenant writes itself follow the pods whose addresses they name.

    host pod ends, is being deleted, changes its address  -> its endpoints leave every host slice, whatever the plane says
    host pod gets an address                              -> the virtual slices that name it are queued
    host slice of ours comes or changes                   -> checked again: what wrote it may have known an older address
    virtual slice comes, grows, goes                      -> those that have room by now, or no more, are queued

The first is done here and not by the workers: it needs no plane, so it holds while the plane is away and before it answers for
the first time, and it waits in no queue of others. A slice loses endpoints here; only translation puts some in.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Conflict, Forbidden, KubeError, NotFound, Unprocessable
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.kube.resources import ENDPOINT_SLICES
from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.clock import Clock
from bulkhead.work.queue import KeyedQueue
from syncer.logs import about
from syncer.mirrors.follower import Follower
from syncer.translate import TenantView, diff, mirrored
from syncer.translate.kinds import endpointslice
from syncer.translate.kinds.endpointslice import KIND, Holder, Place
from syncer.watch.informers import Caches, Subscription
from syncer.work import Item, Queue
from syncer.write.host import HostWriter

_log = logging.getLogger(__name__)

_NEXT_TRY: Final = 0.05


class Addresses(Mapping[str, tuple[Holder, ...]]):
    """Which of the tenant's host pods hold which address now."""

    def __init__(self) -> None:
        self._of_pod: dict[Key, dict[str, Holder]] = {}
        self._holders: dict[str, dict[Key, Holder]] = {}

    def __getitem__(self, address: str) -> tuple[Holder, ...]:
        return tuple(self._holders[address].values())

    def __iter__(self) -> Iterator[str]:
        return iter(self._holders)

    def __len__(self) -> int:
        return len(self._holders)

    def set(self, pod: Key, now: Mapping[str, Holder]) -> frozenset[str]:
        """Set the addresses of a pod; returns those whose holders changed."""
        before = self._of_pod.pop(pod, {})
        if now:
            self._of_pod[pod] = dict(now)
        news = frozenset(address for address in before.keys() | now.keys() if before.get(address) != now.get(address))
        for address in news:
            holders = self._holders.setdefault(address, {})
            holders.pop(pod, None)
            if address in now:
                holders[pod] = now[address]
            if not holders:
                del self._holders[address]
        return news


class _Naming:
    """The slices of one side by the addresses that they name."""

    def __init__(self) -> None:
        self._of_slice: dict[Key, frozenset[str]] = {}
        self._slices: dict[str, set[Key]] = {}

    def set(self, key: Key, now: frozenset[str]) -> None:
        before = self._of_slice.pop(key, frozenset())
        if now:
            self._of_slice[key] = now
        for address in before - now:
            self._slices[address].discard(key)
            if not self._slices[address]:
                del self._slices[address]
        for address in now - before:
            self._slices.setdefault(address, set()).add(key)

    def of(self, addresses: Iterable[str]) -> frozenset[Key]:
        return frozenset(key for address in addresses for key in self._slices.get(address, ()))


class _Room:
    """Which virtual slices have room on the host; counted again only when one of them is translated."""

    def __init__(self) -> None:
        self._places: dict[Key, Place] = {}
        self._stale = False
        self.without: frozenset[tuple[str, str]] = frozenset()

    def set(self, key: Key, now: Place | None) -> None:
        """A slice came, changed or went."""
        if self._places.get(key) != now:
            self._stale = True
            if now is None:
                del self._places[key]
            else:
                self._places[key] = now

    def waiting(self) -> list[Key]:
        """One of those without room, if there may be some now: its translation finds all the others."""
        return [Key(*next(iter(self.without)))] if self._stale and self.without else []

    def news(self) -> list[Key]:
        """Those that have room now and had none before, and the other way round."""
        if not self._stale:
            return []
        before, self.without, self._stale = self.without, endpointslice.beyond(self._places.values()), False
        return [Key(*names) for names in before ^ self.without]


class Slices(Follower):
    """Knows the holders of addresses, and withdraws endpoints that have none."""

    # The kinds of the host that it reads: all that it needs to withdraw endpoints.
    reads: Final = ("Pod", KIND)

    def __init__(self, caches: Caches, queue: Queue, host: HostWriter, clock: Clock) -> None:
        super().__init__(KIND)
        self._caches = caches
        self._queue = queue
        self._host = host
        self._addresses = Addresses()
        self._naming_virtual = _Naming()
        self._naming_host = _Naming()
        self._room = _Room()
        self._doubtful: KeyedQueue[Key] = KeyedQueue(clock=clock)
        self._backoff: PerKeyBackoff[Key] = PerKeyBackoff(0.1, 5.0, jitter=0.5)

    def subscriptions(self) -> Iterable[Subscription]:
        """Host pods, and the slices of both sides."""
        return (
            Subscription("host", "Pod", self.pod_changed),
            Subscription("virtual", KIND, self._virtual_changed),
            Subscription("host", KIND, self.host_changed),
        )

    def translate(self, virtual: Obj, view: TenantView) -> tuple[Obj, list[str]]:
        """The host slice with those endpoints whose addresses pods of the tenant hold now."""
        for key in self._room.news():
            self._queue.add(Item(KIND, key))
        endpointslice.check_room(virtual, self._room.without)
        return (
            endpointslice.to_host(virtual, view, self._addresses),
            endpointslice.left_out(virtual, view, self._addresses),
        )

    def pod_changed(self, change: Change) -> None:
        """A host pod came, changed or went."""
        identity = self._caches.origin(change.meta)
        pod = None if change.kind == "deleted" or identity is None else self._caches.host["Pod"].store.get(change.key)
        news = self._addresses.set(
            change.key, endpointslice.held(pod, identity) if pod is not None and identity is not None else {}
        )
        for key in self._naming_host.of(news):
            self._doubtful.add(key)
        for key in self._naming_virtual.of(news):
            self._queue.add(Item(KIND, key))

    def _virtual_changed(self, change: Change) -> None:
        found = None if change.kind == "deleted" else self._caches.virtual[KIND].store.get(change.key)
        if found is not None and not mirrored.endpoint_slice(found):
            found = None
        self._naming_virtual.set(change.key, endpointslice.addresses(found) if found is not None else frozenset())
        self._room.set(change.key, endpointslice.place(found) if found is not None else None)
        for waits in self._room.waiting():
            self._queue.add(Item(KIND, waits))

    def host_changed(self, change: Change) -> None:
        """A host slice came, changed or went; the host's own controllers keep those that they make for Services."""
        # Theirs have the labels of the Service, so they are in this cache too, and no syncer may write them.
        is_ours = (change.meta.labels or {}).get(mirrored.MANAGED_BY) == endpointslice.MANAGED_BY_SYNCER
        found = self._caches.host[KIND].store.get(change.key) if is_ours and change.kind != "deleted" else None
        self._naming_host.set(change.key, endpointslice.addresses(found) if found is not None else frozenset())
        if found is not None:
            self._doubtful.add(change.key)

    async def run(self) -> None:
        """Keep withdrawing endpoints whose addresses no pod has any longer."""
        for kind in self.reads:
            await self._caches.host[kind].synced()
        while True:
            key = await self._doubtful.get()
            try:
                await self._check(key)
                self._backoff.forget(key)
            except (KubeError, TimeoutError) as error:
                if not isinstance(error, Conflict):
                    _log.warning("endpoints not withdrawn yet: %s", error, extra=about(KIND, key))
                # These writes pass before the write budget, so even a version that is old is tried again less and less often.
                self._doubtful.add_after(key, max(_NEXT_TRY, self._backoff.next(key)))
            finally:
                self._doubtful.done(key)

    async def _check(self, key: Key) -> None:
        host = self._caches.host[KIND].store.get(key)
        left = endpointslice.proven(host, self._addresses, self._caches.settings.work_namespace) if host is not None else None
        if host is None or left is None:
            return
        try:
            left = await self._keep(host, left)
        except NotFound:
            return
        _log.info("endpoints withdrawn", extra=about(KIND, key, left=len(left)))

    async def _keep(self, host: Obj, left: list[Obj]) -> list[Obj]:
        """Reduce a slice to these endpoints; returns the slice as it is now."""
        try:
            await self._patch(host, left)
        except (Forbidden, Unprocessable) as error:
            # The host judges again all that stay, by the networks of today. It always accepts an empty list, and no address is
            # better than one that no pod holds; translation puts in again what may be there.
            if not left:
                raise
            _log.warning("every endpoint is withdrawn: %s", error, extra=about(KIND, key_of(host)))
            left = []
            await self._patch(host, left)
        return left

    async def _patch(self, host: Obj, left: list[Obj]) -> None:
        body: Obj = {
            "metadata": {"uid": uid_of(host), "resourceVersion": host["metadata"]["resourceVersion"]},
            "endpoints": left,
        }
        await self._host.patch(ENDPOINT_SLICES, key_of(host), body, content_type=diff.MERGE, urgent=True)
