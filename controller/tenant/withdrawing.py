"""The first part of a teardown: the tenant stops lending, and its pods may be deleted.

    tenant-quota: record of what it was given ──> off      what its pods still hold, they hold until they are gone
    work namespace: annotation `ENDS` ──────────> on       without it, the host's policies let no running pod be deleted

Every step checks both, so it does not matter where an earlier step stopped.
"""

import contextlib

from bulkhead.api import labels, names
from bulkhead.api.ledger import GIVEN
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, NotFound
from bulkhead.kube.objects import Key, Resource
from controller.host.owned import Owned


async def withdraw(client: Client, owned: Owned, tenant: str) -> None:
    """Write both, unless they are written already."""
    namespace = f"bh-{tenant}{names.WORK_SUFFIX}"
    quota = owned.get(kinds.RESOURCE_QUOTAS, Key(namespace, names.POD_QUOTA))
    if quota is not None and GIVEN in _annotations(quota):
        await _annotate(client, kinds.RESOURCE_QUOTAS, quota, GIVEN, None)
    work = owned.get(kinds.NAMESPACES, Key("", namespace))
    if work is not None and labels.ENDS not in _annotations(work):
        await _annotate(client, kinds.NAMESPACES, work, labels.ENDS, "true")


def _annotations(obj: Obj) -> Obj:
    found: Obj = obj["metadata"].get("annotations") or {}
    return found


async def _annotate(client: Client, resource: Resource, obj: Obj, key: str, value: str | None) -> None:
    meta = obj["metadata"]
    body = {"metadata": {"uid": meta["uid"], "annotations": {key: value}}}
    # The object is gone or was replaced by another of that name; the next step finds out.
    with contextlib.suppress(NotFound, Conflict):
        await client.patch(resource, meta["name"], body, meta.get("namespace"))
