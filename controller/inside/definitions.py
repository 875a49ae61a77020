"""Writes the CRDs that Bulkhead offers inside a plane, in which the tenant may have CRDs of the same names.

`keep` leaves a tenant's CRD as it is: replacing it could break what the tenant stores under it. `put` replaces it. If the
tenant has changed a CRD of Bulkhead, it is corrected; if the API server no longer permits that, only that API stops working.
"""

import logging
from typing import Final

import msgspec

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, may_pass
from bulkhead.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from controller.inside.calls import Plane

_log = logging.getLogger(__name__)

_MAX_TRIES: Final = 3
KIND: Final = CUSTOM_RESOURCE_DEFINITIONS.kind


class _Meta(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """The part of a CRD's metadata that stays when all else is replaced."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _Definition(msgspec.Struct, gc=False):
    metadata: _Meta


_definition: Final = msgspec.json.Decoder(_Definition)


async def keep(plane: Plane, wanted: Obj) -> bool:
    """Write a CRD into the plane, unless the tenant has its own. False if the plane could not take it now.

    What it will not take, for what the tenant has made of it, stays until the resync.
    """
    try:
        await _put(plane, wanted, ours=True)
    except KubeError as error:
        _log.warning("cannot write CRD: %s", error, extra={"object": wanted["metadata"]["name"]})
        return not (may_pass(error) or isinstance(error, AlreadyExists | Conflict))
    return True


async def put(plane: Plane, wanted: Obj) -> None:
    """Write a CRD into the plane, replacing any other. Raises KubeError if the plane refuses it."""
    await _put(plane, wanted, ours=False)


async def _put(plane: Plane, wanted: Obj, *, ours: bool) -> None:
    for left in range(_MAX_TRIES - 1, -1, -1):
        try:
            await _write(plane, wanted["metadata"]["name"], wanted, ours=ours)
        except (AlreadyExists, Conflict):
            # The API server's own controllers also write to it.
            if not left:
                raise
        else:
            return


async def _write(plane: Plane, name: str, wanted: Obj, *, ours: bool) -> None:
    try:
        there = await plane.get(CUSTOM_RESOURCE_DEFINITIONS, name, shape=_definition, metadata_only=True)
    except NotFound:
        await plane.create(CUSTOM_RESOURCE_DEFINITIONS, wanted)
        return
    meta = there.metadata
    if ours and ((meta.labels or {}).get(labels.PLATFORM) != "true" or meta.deletion_timestamp):
        return
    # Replaced and not applied, because a field that the tenant has added would stay. An unchanged CRD causes no write in etcd.
    found = msgspec.to_builtins(meta)
    kept = found | {
        field: {**(found.get(field) or {}), **(wanted["metadata"].get(field) or {})} for field in ("labels", "annotations")
    }
    await plane.replace(CUSTOM_RESOURCE_DEFINITIONS, wanted | {"metadata": kept})
