"""Keeps the host's definitions of our kinds at this release.

Helm installs what lies in a chart's `crds/` once, and on an upgrade leaves it as it is. So each controller brings them up when
it starts, before it looks after any tenant (docs/decisions/0032):

    what the types say (`bulkhead.api.crd`) ──> is a newer release's there? ─┬─ yes ──> left as it is
                                                                            └─ no ───> server-side apply

Never over a newer release's: what that one stores in fields of its own would be lost with the next write. Which definitions it
may write at all is held by its rights and by the policy `bulkhead-controller-definitions`. Nothing is ever deleted.
"""

import logging

import bulkhead
from bulkhead.api import crd
from bulkhead.api.labels import RELEASE
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import CUSTOM_RESOURCE_DEFINITIONS

_log = logging.getLogger(__name__)


async def bring_up(client: Client, release: str = bulkhead.__version__) -> None:
    """Bring every definition up to this release; raises KubeError where the host refuses one."""
    for definition in crd.CRDS:
        wanted = crd.render(definition)
        name = str(wanted["metadata"]["name"])
        there = await _there(client, name)
        if newer(release_of(there), release):
            _log.info("the definition of a newer release stays", extra={"object": name, "release": release_of(there)})
            continue
        left = await client.apply(CUSTOM_RESOURCE_DEFINITIONS, wanted)
        if there is None or left["metadata"].get("generation") != there["metadata"].get("generation"):
            _log.info("definition brought up to this release", extra={"object": name, "release": release})


def newer(there: str, ours: str) -> bool:
    """Whether one release is newer than another; what is no release is older than any."""
    return _numbers(there) > _numbers(ours)


def release_of(definition: Obj | None) -> str:
    """The release that wrote a definition; empty where none has said so."""
    return str(mapping(mapping(mapping(definition).get("metadata")).get("annotations")).get(RELEASE) or "")


def _numbers(release: str) -> tuple[int, ...]:
    parts = release.partition("-")[0].partition("+")[0].split(".")
    known = all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)
    return tuple(int(part) for part in parts) if known else ()


async def _there(client: Client, name: str) -> Obj | None:
    try:
        return await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFound:
        return None
