"""Deletes what a run has created: by its record, and by the run's label alone.

Every object is deleted by its UID, after a list has shown it with the label, so that nothing of other people can be deleted.
All of it may be done again at any time, also by two processes at once.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, TypeAlias

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, Forbidden, KubeError, NotFound, NotServed, Unauthorized, may_pass
from bulkhead.kube.objects import Resource
from workstation.chaos import objects
from workstation.chaos.planes import Planes, Unreached
from workstation.chaos.record import HOST_KIND, PLANE_KINDS, Entry, Record, is_own_tenant

Say: TypeAlias = Callable[[str], None]

_KINDS: Final = {
    "ValidatingWebhookConfiguration": kinds.VALIDATING_WEBHOOKS,
    "CustomResourceDefinition": kinds.CUSTOM_RESOURCE_DEFINITIONS,
    "Namespace": kinds.NAMESPACES,
}
_POLL_SECONDS: Final = 0.5
# An API server that removes many definitions works on each for some seconds.
_PLANE_SECONDS: Final = 180.0
_TENANT_SECONDS: Final = 180.0
_TOGETHER: Final = 8


async def undo(host: Client, planes: Planes, record: Record, say: Say) -> list[str]:
    """Undo a run, and return what is left of it and why; empty if nothing is."""
    left: list[str] = []
    # A target of other people first: it is the one with users.
    by_tenant: dict[str, list[str]] = {}
    for entry in record.entries:
        if entry.tenant:
            by_tenant.setdefault(entry.tenant, []).append(entry.kind)
    for tenant, found in by_tenant.items():
        say(f"removing the run's objects from tenant {tenant}")
        left += await _in_plane(host, planes, record.run, tenant, found)
    say("deleting the run's tenants")
    left += await _gone(host, kinds.TENANTS, record.run, _TENANT_SECONDS)
    return left


def whole(run: str) -> Record:
    """The record of a run of which only tenants can be left."""
    return Record(run, (Entry(HOST_KIND),))


async def _in_plane(host: Client, planes: Planes, run: str, name: str, found: list[str]) -> list[str]:
    clock = asyncio.get_running_loop().time
    end = clock() + _PLANE_SECONDS
    while True:
        try:
            tenant = await _tenant(host, name)
        except NotServed as error:
            # A proxy before the host answers so too: it says nothing about the tenant.
            return [f"tenant {name}: {error}"]
        except NotFound:
            return []
        except KubeError as error:
            return [f"tenant {name}: {error}"]
        try:
            async with planes.open(tenant) as plane:
                left: list[str] = []
                # The webhook first: it would refuse the other deletions.
                for kind in sorted(set(found), key=PLANE_KINDS.index):
                    left += await _gone(plane, _KINDS[kind], run, _PLANE_SECONDS, within=f" in tenant {name}")
                return left
        except (KubeError, Unreached) as error:
            # A run that is ended right after it has killed a plane finds none for some seconds.
            if clock() >= end or isinstance(error, Forbidden):
                return [f"objects labelled {objects.selector(run)} in tenant {name}: its API is not reached: {error}"]
        await asyncio.sleep(_POLL_SECONDS)


async def _tenant(host: Client, name: str) -> Obj:
    """The Tenant. A host that is busy, and credentials that are being renewed, have as long as what is deleted in a plane."""
    clock = asyncio.get_running_loop().time
    end = clock() + _PLANE_SECONDS
    while True:
        try:
            return await host.get(kinds.TENANTS, name)
        except KubeError as error:
            if clock() >= end or not (may_pass(error) or isinstance(error, Unauthorized)):
                raise
        await asyncio.sleep(_POLL_SECONDS)


async def _gone(client: Client, r: Resource, run: str, seconds: float, *, within: str = "") -> list[str]:
    """Delete all labelled objects of a kind, and wait until none is left; what is left at the end, and why."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    problem = ""
    names: list[str] = []
    while True:
        try:
            listed = (await client.list_metadata(r, label_selector=objects.selector(run))).items
            found = [obj for obj in listed if r is not kinds.TENANTS or is_own_tenant(run, str(obj["metadata"]["name"]))]
            names = [str(obj["metadata"]["name"]) for obj in found]
            if not names:
                return []
            await delete_all(client, r, found)
            problem = "its deletion was requested, and it is not gone yet"
        except KubeError as error:
            problem = str(error)
        if clock() >= end:
            return [f"{r.kind} {name}{within}: {problem}" for name in names or ["(unknown)"]]
        await asyncio.sleep(_POLL_SECONDS)


async def delete_all(client: Client, r: Resource, found: list[dict[str, object]]) -> None:
    """Delete objects by their UIDs, a few at a time; those that are already being deleted are left alone."""
    turn = asyncio.Semaphore(_TOGETHER)

    async def one(obj: dict[str, object]) -> None:
        metadata = obj["metadata"]
        assert isinstance(metadata, dict)  # noqa: S101 - of `list_metadata`
        async with turn:
            # Another object has the name: it is not ours.
            with contextlib.suppress(NotFound, Conflict):
                await client.delete(r, str(metadata["name"]), metadata.get("namespace"), uid=str(metadata["uid"]))

    await asyncio.gather(*(one(obj) for obj in found if not _ends(obj)))


def _ends(obj: dict[str, object]) -> bool:
    metadata = obj["metadata"]
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))
