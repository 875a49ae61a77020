"""Which StorageClass of a cluster claims without a class get: the two annotations that Kubernetes honours. Pure."""

from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping

DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
# What marked it before, and what Kubernetes still honours.
BETA_DEFAULT: Final = "storageclass.beta.kubernetes.io/is-default-class"


def is_default(storage_class: Obj) -> bool:
    """Whether claims without a class get this one."""
    annotations = mapping(mapping(storage_class.get("metadata")).get("annotations"))
    return "true" in (annotations.get(DEFAULT), annotations.get(BETA_DEFAULT))
