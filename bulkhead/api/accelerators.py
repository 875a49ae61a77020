"""How many accelerators pods hold, and the annotation of host nodes in which the sum is told.

The controller sums over all pods of the host and writes the annotation; each syncer reads it and takes its own pods' part off.
Both count by the functions here. Pure; whatever others may have written into pods or nodes ends as a number or as nothing.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bulkhead.api.podphase import has_ended
from bulkhead.api.quantity import InvalidQuantityError, parse, whole

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
    """What a pod asks for of each resource: containers and sidecars together, or an init container that needs more."""
    spec = mapping(pod.get("spec"))
    found = {}
    for resource in resources:
        running = sum(_asked(container, resource) for container in mappings(spec.get("containers")))
        sidecars = peak = 0
        for container in mappings(spec.get("initContainers")):
            if container.get("restartPolicy") == "Always":
                sidecars += _asked(container, resource)
                peak = max(peak, sidecars)
            else:
                peak = max(peak, sidecars + _asked(container, resource))
        total = max(running + sidecars, peak)
        if total:
            found[resource] = total
    return found


def extended(pod: Mapping[str, Any]) -> frozenset[str]:
    """Every resource of a vendor's that a pod names: `nvidia.com/gpu`, but not `cpu`."""
    spec = mapping(pod.get("spec"))
    return frozenset(
        resource
        for field in ("containers", "initContainers")
        for container in mappings(spec.get(field))
        for part in ("limits", "requests")
        for resource in mapping(mapping(container.get("resources")).get(part))
        if "/" in resource
    )


def count(value: Any) -> int:
    """A count, 0 where there is none; a fraction counts as the next whole."""
    if value is None:
        return 0
    try:
        return whole(value)
    except InvalidQuantityError:
        try:
            return int(parse(value)) + 1
        except InvalidQuantityError:
            return 0


def text(held: Mapping[str, int]) -> str | None:
    """The annotation's value; None where nothing is held and the annotation has to go."""
    plain = {resource: number for resource, number in sorted(held.items()) if number > 0}
    return json.dumps(plain, separators=(",", ":")) if plain else None


def read(value: Any) -> dict[str, int] | None:
    """What an annotation says, nothing where there is none; None for one that nobody of ours wrote."""
    if value is None:
        return {}
    try:
        found = json.loads(value) if isinstance(value, str) and len(value) <= _LONGEST else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(type(number) is int and 0 <= number <= _MOST for number in found.values()):
        return None
    return found


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` where it is a mapping, an empty one elsewhere."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The mappings of a list, none where there is no list."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _asked(container: Mapping[str, Any], resource: str) -> int:
    resources = mapping(container.get("resources"))
    return max(count(mapping(resources.get(part)).get(resource)) for part in ("limits", "requests"))
