"""Installs the generated CRDs on a test's API server, and waits until definitions are served, or no longer served."""

import contextlib

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound, Unavailable
from bulkhead.kube.objects import Resource
from tests.kit.applying import apply_all, seen
from tests.kit.definitions import definitions
from tests.kit.syncerbed import until


async def install(client: Client) -> None:
    """Apply crds/*.yaml if they have changed. Returns when objects of their kinds can be listed."""
    if await apply_all(client, definitions()):
        await served(client, kinds.TENANTS, kinds.TENANT_CLASSES, kinds.SHARED_VOLUMES, kinds.COHORTS)
        # Their status has come, which gave them other versions; to apply them once more would cost as much as the first time.
        await seen(client, definitions())


async def remove(client: Client) -> None:
    """Take them away again, with all objects of their kinds. Returns when none of them is there."""
    names = {str(definition["metadata"]["name"]) for definition in definitions()}

    async def gone() -> bool:
        there = {item["metadata"]["name"] for item in (await client.list(kinds.CUSTOM_RESOURCE_DEFINITIONS)).items}
        return not names & there

    for name in sorted(names):
        with contextlib.suppress(NotFound):
            await client.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, name)
    await until(gone, "the definitions to be gone")
    await served(client, kinds.TENANTS, there=False)


async def served(client: Client, *resources: Resource, there: bool = True) -> None:
    """Wait until objects of these kinds can be listed, or can no longer be."""
    for r in resources:

        async def as_wished(r: Resource = r) -> bool:
            try:
                await client.list(r)
            except NotFound:
                return not there
            except Unavailable:
                return False
            return there

        await until(as_wished, f"{r.plural} served: {there}")
