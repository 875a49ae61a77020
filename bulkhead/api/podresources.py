"""What a whole pod asks for of one resource, by the formula of Kubernetes' scheduler, quotas and kubelet. Pure.

    containers and sidecars run side by side; before them one init container after the other, each beside the sidecars that
    were started before it. What the pod names as a whole counts instead of its containers; its overhead comes on top.

Counted twice by two formulas, what one part of the platform grants the other would refuse, so all parts count here.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from bulkhead.api.quantity import readable
from bulkhead.api.untrusted import mapping, mappings

# What every pod uses, as quotas name it; of these a tenant has no ceiling unless its class or its Tenant sets one.
AMOUNTS: Final = ("cpu", "memory", "ephemeral-storage", "requests.storage")
# More devices than any cluster has.
MOST_DEVICES: Final = 1_000_000
_ZERO: Final = Decimal(0)
# Containers share nothing else: a GPU or a disk of the node is asked for by a container.
_OF_PODS: Final = frozenset({"cpu", "memory"})


def requested(pod: Mapping[str, Any], resource: str) -> Decimal:
    """What the pod reserves; a limit without a request is one."""
    spec = mapping(pod.get("spec"))
    overhead = readable(mapping(spec.get("overhead")).get(resource)) or _ZERO
    if resource in _OF_PODS or resource.startswith("hugepages-"):
        given = _asked(spec, resource)
        if given is not None:
            return given + overhead
    running = sum((_asked(each, resource) or _ZERO for each in mappings(spec.get("containers"))), _ZERO)
    sidecars = peak = _ZERO
    for container in mappings(spec.get("initContainers")):
        asked = _asked(container, resource) or _ZERO
        if container.get("restartPolicy") == "Always":
            sidecars += asked
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + asked)
    return max(running + sidecars, peak) + overhead


def containers(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Every container that resources are reserved for."""
    spec = mapping(pod.get("spec"))
    return [*mappings(spec.get("initContainers")), *mappings(spec.get("containers"))]


def _asked(holder: Mapping[str, Any], resource: str) -> Decimal | None:
    resources = mapping(holder.get("resources"))
    found = readable(mapping(resources.get("requests")).get(resource))
    return readable(mapping(resources.get("limits")).get(resource)) if found is None else found
