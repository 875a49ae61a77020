"""The PodGroups of the coscheduling plugin, served for as long as a test needs them."""

import contextlib
from collections.abc import AsyncIterator

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import COSCHEDULING_GROUPS, CUSTOM_RESOURCE_DEFINITIONS
from tests.kit.crds import served

OWN_GROUPS: Obj = {
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "kind": "PodGroup", "listKind": "PodGroupList", "singular": "podgroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@contextlib.asynccontextmanager
async def coscheduling(plane: Client) -> AsyncIterator[None]:
    """An API server that serves them."""
    await plane.apply(CUSTOM_RESOURCE_DEFINITIONS, {"apiVersion": "apiextensions.k8s.io/v1"} | OWN_GROUPS)
    await served(plane, COSCHEDULING_GROUPS)
    try:
        yield
    finally:
        await plane.delete(CUSTOM_RESOURCE_DEFINITIONS, OWN_GROUPS["metadata"]["name"])
        await served(plane, COSCHEDULING_GROUPS, there=False)
