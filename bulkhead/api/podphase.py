"""When a pod is over."""

from collections.abc import Mapping
from typing import Any, Final

_FINAL: Final = frozenset({"Succeeded", "Failed"})


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether a pod's containers have run for the last time; False for what no pod can be."""
    status = pod.get("status")
    phase = status.get("phase") if isinstance(status, Mapping) else None
    return isinstance(phase, str) and phase in _FINAL
