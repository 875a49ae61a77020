"""Where a pod is in its life: placed on a node, ready, over. Pure; a pod of any shape has an answer."""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.conditions import condition_of
from bulkhead.api.untrusted import mapping, text

_FINAL: Final = frozenset({"Succeeded", "Failed"})


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether a pod's containers have run for the last time; False for what no pod can be."""
    return text(mapping(pod.get("status")).get("phase")) in _FINAL


def placed_on(pod: Mapping[str, Any]) -> str:
    """The node that a pod is bound to; empty before it is."""
    return str(mapping(pod.get("spec")).get("nodeName") or "")


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod's condition says that it is ready; it may be pending deletion all the same."""
    return condition_of(pod, "Ready").get("status") == "True"


def serves(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is ready and not pending deletion."""
    return is_ready(pod) and not is_pending_deletion(pod)


def is_pending_deletion(obj: Mapping[str, Any]) -> bool:
    """Whether a pod, or any other object, was deleted and is still there."""
    return bool(mapping(obj.get("metadata")).get("deletionTimestamp"))
