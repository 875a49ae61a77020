"""A cluster for chaos runs on two real API servers: the host, and one plane. The bed plays controller, syncer and namespaces.

The plane of the tenant that is broken is the plane's server, that of every other tenant the host's: neighbours do not share
what is broken, unless a test lets the first one.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

from bulkhead.api import labels, names
from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from tests.kit.commandline import Controller
from tests.kit.servers import Pair
from workstation.chaos import objects

TARGET = "red"
SYSTEM = names.SYSTEM_NAMESPACE
_EVERY = 0.05


@dataclass
class Bed:
    """See the module; `run` plays until it is cancelled."""

    host: Client
    plane: Client
    servers: Pair
    # Whether the first tenant of a run has its plane on the server that is broken, as the target of a run has.
    first_is_broken: bool = False
    # Whether Services of the broken plane reach the host.
    mirrors: bool = True
    _known: dict[str, str] = field(default_factory=dict)

    async def run(self) -> None:
        while True:
            for play in (self._tenants, self._mirror, self._namespaces):
                with contextlib.suppress(KubeError):
                    await play()
            await asyncio.sleep(_EVERY)

    async def settle(self, name: str = TARGET) -> None:
        """Wait until a tenant is Ready."""
        while name not in self._known:  # noqa: ASYNC110
            await asyncio.sleep(_EVERY)

    async def _tenants(self) -> None:
        listed = {item["metadata"]["name"]: item for item in (await self.host.list(kinds.TENANTS)).items}
        ours = {name: item for name, item in listed.items() if name == TARGET or name.startswith("chaos-")}
        for name, item in ours.items():
            if name in self._known:
                continue
            of_plane = name == TARGET or (self.first_is_broken and name.endswith("-1"))
            server = self.servers.plane if of_plane else self.servers.host
            with contextlib.suppress(AlreadyExists):
                await self.host.create(kinds.NAMESPACES, {"metadata": {"name": names.work_namespace(name)}})
            with contextlib.suppress(AlreadyExists):
                await Controller(self.host, server.authority).plane(name, server.admin)
            await self._pods(name)
            await Controller(self.host, server.authority).say(name, "True", Reason.READY, "")
            self._known[name] = str(item["metadata"]["uid"])
        for name in set(self._known) - set(ours):
            del self._known[name]

    async def _pods(self, name: str) -> None:
        for pod, component in (("plane-0", "plane"), ("syncer-x", "syncer")):
            metadata = {"name": pod, "namespace": names.plane_namespace(name), "labels": labels.made_for(name, component)}
            made = {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "x"}]}}
            with contextlib.suppress(AlreadyExists):
                await self.host.create(kinds.PODS, made)
            ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
            await self.host.patch(kinds.PODS, pod, {"status": ready}, metadata["namespace"], subresource="status")

    async def _mirror(self) -> None:
        """Services of the target's plane reach the host, and pods of the platform come back."""
        for name in list(self._known):
            with contextlib.suppress(KubeError):
                await self._pods(name)
        if not self.mirrors:
            return
        owner = next((name for name in self._known if name.endswith("-1")), TARGET)
        for service in (await self.plane.list(kinds.SERVICES, label_selector=objects.RUN)).items:
            uid = service["metadata"]["uid"]
            copy = {
                "metadata": {"name": f"m-{uid[:8]}", "labels": {labels.VIRTUAL_UID: uid}},
                "spec": {"ports": [{"port": 80}]},
            }
            for tenant in {owner, TARGET}:
                with contextlib.suppress(AlreadyExists, NotFound):
                    await self.host.create(kinds.SERVICES, copy, names.work_namespace(tenant))

    async def _namespaces(self) -> None:
        """Finish the deletion of namespaces of runs; those of a tenant that is gone go with it."""
        runs = {item["metadata"]["labels"][objects.RUN] for item in await labelled(self.host, kinds.TENANTS)}
        for client in (self.host, self.plane):
            for namespace in await labelled(client, kinds.NAMESPACES):
                if namespace["metadata"].get("deletionTimestamp"):
                    await finish(client, namespace)
                elif client is self.host and namespace["metadata"]["labels"][objects.RUN] not in runs:
                    await client.delete(kinds.NAMESPACES, namespace["metadata"]["name"])


async def finish(client: Client, namespace: Obj) -> None:
    """What the namespace controller does."""
    name = namespace["metadata"]["name"]
    for r in (kinds.CONFIG_MAPS, kinds.SERVICES, kinds.PODS, kinds.EVENTS):
        for item in (await client.list_metadata(r, name)).items:
            await client.delete(r, item["metadata"]["name"], name, grace_seconds=0)
    with contextlib.suppress(Conflict, NotFound):
        await client.replace(kinds.NAMESPACES, namespace | {"spec": {"finalizers": []}}, subresource="finalize")


async def labelled(client: Client, r: Any) -> list[Obj]:
    return (await client.list(r, label_selector=objects.RUN)).items


async def left(host: Client, plane: Client) -> list[str]:
    """Everything that any run has left, on the host and in the target's plane."""
    found = [f"lease {item['metadata']['name']}" for item in (await host.list(kinds.LEASES, SYSTEM)).items]
    for client, r in (
        (host, kinds.TENANTS),
        (host, kinds.CONFIG_MAPS),
        (plane, kinds.NAMESPACES),
        (plane, kinds.VALIDATING_WEBHOOKS),
        (plane, kinds.CUSTOM_RESOURCE_DEFINITIONS),
    ):
        found += [
            f"{r.kind} {item['metadata']['name']}" for item in await labelled(client, r) if not _of_gone(client, host, item)
        ]
    return found


def _of_gone(client: Client, host: Client, item: Obj) -> bool:
    """The ConfigMaps of neighbours' planes, which are on the host's server here."""
    return client is host and item["metadata"].get("namespace", SYSTEM) != SYSTEM
