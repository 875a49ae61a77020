"""Whether an object is on an API server."""

from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import Resource


async def is_there(client: Client, resource: Resource, name: str, namespace: str | None = None) -> bool:
    """Whether the server has the object."""
    try:
        await client.get(resource, name, namespace)
    except NotFound:
        return False
    return True


async def is_gone(client: Client, resource: Resource, name: str, namespace: str | None = None) -> bool:
    """Whether the server does not have it, to await its end."""
    return not await is_there(client, resource, name, namespace)
