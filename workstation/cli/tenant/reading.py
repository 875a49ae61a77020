"""Lists of the host for commands that show what this user may read, and name what they may not."""

import sys

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, NotFound
from bulkhead.kube.objects import Resource
from workstation.cli.output import plain


async def readable(client: Client, r: Resource, namespace: str | None, **selectors: str) -> list[Obj]:
    """A list; empty if the namespace does not exist yet or this user may not read it."""
    return await known(client, r, namespace, **selectors) or []


async def known(client: Client, r: Resource, namespace: str | None, **selectors: str) -> list[Obj] | None:
    """A list; empty if the namespace does not exist yet, None if this user may not read it."""
    try:
        return (await client.list(r, namespace, **selectors)).items  # type: ignore[arg-type]
    except NotFound:
        return []
    except Forbidden as error:
        sys.stderr.write(f"not shown: {plain(error)}\n")
        return None
