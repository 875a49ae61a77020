"""Takes one step of a teardown: lists what is left of a tenant, lets `teardown` decide the next step, and makes the calls.

It touches only namespaces with this tenant's label. The tenant's two namespaces are listed from the API server in each step.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, NotFound
from bulkhead.kube.objects import Resource
from controller.decide import remnant, teardown
from controller.decide.retain import Kept, retained_by
from controller.decide.teardown import Action, Left, Step
from controller.host.owned import ROUTES
from controller.plane.exposure import is_way
from controller.tenant.observe import owned_by
from controller.tenant.remnants import leave

_log = logging.getLogger(__name__)
# A look is a dozen requests. While a tenant only waits, looks come ever less often; a change of its objects causes one at once.
_AGAIN = 0.25
_AGAIN_WAITING_MOST = 2.0
_AGAIN_BLOCKED = 5.0
_NAMED = 3
_WORKLOAD_GRACE_SECONDS = 10
_PLANE_GRACE_SECONDS = 1
_PARALLEL = 8


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a teardown has come."""

    done: bool
    message: str
    again: float


@dataclass(frozen=True, slots=True)
class _Wait:
    """What a tenant's last look waited for, and after how many seconds the next look was due."""

    message: str
    objects: tuple[str, ...]
    again: float = _AGAIN


