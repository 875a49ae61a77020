"""Makes running planes present a changed serving certificate at once: a touch on the pod makes its kubelet update its volumes.

    Secret pki-apiserver ──> annotation on pod plane-N ──> kubelet syncs the pod ──> files ──> kube-apiserver reads them again

Without it a kubelet updates the volumes in its usual round, which takes a minute or more. The touch restarts nothing: the
template of the StatefulSet does not contain the annotation.
"""

import logging
from collections.abc import Iterable

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, KubeError, NotFound
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import LEAF_ANNOTATION, PLANE, PlaneSpec

_log = logging.getLogger(__name__)


async def present(client: Client, spec: PlaneSpec, keys: KeyMaterial, pods: Iterable[Obj]) -> None:
    """Touch each pod of a plane that was last touched for another certificate."""
    wanted = keys.leaf("pki-apiserver/server")
    for pod in pods:
        meta = pod["metadata"]
        own, touched_for = meta.get("labels") or {}, (meta.get("annotations") or {}).get(LEAF_ANNOTATION)
        if own.get(labels.COMPONENT) != PLANE or meta.get("deletionTimestamp") or touched_for == wanted:
            continue
        body = {"metadata": {"uid": meta["uid"], "annotations": {LEAF_ANNOTATION: wanted}}}
        try:
            await client.patch(kinds.PODS, str(meta["name"]), body, spec.namespace)
        except (NotFound, Conflict):
            continue  # gone or replaced by another of its name: its informer enqueues the tenant again
        except KubeError as error:
            _log.warning("cannot touch pod %s: %s", meta["name"], error, extra={"tenant": spec.tenant})
