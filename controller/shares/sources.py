"""The host's namespace of shared objects, kept up with by two informers; the one place from which planes are given anything.

    Secrets, ConfigMaps of the namespace ──> informers ──> change ──> every tenant that is given it, at once
                                                  └──────> content of one, when a tenant's task asks

The controller may read this namespace alone (a Role of the chart). That an object is not there is believed only when the host's
API says so to a question of its own: copies are removed for that.
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
    """The objects of one namespace; without a name there are none."""

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
        """Keep up until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, informer in self._informers.items():
                group.create_task(informer.run(), name=f"informer of shared {kind}s")

    async def of(self, items: Iterable[Item]) -> dict[Item, Source]:
        """What each of these is now."""
        return {item: await self._one(item) for item in items}

    async def _one(self, item: Item) -> Source:
        informer = self._informers.get(item.kind)
        if informer is None:
            return Unusable("this installation has no namespace for shared objects (chart value shares.namespace)")
        if not informer.has_synced:
            return Unusable(f"namespace {self._namespace} of the host was not read yet{_because(informer.last_error)}")
        obj = informer.store.get(Key(self._namespace, item.name))
        if obj is not None:
            return content_of(item, obj)
        try:
            return content_of(item, await self._client.get(informer.resource, item.name, self._namespace))
        except NotFound:
            return Absent()
        except KubeError as error:
            return Unusable(f"it was not read: {error}")

    def _changed(self, kind: str, change: Change) -> None:
        self._on_change(Item(kind, change.key.name))


def _because(error: KubeError | None) -> str:
    return f": {error}" if error is not None else ""