class Dismantler:
    """Tears tenants down through one client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(_PARALLEL)
        self._waits: dict[str, _Wait] = {}

    async def step(self, tenant: Obj, *, blocked: bool = False, kept: Kept | None = None) -> Progress:
        """List what is left, and make the next calls. If the teardown is `blocked`, the message says by what if possible.

        `kept`: the plane outlives its Tenant.
        """
        left = await self._left(tenant, kept)
        upcoming, name = teardown.next_step(left), str(tenant["metadata"]["name"])
        if upcoming.step is Step.FINALIZER:
            self._waits.pop(name, None)
            return Progress(True, "nothing is left", 0)
        await asyncio.gather(*(self._do(action, left.kept) for action in upcoming.actions))
        some = ", ".join(upcoming.waiting_for[:_NAMED])
        more = len(upcoming.waiting_for) - _NAMED
        message = f"{upcoming.step}: {some}" + (f" and {more} more" if more > 0 else "")
        if blocked and upcoming.step is Step.CLUSTER_SCOPED:
            message += _held_by(left.other_services)
        before = self._waits.get(name)
        if before is None or before.message != message:
            _log.info(message, extra={"tenant": name})
        wait = self._waits[name] = _next_wait(before, _Wait(message, upcoming.waiting_for), acted=bool(upcoming.actions))
        return Progress(False, message, _AGAIN_BLOCKED if blocked else wait.again)

    async def _left(self, tenant: Obj, kept: Kept | None) -> Left:
        name, uid = str(tenant["metadata"]["name"]), str(tenant["metadata"]["uid"])
        try:
            plane_name, work_name = names.plane_namespace(name), names.work_namespace(name)
        except names.InvalidTenantNameError:
            return Left()
        there, work_there = await asyncio.gather(self._namespace(plane_name), self._namespace(work_name))
        plane, work = (obj if obj and owned_by(obj, name, uid) else None for obj in (there, work_there))
        if kept is None and plane is None and retained_by(there, name) is not None:
            # What the host has of this name beside the namespaces belongs to the plane that is kept for another Tenant.
            return Left()
        if plane is not None and plane["metadata"].get("deletionTimestamp"):
            # Another client deletes it: there is nothing to keep.
            kept = None
        nothing: tuple[Obj, ...] = ()
        slices = await self._service_cidrs(labels.tenant_selector(name))
        # While the namespaces are there, their own Services have addresses in the slice.
        gone = plane is None and work is None
        remnants = await self._service_cidrs(f"{labels.LEFT_BY}={name}") if gone else nothing
        addresses = (await self._client.list(kinds.IP_ADDRESSES)).items if gone and slices else []
        own = {plane_name, work_name}
        return Left(
            plane_namespace=plane,
            work_namespace=work,
            deployments=await self._list(kinds.DEPLOYMENTS, plane_name) if plane else nothing,
            stateful_sets=await self._list(kinds.STATEFUL_SETS, plane_name) if plane else nothing,
            plane_pods=await self._list(kinds.PODS, plane_name) if plane else nothing,
            work_pods=await self._list(kinds.PODS, work_name) if work else nothing,
            claims=(
                *(await self._list(kinds.PERSISTENT_VOLUME_CLAIMS, plane_name) if plane else nothing),
                *(await self._list(kinds.PERSISTENT_VOLUME_CLAIMS, work_name) if work else nothing),
            ),
            ways_in=await self._ways_in(plane_name) if kept and plane else nothing,
            slices=slices if kept else nothing,
            cluster_scoped=(
                *await self._own(kinds.CLUSTER_ROLE_BINDINGS, name),
                *slices,
                *await self._own(kinds.PERSISTENT_VOLUMES, name),
            ),
            remnants=remnants,
            remnants_missing=tuple(remnant.missing(slices, remnants, addresses)),
            other_services=tuple(words for range_ in slices for words in remnant.holders(range_, addresses, without=own)),
            kept=kept,
        )

    async def _namespace(self, namespace: str) -> Obj | None:
        try:
            return await self._client.get(kinds.NAMESPACES, namespace)
        except NotFound:
            return None

    async def _list(self, resource: Resource, namespace: str) -> tuple[Obj, ...]:
        # A tenant may have many large pods; a teardown needs only their names.
        return tuple((await self._client.list_metadata(resource, namespace)).items)

    async def _own(self, resource: Resource, tenant: str) -> tuple[Obj, ...]:
        return tuple((await self._client.list_metadata(resource, label_selector=labels.tenant_selector(tenant))).items)

    async def _service_cidrs(self, selector: str) -> tuple[Obj, ...]:
        typed = {"apiVersion": kinds.SERVICE_CIDRS.api_version, "kind": kinds.SERVICE_CIDRS.kind}
        return tuple(typed | obj for obj in (await self._client.list(kinds.SERVICE_CIDRS, label_selector=selector)).items)

    async def _ways_in(self, namespace: str) -> tuple[Obj, ...]:
        """What leads from outside of the host to a plane; its other Services keep the addresses of its slice."""
        listed = [*(await self._client.list(kinds.SERVICES, namespace)).items]
        found: list[Obj] = [{"apiVersion": "v1", "kind": "Service"} | obj for obj in listed if is_way("Service", _named(obj))]
        for resource in ROUTES:
            try:
                found += await self._list(resource, namespace)
            except NotFound:
                # The host serves none, or another version.
                continue
            break
        return tuple(found)

    async def _do(self, action: Action, kept: Kept | None) -> None:
        obj = action.obj
        meta = obj["metadata"]
        resource = kinds.resource_of(str(obj["apiVersion"]), str(obj["kind"]))
        async with self._slots:
            try:
                if action.verb == "leave":
                    await leave(self._client, obj)
                    return
                if action.verb == "mark" and kept is not None:
                    marks = {"uid": meta["uid"], "labels": kept.label, "annotations": kept.annotation}
                    await self._client.patch(resource, meta["name"], {"metadata": marks})
                    return
                await self._client.delete(
                    resource,
                    meta["name"],
                    meta.get("namespace"),
                    uid=meta["uid"],
                    grace_seconds=_grace(resource, meta) if kept is None else None,
                    propagation="Background",
                )
            except (NotFound, Conflict):
                # The object is gone or has been replaced by another of that name; the next step finds out.
                return


def _next_wait(before: _Wait | None, now: _Wait, *, acted: bool) -> _Wait:
    """The present wait: twice as long as the one before, if nothing was done and nothing has gone meanwhile."""
    if acted or before is None or before.objects != now.objects:
        return now
    return replace(now, again=min(2 * before.again, _AGAIN_WAITING_MOST))


def _held_by(services: Sequence[str]) -> str:
    """Which Services of the host keep the slice, in case that the host takes no remnant of it; empty if there are none."""
    some = ", ".join(services[:_NAMED]) + (f" and {len(services) - _NAMED} more" if len(services) > _NAMED else "")
    return f"; Services on the host use addresses of the slice: {some}; delete and recreate them" if services else ""


def _grace(resource: Resource, meta: Obj) -> int | None:
    """Grace period in seconds. Workloads may shut down in order; a plane in teardown has nothing left to save."""
    if resource is not kinds.PODS:
        return None
    return _PLANE_GRACE_SECONDS if labels.COMPONENT in (meta.get("labels") or {}) else _WORKLOAD_GRACE_SECONDS


def _named(obj: Obj) -> str:
    return str(obj["metadata"]["name"])
