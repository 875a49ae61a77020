"""Applies the rendered objects of a Slurm cluster to its plane, and removes them when Slurm is switched off.

    objects ──> unchanged since they were applied, and not long ago? ──> skipped
                else ──> server-side apply: namespace, all others in parallel, NodeSets once their kind is served

A tenant may change every object in the plane, so all are applied again after a while. Volumes are never deleted here: homes,
queue and accounts outlive a cluster that is switched off. If an object cannot be changed because of an immutable field, that is
reported (`kept`), and the other objects are still applied (`volumes`). Only ConfigMaps and Secrets are recreated then, and
ConfigMaps have our files alone: the Tenant decides about logins, also in a plane whose admins want it otherwise.
"""

import asyncio
import logging
import math
from collections.abc import Iterable

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.apply import ApplyMemory
from bulkhead.kube.client import JSON_PATCH
from bulkhead.kube.errors import ApiError, KubeError, NotFound
from bulkhead.kube.objects import Resource, uid_of
from bulkhead.work.clock import Clock
from controller.inside import definitions
from controller.inside.calls import Plane
from controller.slurm import volumes
from controller.slurm.objects.parts import OURS
from controller.slurm.objects.users import AUTHORIZED_KEYS
from controller.slurm.observe import NODE_SETS
from controller.slurm.spec import DATABASE, HOST_KEYS, NAMESPACE, TRUST
from controller.unchangeable import unchangeable

_log = logging.getLogger(__name__)
_APPLY_PERIOD_SECONDS = 120.0
_MOST_TRIES = 40
_TRY_PAUSE_SECONDS = 0.25
_WRITES_AT_ONCE = 6
# A binding is deleted before the role that it names.
_RIGHTS = (kinds.CLUSTER_ROLE_BINDINGS, kinds.ROLE_BINDINGS, kinds.CLUSTER_ROLES, kinds.ROLES)
# Kinds that pods read as files.
_FILES = (kinds.CONFIG_MAPS, kinds.SECRETS)
# Those of a part that a Tenant may switch off. By name: a tenant may have made a copy of any, with its labels.
_FILES_OF_PARTS = frozenset({DATABASE, HOST_KEYS, AUTHORIZED_KEYS, TRUST})
# Kinds that create pods are deleted first.
_REMOVED = (
    NODE_SETS,
    kinds.STATEFUL_SETS,
    kinds.DEPLOYMENTS,
    kinds.SERVICES,
    kinds.CONFIG_MAPS,
    kinds.SECRETS,
    *_RIGHTS,
)


