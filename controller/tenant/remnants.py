"""Makes the remnant of a slice on the host (`controller.decide.remnant`), and asks for its deletion at once. It never waits."""

import logging

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError

_log = logging.getLogger(__name__)


async def leave(client: Client, remnant: Obj) -> None:
    """Make it. A host that refuses it keeps the slice until the last of the other Services is gone, as without a remnant."""
    name, tenant = remnant["metadata"]["name"], remnant["metadata"]["labels"][labels.LEFT_BY]
    try:
        made = await client.create(kinds.SERVICE_CIDRS, remnant)
    except ApiError as error:
        _log.warning("remnant %s not made: %s", name, error, extra={"tenant": tenant})
        return
    await end(client, made)
    _log.info("addresses of the slice are left to other Services: %s", name, extra={"tenant": tenant})


async def end(client: Client, remnant: Obj) -> None:
    """Ask for its deletion: from then on the host gives no more addresses of it, and keeps it until the last one is gone."""
    meta = remnant["metadata"]
    try:
        await client.delete(kinds.SERVICE_CIDRS, meta["name"], uid=meta["uid"])
    except ApiError as error:
        _log.warning("remnant %s not ended: %s", meta["name"], error, extra={"tenant": meta["labels"][labels.LEFT_BY]})
