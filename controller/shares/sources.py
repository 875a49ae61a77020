"""Watches the host's namespace of shared objects by two informers; it is the only source of objects that planes get.

    Secrets, ConfigMaps of the namespace ──> informers ──> change ──> every tenant that it is shared with, at once
                                                  └──────> content of one object, when a tenant's task needs it

The controller may read only this namespace (a Role of the chart). An object counts as absent only after a separate request to
the host's API has confirmed it, because its copies are then removed.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key
from controller.shares.content import Absent, Source, Unusable, content_of
from controller.shares.spec import Item

_CACHE_BYTES = 32 * 1024 * 1024


class Sources:
    """The objects of one namespace; none if the namespace's name is empty."""

    def __init__(self, client: Client, namespace: str, on_change: Callable[[Item], object]) -> None:
        self._client = client
        self._namespace = namespace
        self._on_change = on_change
        listed = {"Secret": kinds.SECRETS, "ConfigMap": kinds.CONFIG_MAPS} if namespace else {}
        self._informers = {
            kind: Informer(
                client, resource, namespace=namespace, on_change=partial(self._changed, kind), max_bytes=_CACHE_BYTES
            )
            for kind, resource in listed.items()
        }

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, informer in self._informers.items():
                group.create_task(informer.run(), name=f"informer of shared {kind}s")

    async def of(self, items: Iterable[Item]) -> dict[Item, Source]:
        """The present content of each of these items, or why it has none."""
        return {item: await self._one(item) for item in items}

    async def _one(self, item: Item) -> Source:
        informer = self._informers.get(item.kind)
        if informer is None:
            return Unusable("this installation has no namespace for shared objects; set the chart value shares.namespace")
        if not informer.has_synced:
            return Unusable(f"host namespace {self._namespace} has not been read yet{_because(informer.last_error)}")
        obj = informer.store.get(Key(self._namespace, item.name))
        if obj is not None:
            return content_of(item, obj)
        try:
            return content_of(item, await self._client.get(informer.resource, item.name, self._namespace))
        except NotFound:
            return Absent()
        except KubeError as error:
            return Unusable(f"it could not be read: {error}")

    def _changed(self, kind: str, change: Change) -> None:
        self._on_change(Item(kind, change.key.name))


def _because(error: KubeError | None) -> str:
    return f": {error}" if error is not None else ""
