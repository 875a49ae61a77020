"""The TenantSnapshots by tenant: an informer that enqueues the tenant of each one that is new, finished or being deleted."""

from collections.abc import Callable
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key
from bulkhead.kube.store import Entry
from controller.snapshots.status import finished

# A thousand tenants with three dozen each.
_CACHE_BYTES: Final = 64 * 1024 * 1024
_TENANT: Final = "tenant"
_FINISHED: Final = "finished"


class Snapshots:
    """The TenantSnapshots of one host."""

    def __init__(self, client: Client, on_tenant: Callable[[str], object]) -> None:
        self._on_tenant = on_tenant
        # By UID: the tenant, and the stage that was told.
        self._told: dict[str, tuple[str, str]] = {}
        # The kind does not exist until the CRDs of an upgrade are in place.
        self._informer = Informer(
            client,
            kinds.TENANT_SNAPSHOTS,
            on_change=self._changed,
            indexers={_TENANT: _tenants},
            max_bytes=_CACHE_BYTES,
            optional=True,
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._informer.run()

    def known(self) -> bool:
        """Whether they have been read, so that one which is not there does not exist."""
        return self._informer.has_synced and self._informer.served

    def of(self, tenant: str) -> list[Obj]:
        """All of a tenant, those of its earlier planes as well."""
        store = self._informer.store
        found = (store.get(key) for key in sorted(store.by_index(_TENANT, tenant)))
        return [obj for obj in found if obj is not None]

    def pending(self, tenant: str) -> list[Obj]:
        """Those of a tenant that are to be taken."""
        return [obj for obj in self.of(tenant) if is_pending(obj)]

    def unfinished(self) -> set[str]:
        """The tenants of those that are to be taken or are being deleted; some of these tenants may be gone."""
        return {tenant for tenant, stage in self._told.values() if stage != _FINISHED}

    def _changed(self, change: Change) -> None:
        # Once for each stage: progress that is reported causes no reconcile.
        if change.kind == "deleted":
            self._told.pop(change.meta.uid, None)
            return
        obj = self._informer.store.get(Key("", change.meta.name))
        if obj is not None and self._told.get(change.meta.uid) != (told := (tenant_of(obj), _stage(obj))):
            self._told[change.meta.uid] = told
            self._on_tenant(tenant_of(obj))


def _tenants(entry: Entry) -> list[str]:
    return [tenant_of(entry.object())]


def _stage(request: Obj) -> str:
    if request["metadata"].get("deletionTimestamp"):
        return "deleting"
    return _FINISHED if finished(request) else "asked for"


def tenant_of(request: Obj) -> str:
    """The tenant that a TenantSnapshot names."""
    return str(mapping(request.get("spec")).get("tenant") or "")


def is_pending(request: Obj) -> bool:
    """Whether it is to be taken."""
    return not finished(request) and not request["metadata"].get("deletionTimestamp")
