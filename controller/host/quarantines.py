"""Enqueues a tenant as soon as its syncer does not believe its plane, and as soon as an admin has accepted it.

    syncer ──> label on ConfigMap plane-identity ──> informer ──> namespace ──> that tenant, enqueued ──> DataLost

Syncers record a revision every few seconds, which concerns no reconcile: only records with the label are watched. What is wrong
is read by the tenant's reconcile. Without this it would be told with the next one that is due, up to two minutes later.
"""

from collections.abc import Callable
from typing import Final

from bulkhead.api import labels, names, planeidentity
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.informer import Change, Informer

_CACHE_BYTES: Final = 4 * 1024 * 1024


class Quarantines:
    """The planes of one host that are not believed."""

    def __init__(self, client: Client, on_tenant: Callable[[str], object]) -> None:
        self._on_tenant = on_tenant
        self._informer = Informer(
            client,
            kinds.CONFIG_MAPS,
            label_selector=labels.QUARANTINED,
            field_selector=f"metadata.name={planeidentity.NAME}",
            metadata_only=True,
            on_change=self._changed,
            max_bytes=_CACHE_BYTES,
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._informer.run()

    def _changed(self, change: Change) -> None:
        # A tenant's own ConfigMap may have this name and this label in no namespace but its work namespace.
        if tenant := names.tenant_of_plane(change.key.namespace):
            self._on_tenant(tenant)
