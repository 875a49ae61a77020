"""Keeps the APIs that the platform offers inside a plane: CustomResourceDefinitions, beside what the tenant makes of them.

A definition that the tenant brought itself is left as it is: taking it over could break what the tenant keeps in it. One of
ours that the tenant has bent is put right; where the API server does not allow that any more, that API alone is the worse.
"""

import logging
from typing import Final

from bulkhead.api import labels
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from bulkhead.kube.objects import Obj
from bulkhead.kube.resources import CUSTOM_RESOURCE_DEFINITIONS

_log = logging.getLogger(__name__)

_TRIES: Final = 3
KIND: Final = CUSTOM_RESOURCE_DEFINITIONS.kind


async def keep(client: Client, wanted: Obj) -> None:
    """Have a definition in the plane; what goes wrong is logged and tried again with the next pass."""
    name = wanted["metadata"]["name"]
    for _ in range(_TRIES):
        try:
            await _keep(client, name, wanted)
        except (AlreadyExists, Conflict):
            continue  # the API server's own controllers write to it too
        except KubeError as error:
            _log.warning("definition not kept: %s", error, extra={"object": name})
        return


async def _keep(client: Client, name: str, wanted: Obj) -> None:
    try:
        there = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFound:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, wanted)
        return
    meta = there["metadata"]
    if (meta.get("labels") or {}).get(labels.PLATFORM) != "true" or meta.get("deletionTimestamp"):
        return
    # Written whole and not applied: a field that somebody has added would stay. Writing what is there already changes nothing.
    notes = (meta.get("annotations") or {}) | wanted["metadata"]["annotations"]
    kept = meta | {"labels": (meta.get("labels") or {}) | wanted["metadata"]["labels"], "annotations": notes}
    await client.replace(CUSTOM_RESOURCE_DEFINITIONS, wanted | {"metadata": kept})
