"""Grows the claims of a plane's etcd independently of each other; a refusal by the host is reported and blocks nothing."""

import asyncio
import logging

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, KubeError, NotFound
from controller.decide.storage import Growth, growths
from controller.existing import Existing
from controller.plane.spec import PlaneSpec

_log = logging.getLogger(__name__)
_SECONDS = 15.0


async def grow(client: Client, spec: PlaneSpec, existing: Existing) -> dict[str, str]:
    """Patch the claims that are smaller than requested; returns the host's words for those that it refused."""
    found = growths(spec, existing)
    answers = await asyncio.gather(*(_grow(client, spec, growth) for growth in found))
    return {growth.claim: words for growth, words in zip(found, answers, strict=True) if words}


async def _grow(client: Client, spec: PlaneSpec, growth: Growth) -> str:
    body = {"metadata": {"uid": growth.uid}, "spec": {"resources": {"requests": {"storage": growth.size}}}}
    try:
        async with asyncio.timeout(_SECONDS):
            await client.patch(kinds.PERSISTENT_VOLUME_CLAIMS, growth.claim, body, spec.namespace)
    except NotFound:
        return ""
    except (KubeError, TimeoutError) as error:
        _log.warning("cannot grow volume: %s", error, extra={"tenant": spec.tenant, "object": growth.claim})
        return error.message if isinstance(error, ApiError) else str(error) or "the host did not answer in time"
    _log.info("growing volume", extra={"tenant": spec.tenant, "object": growth.claim, "size": growth.size})
    return ""
