"""Counts devices that a driver lists in ResourceSlices and that the node's own status does not show.

    DeviceClass ──> mapped_of ──> the resource as which its devices count, and their driver
    ResourceSlice ──> slice_of ──> a node's devices of a driver ──┴──> offered(nodes): the same nodes, with these devices

The host's scheduler gives such devices to a pod that requests the resource, on nodes whose `allocatable` has none of it. The
count is never too low: it includes all devices of the class's driver on a node, even if the class selects only some of them.
Sometimes the number cannot be known: no driver is named, devices belong to no single node or to several pods, a pool is being
written. Then the node counts as having more than any workload requests, so unknown devices keep no pod at the gate, and quota
and scheduler decide. Devices that claims hold are not subtracted. So only the scheduler knows which devices are free, and no
pod is pinned because of these devices. Pure.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bulkhead.api.untrusted import mapping, mappings, sequence, text
from bulkhead.ledger.model import UNCOUNTED, Node

# A condition on the driver; only further conditions that must hold too (`&&`) may follow.
_OF_DRIVER: Final = re.compile(r"""\s*device\.driver\s*==\s*(?:"([-.a-z0-9]{1,63})"|'([-.a-z0-9]{1,63})')\s*(&&[^|?]*)?""")
_LONGEST_NAME: Final = 317
# Kubernetes allows 128 in one slice.
_MOST_DEVICES: Final = 1024
_MOST_SELECTORS: Final = 32


@dataclass(frozen=True, slots=True)
class Mapped:
    """A DeviceClass whose devices pods may request as an extended resource."""

    resource: str
    # The only driver whose devices are in the class; "" if that is unknown.
    driver: str


@dataclass(frozen=True, slots=True)
class Slice:
    """The devices of a pool that one ResourceSlice lists."""

    driver: str
    pool: str
    generation: int
    # How many slices the pool has in this generation.
    slices: int
    # "" if the devices do not belong to one node.
    node: str
    devices: int
    # Whether each device is for one pod at a time.
    whole: bool


def mapped_of(device_class: Mapping[str, Any]) -> Mapped | None:
    """The resource and the driver of a DeviceClass; None if its devices cannot be requested as a resource."""
    spec = mapping(device_class.get("spec"))
    resource = text(spec.get("extendedResourceName"))
    if not 0 < len(resource) <= _LONGEST_NAME or "/" not in resource:
        return None
    expressions = (
        text(mapping(selector.get("cel")).get("expression")) for selector in mappings(spec.get("selectors"), _MOST_SELECTORS)
    )
    named = (_OF_DRIVER.fullmatch(expression) for expression in expressions)
    return Mapped(resource, next((found[1] or found[2] for found in named if found), ""))


def slice_of(resource_slice: Mapping[str, Any]) -> Slice:
    """What a ResourceSlice offers."""
    spec = mapping(resource_slice.get("spec"))
    pool, listed = mapping(spec.get("pool")), sequence(spec.get("devices"))
    return Slice(
        text(spec.get("driver")),
        text(pool.get("name")),
        _number(pool.get("generation")),
        _number(pool.get("resourceSliceCount")),
        text(spec.get("nodeName")),
        min(len(listed), _MOST_DEVICES),
        not any(device.get("allowMultipleAllocations") is True for device in mappings(listed, _MOST_DEVICES)),
    )


def offered(nodes: Sequence[Node], classes: Iterable[Mapped], slices: Iterable[Slice]) -> tuple[Node, ...]:
    """The nodes, with the devices that slices list on them. If a node's own status shows a resource, that number counts."""
    drivers: dict[str, str] = {}
    for device_class in classes:
        # If several classes have the same resource, the scheduler chooses one, so the driver is unknown.
        drivers[device_class.resource] = "" if device_class.resource in drivers else device_class.driver
    if not drivers:
        return tuple(nodes)
    counted, elsewhere = _counted(slices)
    return tuple(_with(node, drivers, counted.get(node.name, {}), elsewhere) for node in nodes)


def _counted(slices: Iterable[Slice]) -> tuple[dict[str, dict[str, int]], set[str]]:
    """The number of devices by node and driver, and the drivers that have devices which do not belong to one node."""
    pools: dict[tuple[str, str], list[Slice]] = {}
    for resource_slice in slices:
        there = pools.setdefault((resource_slice.driver, resource_slice.pool), [])
        if there and there[0].generation < resource_slice.generation:
            there.clear()
        if not there or there[0].generation == resource_slice.generation:
            there.append(resource_slice)
    counted: dict[str, dict[str, int]] = {}
    elsewhere: set[str] = set()
    for (driver, _), there in pools.items():
        # While a pool is being written, its number of devices is unknown.
        known = all(resource_slice.whole and resource_slice.slices == len(there) for resource_slice in there)
        for resource_slice in there:
            if not resource_slice.devices:
                continue
            if resource_slice.node:
                on = counted.setdefault(resource_slice.node, Counter())
                on[driver] = min(UNCOUNTED, on.get(driver, 0) + resource_slice.devices) if known else UNCOUNTED
            else:
                elsewhere.add(driver)
    return counted, elsewhere


def _with(node: Node, drivers: Mapping[str, str], counted: Mapping[str, int], elsewhere: set[str]) -> Node:
    more = {}
    for resource, driver in drivers.items():
        if node.allocatable.get(resource, 0) > 0:
            continue
        if not driver:
            number = UNCOUNTED if counted or elsewhere else 0
        else:
            number = UNCOUNTED if driver in elsewhere else counted.get(driver, 0)
        if number:
            more[resource] = number
    return replace(node, allocatable={**node.allocatable, **more}, by_slices=frozenset(more)) if more else node


def _number(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 63 else 0
