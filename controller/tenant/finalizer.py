"""The finalizer that keeps a Tenant until everything created for it is gone."""

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound


def has(tenant: Obj) -> bool:
    """Whether a Tenant has it."""
    return names.TEARDOWN_FINALIZER in (tenant["metadata"].get("finalizers") or [])


async def put_on(client: Client, tenant: Obj) -> Obj:
    """Add it before anything is created; returns the Tenant with it."""
    if has(tenant):
        return tenant
    return await _patch(client, tenant, [*(tenant["metadata"].get("finalizers") or []), names.TEARDOWN_FINALIZER])


async def take_off(client: Client, tenant: Obj) -> None:
    """Remove it once nothing is left."""
    try:
        await _patch(client, tenant, [name for name in tenant["metadata"]["finalizers"] if name != names.TEARDOWN_FINALIZER])
    except NotFound:
        return


async def _patch(client: Client, tenant: Obj, finalizers: list[str]) -> Obj:
    meta = {"finalizers": finalizers, "resourceVersion": tenant["metadata"]["resourceVersion"]}
    return await client.patch(kinds.TENANTS, tenant["metadata"]["name"], {"metadata": meta})
