"""Makes the remnant of a slice on the host (`controller.decide.remnant`), and asks for its deletion at once."""

import logging

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError

_log = logging.getLogger(__name__)


async def leave(client: Client, remnant: Obj) -> None:
    """Make it. A host that refuses it keeps the slice until the last of the other Services is gone, as without a remnant."""
    meta = remnant["metadata"]
    tenant = {"tenant": meta["labels"][labels.LEFT_BY]}
    try:
        made = await client.create(kinds.SERVICE_CIDRS, remnant)
        # From now on the host gives no more addresses of it.
        await client.delete(kinds.SERVICE_CIDRS, meta["name"], uid=made["metadata"]["uid"])
    except ApiError as error:
        _log.warning("remnant %s not made: %s", meta["name"], error, extra=tenant)
    else:
        _log.info("addresses of the slice are left to other Services: %s", meta["name"], extra=tenant)
