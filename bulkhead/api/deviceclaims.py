"""How many devices a ResourceClaim asks for, counted as the host's ResourceQuota counts them. Pure.

A request with alternatives may end as any of them, so it counts for each class by the most that one alternative asks of it, and
for several classes at once. All devices of a class, however many there are, count as the most that a claim can be given.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.untrusted import mapping, mappings

# The most devices that a claim can be given, whatever it asks for.
MOST_DEVICES: Final = 32
COUNT: Final = "count/resourceclaims.resource.k8s.io"
_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"


def quota_name(device_class: str) -> str:
    """The name under which a ResourceQuota counts the devices of a class."""
    return f"{device_class}{_OF_CLASS}"


def charged(claim: Mapping[str, Any], resources: Mapping[str, str]) -> dict[str, int]:
    """What a claim asks for of each class at most; of classes that stand for a resource together, under the resource's name."""
    found: dict[str, int] = {}
    for request in _requests(claim):
        most: dict[str, int] = {}
        for one in _alternatives(request):
            name = str(one.get("deviceClassName", ""))
            key = resources.get(name, name)
            most[key] = max(most.get(key, 0), _devices(one))
        for key, number in most.items():
            found[key] = found.get(key, 0) + number
    return found


def together(claim: Mapping[str, Any]) -> int:
    """The most devices that a claim may be given as it stands."""
    return sum(max((_devices(one) for one in _alternatives(request)), default=0) for request in _requests(claim))


def _requests(claim: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return mappings(mapping(mapping(claim.get("spec")).get("devices")).get("requests"))


def _alternatives(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    exactly = request.get("exactly")
    return [exactly] if isinstance(exactly, Mapping) else mappings(request.get("firstAvailable"))


def _devices(one: Mapping[str, Any]) -> int:
    if one.get("allocationMode") == "All":
        return MOST_DEVICES
    number = one.get("count", 1)
    return number if type(number) is int and number > 0 else 1
