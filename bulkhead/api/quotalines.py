"""What admission says to metering: these two types, and nothing else, are known to both. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

# A flavor, which is a kind of node with a quota of its own, and the resource; the flavor is "" where a resource has none.
Line: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ReservedRoom:
    """Devices on nodes that no pod holds and that are reserved for a waiting workload: no other workload may use them now."""

    # The tenant of the workload, by the namespace of its host pods.
    tenant: str
    # Of the virtual pods. The owner is what controls them, or the pod itself: `Job/train`.
    namespace: str
    owner: str
    # How many devices, by line.
    devices: Mapping[Line, int]
