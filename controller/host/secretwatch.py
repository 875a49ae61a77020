"""Notices changes of the planes' Secrets between reconciles, without watching all Secrets of the host.

A watch for each tenant would be a connection each, for objects that change every few weeks. So it lists the metadata of the
Secrets of one plane after another, all planes within a period, and enqueues a tenant whose Secrets have changed. Reconciles
read the Secrets themselves and run at every resync; this only makes them run sooner. It writes nothing, and runs only while
leading.

    tenants ──> one small list each, spread over the period ──> other names or versions than last time ──> tenant's name
"""

import hashlib
import logging
from collections.abc import Callable, Iterable
from typing import Final

from bulkhead.api import names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.work.clock import Clock
from controller.host.owned import SELECTOR

_log = logging.getLogger(__name__)
ROUND_PERIOD_SECONDS: Final = 20.0
_LEAST_ROUND_PAUSE_SECONDS: Final = 0.5


class SecretWatch:
    """Lists the metadata of one plane's Secrets after another, and enqueues the tenants whose Secrets have changed."""

    def __init__(
        self,
        client: Client,
        tenants: Callable[[], Iterable[str]],
        on_tenant: Callable[[str], object],
        clock: Clock,
        *,
        period: float = ROUND_PERIOD_SECONDS,
    ) -> None:
        self._client = client
        self._tenants = tenants
        self._on_tenant = on_tenant
        self._clock = clock
        self._period = period
        self._seen: dict[str, bytes] = {}

    async def run(self) -> None:
        """List one plane after another until cancelled."""
        while True:
            there = sorted(self._tenants())
            self._seen = {name: seen for name, seen in self._seen.items() if name in there}
            for name in there:
                await self.look(name)
                await self._clock.sleep(self._period / len(there))
            await self._clock.sleep(_LEAST_ROUND_PAUSE_SECONDS)

    async def look(self, tenant: str) -> None:
        """Enqueue a tenant whose Secrets differ from the previous list; the first list enqueues nothing."""
        try:
            listed = await self._client.list_metadata(kinds.SECRETS, names.plane_namespace(tenant), label_selector=SELECTOR)
        except (KubeError, names.InvalidTenantNameError) as error:
            # No right yet, or the namespace no longer exists: the tenant's own reconcile reports what is wrong.
            _log.debug("cannot list Secrets: %s", error, extra={"tenant": tenant})
            return
        total = hashlib.blake2b(digest_size=16)
        for obj in sorted(listed.items, key=lambda obj: str(obj["metadata"]["name"])):
            meta = obj["metadata"]
            total.update(f"{meta['name']}/{meta.get('uid')}/{meta.get('resourceVersion')}\n".encode())
        now, before = total.digest(), self._seen.get(tenant)
        self._seen[tenant] = now
        if before is not None and before != now:
            self._on_tenant(tenant)
