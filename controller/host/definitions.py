"""Keeps the host's CRDs at this release.

Helm installs the files in a chart's `crds/` only once and does not upgrade them. So each controller upgrades them at its start,
before it reconciles any tenant (docs/decisions/0032):

    CRDs from the types (`bulkhead.api.crd`) ──> does the host have a newer release's? ─┬─ yes ──> leave it
                                                                                       └─ no ───> server-side apply

CRDs of a newer release are never overwritten: the next write would lose what that release stores in fields of its own. The
controller's rights and the policy `bulkhead-controller-definitions` limit which CRDs it may write. Nothing is ever deleted.
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
    """Bring every CRD to this release. Raises KubeError if the host refuses one."""
    for definition in crd.CRDS:
        wanted = crd.render(definition)
        name = str(wanted["metadata"]["name"])
        there = await _there(client, name)
        if newer(release_of(there), release):
            _log.info("keeping the CRD of a newer release", extra={"object": name, "release": release_of(there)})
            continue
        left = await client.apply(CUSTOM_RESOURCE_DEFINITIONS, wanted)
        if there is None or left["metadata"].get("generation") != there["metadata"].get("generation"):
            _log.info("CRD upgraded to this release", extra={"object": name, "release": release})


def newer(there: str, ours: str) -> bool:
    """Whether one release is newer than another; a text that is not a release is older than any."""
    return _numbers(there) > _numbers(ours)


def release_of(definition: Obj | None) -> str:
    """The release that wrote a CRD; empty if it has no such annotation."""
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
