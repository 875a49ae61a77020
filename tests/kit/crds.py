"""Installs the generated CRDs on a test's API server, and waits until definitions are served, or are not any more.

To apply 200 KiB of schema costs the server and the test a third of a second each. So `install` remembers what it made of which
server, asks for the metadata alone, and applies again only what somebody has changed, deleted or made anew since.
"""

import functools
from pathlib import Path

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound, Unavailable
from bulkhead.kube.objects import Obj, Resource
from tests.kit import yamlfiles
from tests.kit.syncerbed import until

FOLDER = Path(__file__).resolve().parents[2] / "crds"
# By server: the definitions' resource versions, as `install` left them.
_installed: dict[str, dict[str, str]] = {}


async def install(client: Client) -> None:
    """Apply crds/*.yaml where they are not what they were; returns when objects of their kinds can be listed."""
    there, known = await _versions(client), _installed.get(client.config.server, {})
    stale = [each for each in definitions() if known.get(_name(each), "") != there.get(_name(each))]
    if not stale:
        return
    for each in stale:
        await client.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, each)
    await served(client, kinds.TENANTS, kinds.TENANT_CLASSES, kinds.SHARED_VOLUMES, kinds.COHORTS)
    _installed[client.config.server] = await _versions(client)


@functools.cache
def definitions() -> tuple[Obj, ...]:
    """The generated CRDs; nobody changes them."""
    return tuple(yamlfiles.load(path) for path in sorted(FOLDER.glob("*.yaml")))


async def _versions(client: Client) -> dict[str, str]:
    found = (await client.list_metadata(kinds.CUSTOM_RESOURCE_DEFINITIONS)).items
    return {_name(each): str(each["metadata"]["resourceVersion"]) for each in found}


def _name(definition: Obj) -> str:
    return str(definition["metadata"]["name"])


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
