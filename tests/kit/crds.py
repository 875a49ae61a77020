"""Installs the generated CRDs on a test's API server, and waits until definitions are served, or are not any more."""

from pathlib import Path

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound, Unavailable
from bulkhead.kube.objects import Resource
from tests.kit import yamlfiles
from tests.kit.syncerbed import until

FOLDER = Path(__file__).resolve().parents[2] / "crds"


async def install(client: Client) -> None:
    """Apply crds/*.yaml; returns when objects of their kinds can be listed."""
    for path in sorted(FOLDER.glob("*.yaml")):
        await client.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, yamlfiles.load(path))
    await served(client, kinds.TENANTS, kinds.TENANT_CLASSES, kinds.SHARED_VOLUMES, kinds.COHORTS)


async def served(client: Client, *resources: Resource, there: bool = True) -> None:
    """Wait until objects of these kinds can be listed, or cannot."""
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