class Applier:
    """Applies to one plane, and remembers what it applied."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._memory = ApplyMemory()
        self._slots = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._kept: dict[tuple[str, str], str] = {}

    @property
    def kept(self) -> str:
        """Which objects differ from the spec and cannot be changed, as a message; empty if there are none."""
        return "; ".join(text for _, text in sorted(self._kept.items()))

    def has_applied(self, obj: Obj) -> bool:
        """Whether this object, as it is, was the last that was applied under its name."""
        return self._memory.recent(obj, -math.inf)

    async def apply(self, plane: Plane, objects: Iterable[Obj]) -> None:
        """Apply the objects that are due; the first error is raised once all others are applied."""
        since = self._clock.monotonic() - _APPLY_PERIOD_SECONDS
        objects = [obj for obj in objects if not self._memory.recent(obj, since)]
        namespaces = [obj for obj in objects if obj["kind"] == "Namespace"]
        node_sets = [obj for obj in objects if obj["kind"] == NODE_SETS.kind]
        others = [obj for obj in objects if obj["kind"] not in {"Namespace", NODE_SETS.kind}]
        refused: list[KubeError] = []
        for group in (namespaces, others, node_sets):
            for result in await asyncio.gather(*(self._write(plane, obj) for obj in group), return_exceptions=True):
                if isinstance(result, KubeError) and group is not namespaces:
                    refused.append(result)
                elif isinstance(result, BaseException):
                    raise result
        if refused:
            raise refused[0]

    async def prune(self, plane: Plane, objects: Iterable[Obj], *, files: bool = True) -> None:
        """Delete daemons, their files and rights that are no longer wanted, such as login nodes that were switched off.

        `files`: whether all objects were applied. A daemon whose change was refused still mounts what it mounted.
        """
        wanted = {(str(obj["kind"]), str(obj["metadata"]["name"])) for obj in objects}
        self._kept = {slot: text for slot, text in self._kept.items() if slot in wanted}
        for resource in (kinds.STATEFUL_SETS, kinds.DEPLOYMENTS, kinds.SERVICES, *(_FILES if files else ()), *_RIGHTS):
            for obj in await _ours(plane, resource):
                name = str(obj["metadata"]["name"])
                if (resource.kind, name) not in wanted and (resource not in _FILES or name in _FILES_OF_PARTS):
                    # Forget that it was applied, so that it is created again if it is wanted again.
                    self._memory.clear()
                    await _delete(plane, resource, obj)

    async def remove(self, plane: Plane) -> bool:
        """Delete everything except volumes; True once nothing is left."""
        left = False
        for resource in _REMOVED:
            for obj in await _ours(plane, resource):
                left = True
                await _delete(plane, resource, obj)
        self._memory.clear()
        self._kept.clear()
        return not left

    async def _write(self, plane: Plane, obj: Obj) -> None:
        resource = NODE_SETS if obj["kind"] == NODE_SETS.kind else kinds.resource_of(str(obj["apiVersion"]), str(obj["kind"]))
        text = ""
        async with self._slots:
            for left in range(_MOST_TRIES, 0, -1):
                try:
                    await _put(plane, resource, obj)
                    text = await volumes.claims_grown(plane, obj) if resource == kinds.STATEFUL_SETS else ""
                    break
                except NotFound:
                    # A kind is served only some time after its definition was created.
                    if left == 1 or resource is not NODE_SETS:
                        raise
                except ApiError as error:
                    if obj["kind"] == definitions.KIND:
                        raise
                    if resource in _FILES and unchangeable(error.status, error.message):
                        # A tenant has made it immutable. Pods keep the files meanwhile.
                        await plane.delete(resource, str(obj["metadata"]["name"]), _place(resource))
                        await _put(plane, resource, obj)
                    else:
                        text = await volumes.kept(plane, obj, error)
                    break
                await self._clock.sleep(_TRY_PAUSE_SECONDS)
        self._say(obj, text)
        self._memory.remember(obj, at=self._clock.monotonic())

    def _say(self, obj: Obj, text: str) -> None:
        slot = (str(obj["kind"]), str(obj["metadata"]["name"]))
        if text and self._kept.get(slot) != text:
            _log.warning("object cannot be changed: %s", text, extra={"object": f"{slot[0]} {NAMESPACE}/{slot[1]}"})
        self._kept.pop(slot, None)
        if text:
            self._kept[slot] = text


async def _put(plane: Plane, resource: Resource, obj: Obj) -> None:
    await (definitions.put(plane, obj) if obj["kind"] == definitions.KIND else plane.apply(resource, obj))
    if resource == kinds.CONFIG_MAPS:
        # An apply leaves what others have added: a file of that kind would open the login nodes to keys that the Tenant lacks.
        parts = {"data": obj["data"], "binaryData": {}}
        patch = [{"op": "add", "path": f"/{part}", "value": value} for part, value in parts.items()]
        await plane.patch(resource, str(obj["metadata"]["name"]), patch, NAMESPACE, content_type=JSON_PATCH)


async def _delete(plane: Plane, resource: Resource, obj: Obj) -> None:
    name = str(obj["metadata"]["name"])
    if not obj["metadata"].get("deletionTimestamp"):
        _log.info("deleting", extra={"object": f"{resource.kind} {NAMESPACE}/{name}"})
        await plane.delete(resource, name, _place(resource), uid=uid_of(obj), propagation="Background")


def _place(resource: Resource) -> str | None:
    return NAMESPACE if resource.namespaced else None


async def _ours(plane: Plane, resource: Resource) -> tuple[Obj, ...]:
    try:
        return await plane.first_page(resource, _place(resource), label_selector=OURS)
    except NotFound:
        return ()
