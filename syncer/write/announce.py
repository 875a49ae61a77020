"""An event about what a syncer found out of a whole plane: once, and without a queue, as each comes seldom.

Events about single objects, which a tenant can cause by the thousand, go through `syncer.events`.
"""

import logging

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.resources import EVENTS

_log = logging.getLogger(__name__)


async def announce(client: Client, involved: Obj, namespace: str, *, reason: str, message: str, stamp: str) -> None:
    """Write a warning about an object into this namespace, now. A refused one is lost: what counts is recorded elsewhere."""
    event: Obj = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{involved['name']}-"},
        "involvedObject": {"apiVersion": "v1"} | involved,
        "reason": reason,
        "message": message,
        "type": "Warning",
        "source": {"component": "bulkhead-syncer"},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
    try:
        await client.create(EVENTS, event, namespace)
    except KubeError as error:
        _log.warning("event %s not written: %s", reason, error)
