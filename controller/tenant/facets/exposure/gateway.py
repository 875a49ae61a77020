"""The Gateway that a tenant's route names, as the host has it: one request with each reconcile, and none of other tenants.

Implementations leave what they said of a route as it was when its Gateway goes, so the route alone does not tell. A host that
does not let it be read loses that, and nothing else.
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
    """The Gateway of an exposure; empty where there is none, None where it has none or what there is cannot be known."""
    named = exposure.gateway
    if named is None or not exposure.route_version:
        return None
    try:
        async with asyncio.timeout(_SECONDS):
            return await client.get(kinds.GATEWAYS, named.name, named.namespace)
    except NotFound:
        return {}
    except (KubeError, TimeoutError) as error:
        _log.warning("Gateway %s/%s: %s", named.namespace, named.name, error)
        return None
