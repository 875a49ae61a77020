"""Keeps ConfigMap `bulkhead-quota` of the plane as the tenant's own quota and usage are: what `bulkhead quota show` prints.

    host quotas, own pods ── a change ──> soon ──> picture (pure) ──> differs from what was written last? ──> one write
    the tenant changed or deleted the object ──> written again

Level-triggered: however many changes there are, one write in `PACE_SECONDS`. Nothing here reads what the object says, so a
tenant that changes it deceives only itself, until it is put back. A plane that refuses the write is asked again after
`REFUSED_SECONDS`, then ever more rarely, and nothing else waits for it.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, NoReturn

from bulkhead.api import labels as marks
from bulkhead.api import ownquota
from bulkhead.api.objects import Obj
from bulkhead.api.ownquota import OwnLine, OwnQuota
from bulkhead.api.ownusage import OwnUsage
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound, Unprocessable
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, uid_of, version_of
from bulkhead.kube.resources import CONFIG_MAPS
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock
from syncer import metrics
from syncer.quota import picture
from syncer.quota.claims import Claims
from syncer.watch.informers import Caches, Subscription

_log = logging.getLogger(__name__)

# Changes are collected for this long before the first write, and this long lies between two writes.
SOON_SECONDS: Final = 0.5
PACE_SECONDS: Final = 5.0
# After a refused write, and the longest pause that follows from many.
REFUSED_SECONDS: Final = 30.0
LONGEST_SECONDS: Final = 600.0
_KEY: Final = Key(ownquota.NAMESPACE, ownquota.CONFIG_MAP)


class QuotaPicture:
    """The object in the plane, and what it is made from."""

    def __init__(self, caches: Caches, plane: Client, claims: Claims, clock: Clock) -> None:
        self._caches = caches
        self._plane = plane
        self._claims = claims
        self._clock = clock
        # Own pods without a node: why each waits, and its UID.
        self._waiting: dict[Key, tuple[str, str]] = {}
        self._changed = asyncio.Event()
        self._written: tuple[OwnQuota, OwnUsage | None] | None = None
        # The version that the plane gave to the last write; "" while it may have another object.
        self._version = ""

    def subscriptions(self) -> Iterable[Subscription]:
        """The host's quotas and pods, the tenant's pods, and the object itself."""
        return (
            Subscription("host", "ResourceQuota", self._news),
            Subscription("host", "Pod", self._news),
            Subscription("virtual", "Pod", self._pod_changed),
            Subscription("virtual", "ConfigMap", self._object_changed),
        )

    def _news(self, _change: Change) -> None:
        self._changed.set()

    def _pod_changed(self, change: Change) -> None:
        virtual = None if change.kind == "deleted" else self._caches.virtual_pod(change.key)
        reason = None if virtual is None else picture.waits(virtual)
        before = self._waiting.pop(change.key, None)
        if virtual is not None and reason is not None:
            self._waiting[change.key] = (reason, uid_of(virtual))
        if self._waiting.get(change.key) != before:
            self._changed.set()

    def _object_changed(self, change: Change) -> None:
        """Another hand wrote or deleted the object, or our own write comes back."""
        if change.key == _KEY and (change.kind == "deleted" or change.meta.resource_version != self._version):
            self._version = ""
            self._changed.set()

    async def run(self) -> NoReturn:
        """Write what changes, for ever."""
        backoff = Backoff(REFUSED_SECONDS, LONGEST_SECONDS, jitter=0.0)
        self._changed.set()
        while True:
            await self._changed.wait()
            await self._clock.sleep(SOON_SECONDS)
            self._changed.clear()
            own, usage = self._picture(), picture.own_usage(self._caches.host["ResourceQuota"].store.objects())
            if (own, usage) == self._written and self._version:
                continue
            try:
                if self._version or not await self._is_there(own, usage):
                    await self._write(picture.config_map(own, self._clock.now().timestamp(), usage))
            except KubeError as error:
                _log.warning("own quota not written: %s", error)
                self._changed.set()
                await self._clock.sleep(backoff.next())
            else:
                self._written = own, usage
                backoff.reset()
                await self._clock.sleep(PACE_SECONDS)

    def _picture(self) -> OwnQuota:
        settings = self._caches.settings
        devices = [
            OwnLine(resource, "", limit, limit, max(0, self._claims.used(resource)))
            for resource in self._claims.resources
            if (limit := self._claims.limit(resource)) or self._claims.used(resource) > 0
        ]
        return picture.own_quota(
            self._caches.host["ResourceQuota"].store.objects(),
            devices,
            (reason for reason, _ in self._waiting.values()),
            self._waiting_by_host_uid().get,
            in_cohort=bool(settings.gated_resources),
        )

    def _waiting_by_host_uid(self) -> dict[str, str]:
        """The UIDs of own waiting pods by those of their host pods."""
        store, found = self._caches.host["Pod"].store, {}
        for key, (_, uid) in self._waiting.items():
            meta = store.meta(self._caches.host_key("Pod", key))
            if meta is not None and (meta.labels or {}).get(marks.VIRTUAL_UID) == uid:
                found[meta.uid] = uid
        return found

    async def _is_there(self, own: OwnQuota, usage: OwnUsage | None) -> bool:
        """Whether the plane has the very picture already, as an earlier process left it."""
        try:
            found = await self._plane.get(CONFIG_MAPS, _KEY.name, _KEY.namespace)
        except NotFound:
            return False
        if not picture.is_same(found, own, usage):
            return False
        self._version = version_of(found)
        return True

    async def _write(self, wanted: Obj) -> None:
        """Make the object what is wanted, whatever it is now."""
        metrics.virtual_write("ConfigMap", "update")
        try:
            made = await self._plane.replace(CONFIG_MAPS, wanted)
        except NotFound:
            made = await self._plane.create(CONFIG_MAPS, wanted)
        except Unprocessable:
            # The tenant has made it immutable.
            await self._plane.delete(CONFIG_MAPS, _KEY.name, _KEY.namespace)
            made = await self._plane.create(CONFIG_MAPS, wanted)
        self._version = version_of(made)
