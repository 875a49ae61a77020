"""The TenantSnapshots that are not finished, by tenant: an informer that enqueues the tenant of each new one."""

from collections.abc import Callable
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key
from controller.snapshots.status import finished

_CACHE_BYTES: Final = 16 * 1024 * 1024


class Snapshots:
    """The TenantSnapshots of one host."""

    def __init__(self, client: Client, on_tenant: Callable[[str], object]) -> None:
        self._on_tenant = on_tenant
        self._told: set[str] = set()
        # The kind does not exist until the CRDs of an upgrade are in place.
        self._informer = Informer(
            client, kinds.TENANT_SNAPSHOTS, on_change=self._changed, max_bytes=_CACHE_BYTES, optional=True
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._informer.run()

    def pending(self, tenant: str) -> list[Obj]:
        """Those of a tenant that are to be taken."""
        store = self._informer.store
        found = (store.get(meta.key) for meta in store.metas())
        return [obj for obj in found if obj is not None and tenant_of(obj) == tenant and is_pending(obj)]

    def _changed(self, change: Change) -> None:
        # Once each: progress that is reported causes no reconcile.
        if change.kind == "deleted":
            self._told.discard(change.meta.uid)
            return
        obj = self._informer.store.get(Key("", change.meta.name))
        if obj is not None and is_pending(obj) and change.meta.uid not in self._told:
            self._told.add(change.meta.uid)
            self._on_tenant(tenant_of(obj))


def tenant_of(request: Obj) -> str:
    """The tenant that a TenantSnapshot names."""
    return str(mapping(request.get("spec")).get("tenant") or "")


def is_pending(request: Obj) -> bool:
    """Whether it is to be taken."""
    return not finished(request) and not request["metadata"].get("deletionTimestamp")
