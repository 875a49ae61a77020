"""Where a pod is in its life: placed on a node, over."""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.untrusted import mapping, text

_FINAL: Final = frozenset({"Succeeded", "Failed"})


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether a pod's containers have run for the last time; False for what no pod can be."""
    return text(mapping(pod.get("status")).get("phase")) in _FINAL


def placed_on(pod: Mapping[str, Any]) -> str:
    """The node that a pod is bound to; empty before it is."""
    return str((pod.get("spec") or {}).get("nodeName") or "")
