"""How many devices a ResourceClaim asks for, counted as the host's ResourceQuota counts them, and how much it may say. Pure.

A request with alternatives may end as any of them, so it counts for each class by the most that one alternative asks of it, and
for several classes at once. All devices of a class, however many there are, count as the most that a claim can be given.

A claim may have 32 requests of 8 alternatives of 32 selectors of 10 KiB, which is as much as an API server takes of any object.
The host's scheduler compiles each selector and asks it about each device, for all tenants; so they are counted together, alike
by the syncer and by the host's admission policy, and only the scheduler keeps them.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import ledger
from bulkhead.api.quantity import readable
from bulkhead.api.untrusted import mapping, mappings, text

# The most devices that a claim can be given, whatever it asks for.
MOST_DEVICES: Final = 32
# Selectors of all requests and alternatives of a claim, and the characters of their expressions.
MOST_SELECTORS: Final = 64
MOST_CHARACTERS: Final = 16 * 1024
_MOST_ALTERNATIVES: Final = 8
COUNT: Final = "count/resourceclaims.resource.k8s.io"
# On ResourceQuota `tenant-objects`, by the controller: the line that devices of a class count in, where that is a resource's.
LINES: Final = "bulkhead.dev/device-lines"
_LONGEST_NAME: Final = 253
_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"


def quota_name(device_class: str) -> str:
    """The name under which a ResourceQuota counts the devices of a class."""
    return f"{device_class}{_OF_CLASS}"


def lines_of(quota: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """By device class of which its tenant may have any: flavor and resource, or its own name if it stands for no resource."""
    hard = mapping(mapping(quota.get("spec")).get("hard"))
    noted = ledger.read_object(mapping(mapping(quota.get("metadata")).get("annotations")).get(LINES))
    classes = (name.removesuffix(_OF_CLASS) for name, most in hard.items() if name.endswith(_OF_CLASS) and readable(most))
    listed = ((name, noted.get(name)) for name in classes)
    return {name: ledger.line_named(line) if isinstance(line, str) else ("", name) for name, line in listed}


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


def selecting(claim: Mapping[str, Any]) -> tuple[int, int]:
    """How many selectors a claim has, and how many characters their expressions have together."""
    listed = [
        text(mapping(selector.get("cel")).get("expression"))
        for request in _requests(claim)
        for one in _alternatives(request)
        for selector in mappings(one.get("selectors"))
    ]
    return len(listed), sum(map(len, listed))


def bare(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a claim as far as `charged` reads it: what is kept of one has no selectors."""
    requests = [
        {"firstAvailable": [_counted(one) for one in _alternatives(request)[:_MOST_ALTERNATIVES]]}
        for request in _requests(claim)[:MOST_DEVICES]
    ]
    return {"devices": {"requests": requests}}


def together(claim: Mapping[str, Any]) -> int:
    """The most devices that a claim may be given as it stands."""
    return sum(max((_devices(one) for one in _alternatives(request)), default=0) for request in _requests(claim))


def _requests(claim: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return mappings(mapping(mapping(claim.get("spec")).get("devices")).get("requests"))


def _alternatives(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    exactly = request.get("exactly")
    return [exactly] if isinstance(exactly, Mapping) else mappings(request.get("firstAvailable"))


def _counted(one: Mapping[str, Any]) -> dict[str, Any]:
    name = text(one.get("deviceClassName"))[:_LONGEST_NAME]
    return (
        {"deviceClassName": name, "allocationMode": "All"}
        if one.get("allocationMode") == "All"
        else {
            "deviceClassName": name,
            "count": _devices(one),
        }
    )


def _devices(one: Mapping[str, Any]) -> int:
    if one.get("allocationMode") == "All":
        return MOST_DEVICES
    number = one.get("count", 1)
    return number if type(number) is int and number > 0 else 1
