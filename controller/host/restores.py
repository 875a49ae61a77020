"""The TenantRestores that are not finished, by tenant: an informer that enqueues the tenant of each change."""

import contextlib
import json
from collections.abc import Callable, Iterable
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotServed
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key
from bulkhead.snapshots import manifest
from bulkhead.snapshots.manifest import ManifestError
from bulkhead.work.remembered import Remembered
from controller.restores import status
from controller.restores.status import finished

_CACHE_BYTES: Final = 64 * 1024 * 1024
_NEW_TENANTS: Final = 1000


class Restores:
    """The TenantRestores of one host."""

    def __init__(self, client: Client, on_tenant: Callable[[str], object]) -> None:
        self._client = client
        self._on_tenant = on_tenant
        self._tenants: dict[str, str] = {}
        # Of a new tenant, by its UID: what the host had when it was first asked for.
        self._read: Remembered[str, list[Obj]] = Remembered(_NEW_TENANTS)
        # The kind does not exist until the CRDs of an upgrade are in place.
        self._informer = Informer(client, kinds.TENANT_RESTORES, on_change=self._changed, max_bytes=_CACHE_BYTES, optional=True)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._informer.run()

    def pending(self, tenant: str) -> list[Obj]:
        """Those of a tenant that are not finished, the oldest first."""
        store = self._informer.store
        return _of(tenant, (obj for meta in store.metas() if (obj := store.get(meta.key)) is not None))

    async def asked(self, tenant: str, *, new: str = "") -> list[Obj]:
        """The same. `new` is the UID of a tenant without keys: if none is known yet, they are read from the host, once.

        A Tenant that is made for a restore may be seen before its TenantRestore, and would get keys and addresses of its own.
        The TenantRestore is made first, so one list once the Tenant was seen is enough.
        """
        known = self.pending(tenant)
        if known or not new:
            return known
        if new not in self._read:
            self._read[new] = await self._listed(tenant)
        there = ((obj, self._informer.store.get(Key("", obj["metadata"]["name"]))) for obj in self._read[new])
        return [obj for obj, now in there if now is None or is_pending(now)]

    async def _listed(self, tenant: str) -> list[Obj]:
        with contextlib.suppress(NotServed):
            return await self.unfinished(tenant)
        return []

    async def unfinished(self, tenant: str) -> list[Obj]:
        """The same as `pending`, read from the host. Raises NotServed where the host does not have the kind."""
        return _of(tenant, (await self._client.list(kinds.TENANT_RESTORES)).items)

    async def slice_of(self, tenant: str, *, new: str = "") -> str:
        """The slice that the oldest of them needs; empty if there is none. Its signature is checked where it counts."""
        for request in await self.asked(tenant, new=new):
            if status.clone_of(request):
                return ""
            with contextlib.suppress(ManifestError, ValueError, TypeError, KeyError):
                return manifest.read(json.loads(request["spec"]["manifest"])["text"]).service_slice
        return ""

    async def succeeded(self, tenant: str) -> bool:
        """Whether one of a tenant has succeeded, read from the host."""
        with contextlib.suppress(NotServed):
            found = (await self._client.list(kinds.TENANT_RESTORES)).items
            return any(tenant_of(obj) == tenant and status.succeeded(obj) for obj in found)
        return False

    def _changed(self, change: Change) -> None:
        obj = self._informer.store.get(Key("", change.meta.name))
        tenant = tenant_of(obj) if obj is not None else self._tenants.get(change.meta.uid, "")
        if change.kind == "deleted":
            self._tenants.pop(change.meta.uid, None)
            for uid, read in self._read.items():
                self._read[uid] = [obj for obj in read if obj["metadata"]["uid"] != change.meta.uid]
        else:
            self._tenants[change.meta.uid] = tenant
        if tenant:
            self._on_tenant(tenant)


def _of(tenant: str, found: Iterable[Obj]) -> list[Obj]:
    own = [obj for obj in found if tenant_of(obj) == tenant and is_pending(obj)]
    return sorted(own, key=lambda obj: (obj["metadata"]["creationTimestamp"], obj["metadata"]["name"]))


def tenant_of(request: Obj) -> str:
    """The tenant that a TenantRestore names."""
    return text(mapping(request.get("spec")).get("tenant"))


def is_pending(request: Obj) -> bool:
    """Whether it is to be done."""
    return not finished(request) and not request["metadata"].get("deletionTimestamp")
