"""The Gateway that a tenant's route names, as the host has it: one request in each reconcile of an exposed tenant.

When a Gateway is deleted, implementations leave their report on its routes unchanged, so the route's status is not enough. If
the host does not permit the request, this check is lost and nothing else.
"""

import asyncio
import logging
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from controller.plane.ways import Exposure

_log = logging.getLogger(__name__)
_SECONDS: Final = 10.0


async def gateway_of(client: Client, exposure: Exposure) -> Obj | None:
    """The Gateway of an exposure; empty if it does not exist, None if the exposure names none or the host does not tell."""
    named = exposure.gateway
    if named is None or not exposure.route_version:
        return None
    try:
        async with asyncio.timeout(_SECONDS):
            return await client.get(kinds.GATEWAYS, named.name, named.namespace)
    except NotFound:
        return {}
    except (KubeError, TimeoutError) as error:
        _log.warning("cannot read Gateway %s/%s: %s", named.namespace, named.name, error)
        return None
