"""What a whole pod asks for of one resource, by the formula of Kubernetes' scheduler, quotas and kubelet. Pure.

    containers and sidecars run side by side; before them one init container after the other, each beside the sidecars that
    were started before it. What the pod names as a whole counts instead of its containers; its overhead comes on top.

Counted twice by two formulas, what one part of the platform grants the other would refuse, so all parts count here: `requested`
what a pod asks for of one resource, `reserved` what it takes of everything, also while it is resized.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from bulkhead.api.conditions import condition_of
from bulkhead.api.quantity import readable
from bulkhead.api.untrusted import mapping, mappings

# What every pod uses, as quotas name it; of these a tenant has no ceiling unless its class or its Tenant sets one.
AMOUNTS: Final = ("cpu", "memory", "ephemeral-storage", "requests.storage")
# More devices than any cluster has.
MOST_DEVICES: Final = 1_000_000
_ZERO: Final = Decimal(0)
# Containers share nothing else: a GPU or a disk of the node is asked for by a container.
_OF_PODS: Final = frozenset({"cpu", "memory"})
_HUGE_PAGES: Final = "hugepages-"
_Amounts: TypeAlias = dict[str, Decimal]


def requested(pod: Mapping[str, Any], resource: str) -> Decimal:
    """What the pod reserves; a limit without a request is one."""
    spec = mapping(pod.get("spec"))
    overhead = readable(mapping(spec.get("overhead")).get(resource)) or _ZERO
    if _of_pods(resource):
        given = _asked(spec, resource)
        if given is not None:
            return given + overhead
    running = sum((_asked(container, resource) or _ZERO for container in mappings(spec.get("containers"))), _ZERO)
    sidecars = peak = _ZERO
    for container in mappings(spec.get("initContainers")):
        asked = _asked(container, resource) or _ZERO
        if container.get("restartPolicy") == "Always":
            sidecars += asked
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + asked)
    return max(running + sidecars, peak) + overhead


def reserved(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    """What the pod takes of each resource that it names; while it is resized the most of what it asks for, was given or has.

    What it asks for does not count where its node has no room for that at all. So do the host's scheduler and quotas count.
    """
    spec, status = mapping(pod.get("spec")), mapping(pod.get("status"))
    taken = _taken(status)
    found: _Amounts = {}
    for container in mappings(spec.get("containers")):
        _add(found, taken(container))
    sidecars: _Amounts = {}
    peak: _Amounts = {}
    for container in mappings(spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            _add(sidecars, taken(container))
            _raise(peak, sidecars)
        else:
            alone = _asks(mapping(container.get("resources")))
            _raise(peak, {name: alone.get(name, _ZERO) + sidecars.get(name, _ZERO) for name in {*alone, *sidecars}})
    _add(found, sidecars)
    _raise(found, peak)
    named = _asks(mapping(spec.get("resources")))
    whole = taken({"resources": spec.get("resources")}, status)
    found |= {name: whole.get(name, _ZERO) for name in named if _of_pods(name)}
    _add(found, _read(mapping(spec.get("overhead"))))
    return found


def containers(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Every container that resources are reserved for."""
    spec = mapping(pod.get("spec"))
    return [*mappings(spec.get("initContainers")), *mappings(spec.get("containers"))]


def _of_pods(resource: str) -> bool:
    return resource in _OF_PODS or resource.startswith(_HUGE_PAGES)


def _taken(status: Mapping[str, Any]) -> Callable[..., _Amounts]:
    """Of a container, or of a pod as a whole with its own status, what it takes."""
    listed = [*mappings(status.get("containerStatuses")), *mappings(status.get("initContainerStatuses"))]
    by_name = {name: entry for entry in listed if isinstance(name := entry.get("name"), str)}
    infeasible = condition_of({"status": status}, "PodResizePending").get("reason") == "Infeasible"

    def taken(holder: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> _Amounts:
        asked = _asks(mapping(holder.get("resources")))
        name = holder.get("name")
        shown = (by_name.get(name, {}) if isinstance(name, str) else {}) if own is None else own
        if not isinstance(shown.get("resources"), Mapping):
            return asked
        found = {} if infeasible else asked
        _raise(found, _read(mapping(mapping(shown["resources"]).get("requests"))))
        _raise(found, _read(mapping(shown.get("allocatedResources"))))
        return found

    return taken


def _asks(resources: Mapping[str, Any]) -> _Amounts:
    return _read(mapping(resources.get("limits"))) | _read(mapping(resources.get("requests")))


def _read(given: Mapping[str, Any]) -> _Amounts:
    return {name: number for name, value in given.items() if (number := readable(value)) is not None}


def _add(total: _Amounts, more: Mapping[str, Decimal]) -> None:
    for name, number in more.items():
        total[name] = total.get(name, _ZERO) + number


def _raise(most: _Amounts, other: Mapping[str, Decimal]) -> None:
    for name, number in other.items():
        if number > most.get(name, _ZERO):
            most[name] = number


def _asked(holder: Mapping[str, Any], resource: str) -> Decimal | None:
    resources = mapping(holder.get("resources"))
    found = readable(mapping(resources.get("requests")).get(resource))
    return readable(mapping(resources.get("limits")).get(resource)) if found is None else found
