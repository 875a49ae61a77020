"""Makes running planes read changed files at once: a touch on the pod makes its kubelet update its volumes.

    Secret pki-apiserver, authentication.json ──> annotation on pod plane-N ──> kubelet syncs the pod ──> kube-apiserver

These are a renewed serving certificate, the CA of people after a revocation, and the rules and keys by which tokens are
judged. Without the touch a kubelet updates the volumes in its usual round, which takes a minute or more. The touch restarts
nothing: the template of the StatefulSet does not contain the annotation.
"""

import logging
from collections.abc import Iterable
from typing import Final

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, KubeError, NotFound
from controller.plane import authentication
from controller.plane.secrets import API_SERVER, digest
from controller.plane.spec import LEAF_ANNOTATION, PLANE
from controller.plane.statefulset import CONFIG_MAP

_log = logging.getLogger(__name__)
_NAMES: Final = frozenset({API_SERVER, CONFIG_MAP})


def version_of(objects: Iterable[Obj]) -> str:
    """A digest of the files that an API server reads again while it runs, from the plane's objects that have them."""
    named = {str(obj["metadata"]["name"]): obj.get("data") or {} for obj in objects if obj["metadata"]["name"] in _NAMES}
    # A new key comes with a new certificate.
    certificates = {name: text for name, text in named.get(API_SERVER, {}).items() if name.endswith(".crt")}
    told = str(named.get(CONFIG_MAP, {}).get(authentication.FILE) or "")
    return digest(*(f"{name}={text}".encode() for name, text in sorted(certificates.items())), told.encode())


async def present(client: Client, tenant: str, namespace: str, wanted: str, pods: Iterable[Obj]) -> None:
    """Touch each pod of a plane that was last touched for another version of those files."""
    for pod in pods:
        meta = pod["metadata"]
        own, touched_for = meta.get("labels") or {}, (meta.get("annotations") or {}).get(LEAF_ANNOTATION)
        if own.get(labels.COMPONENT) != PLANE or meta.get("deletionTimestamp") or touched_for == wanted:
            continue
        body = {"metadata": {"uid": meta["uid"], "annotations": {LEAF_ANNOTATION: wanted}}}
        try:
            await client.patch(kinds.PODS, str(meta["name"]), body, namespace)
        except (NotFound, Conflict):
            continue  # gone or replaced by another of its name: its informer enqueues the tenant again
        except KubeError as error:
            _log.warning("cannot touch pod %s: %s", meta["name"], error, extra={"tenant": tenant})
