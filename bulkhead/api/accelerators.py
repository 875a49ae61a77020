"""How many accelerators pods hold, and the annotation of host nodes that holds the sum.

The controller sums over all pods of the host and writes the annotation; each syncer reads it and takes its own pods' part off.
Both count by the functions here. Pure; whatever others may have written into pods or nodes ends as a number or as nothing.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bulkhead.api import podresources
from bulkhead.api.podphase import has_ended
from bulkhead.api.quantity import readable
from bulkhead.api.untrusted import mapping

HELD: Final = "bulkhead.dev/accelerators-held"  # on host nodes: resource -> count, as JSON
_MOST: Final = 1_000_000
_LONGEST: Final = 4096


def holds(pod: Mapping[str, Any], resources: Iterable[str]) -> tuple[str, dict[str, int]]:
    """The node on which a pod holds something, and what; no node and nothing unless it is bound and has not ended."""
    node = mapping(pod.get("spec")).get("nodeName")
    if not isinstance(node, str) or not node or has_ended(pod):
        return "", {}
    found = requested(pod, resources)
    return (node, found) if found else ("", {})


def by_node(held: Iterable[tuple[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """The sums of what `holds` found, by node and resource."""
    found: dict[str, dict[str, int]] = {}
    for node, counts in held:
        here = found.setdefault(node, {}) if counts else {}
        for resource, number in counts.items():
            here[resource] = here.get(resource, 0) + number
    return found


def requested(pod: Mapping[str, Any], resources: Iterable[str]) -> dict[str, int]:
    """What a pod asks for of each resource, those left out of which it asks for nothing."""
    found = {resource: math.ceil(podresources.requested(pod, resource)) for resource in resources}
    return {resource: number for resource, number in found.items() if number}


def extended(pod: Mapping[str, Any]) -> frozenset[str]:
    """Every resource of a vendor's that a pod names: `nvidia.com/gpu`, but not `cpu`."""
    parts = [mapping(mapping(pod.get("spec")).get("overhead"))]
    for container in podresources.containers(pod):
        resources = mapping(container.get("resources"))
        parts += [mapping(resources.get(part)) for part in ("limits", "requests")]
    return frozenset(resource for part in parts for resource in part if "/" in resource)


def count(value: Any) -> int:
    """A count, 0 where there is none; a fraction counts as the next whole."""
    return math.ceil(readable(value) or 0)


def text(held: Mapping[str, int]) -> str | None:
    """The annotation's value; None where nothing is held and the annotation has to go."""
    plain = {resource: number for resource, number in sorted(held.items()) if number > 0}
    return json.dumps(plain, separators=(",", ":")) if plain else None


def read(value: Any) -> dict[str, int] | None:
    """What an annotation says, nothing where there is none; None for one that no controller wrote."""
    if value is None:
        return {}
    try:
        found = json.loads(value) if isinstance(value, str) and len(value) <= _LONGEST else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(type(number) is int and 0 <= number <= _MOST for number in found.values()):
        return None
    return found
