"""Installs the generated CRDs on a test's API server and waits until it serves them."""

import asyncio
from pathlib import Path

import yaml

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound, Unavailable

FOLDER = Path(__file__).parent.parent / "crds"


async def install(client: Client) -> None:
    """Apply crds/*.yaml; returns when tenants and classes can be listed."""
    for path in sorted(FOLDER.glob("*.yaml")):
        await client.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(path.read_text()))
    deadline = asyncio.get_running_loop().time() + 30
    for kind in (kinds.TENANTS, kinds.TENANT_CLASSES):
        while True:
            try:
                await client.list(kind)
                break
            except (NotFound, Unavailable):
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.1)
