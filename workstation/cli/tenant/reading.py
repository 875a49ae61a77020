"""Lists of the host for commands that show what they can read, and name what they cannot: not allowed, or not answered."""

import sys

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, KubeError, NotFound, Unauthorized
from bulkhead.kube.objects import Resource
from workstation.cli.output import plain


async def readable(client: Client, r: Resource, namespace: str | None, **selectors: str) -> list[Obj]:
    """A list; empty if the namespace does not exist yet or it cannot be read."""
    return await known(client, r, namespace, **selectors) or []


async def known(client: Client, r: Resource, namespace: str | None, **selectors: str) -> list[Obj] | None:
    """A list; empty if the namespace does not exist yet, None if it cannot be read.

    In an incident an API server may answer for one kind and not for another: the rest is shown all the same. Credentials that
    are not known raise Unauthorized: nothing else would be read with them either.
    """
    try:
        return (await client.list(r, namespace, **selectors)).items  # type: ignore[arg-type]
    except NotFound:
        return []
    except Unauthorized:
        raise
    except KubeError as error:
        # The server's refusals name the kind themselves.
        told = plain(error) if isinstance(error, ApiError) and error.status == 403 else f"{r}: {plain(error)}"
        sys.stderr.write(f"not shown: {told}\n")
        return None
