"""Counts devices that a driver lists in ResourceSlices and that the node's own status does not show.

    DeviceClass ──> mapped_of ──> the resource that a device of the class is, and of which driver
    ResourceSlice ──> slice_of ──> a node's devices of a driver ──┴──> offered(nodes): the same nodes, with room for these too

The host's scheduler gives such devices to a pod that asks for the resource, on nodes whose `allocatable` has none of it. The
count is never too low: it is all devices on a node of the driver that the class selects, whatever else the class selects by.
Where the number cannot be known (no driver is named, devices belong to no single node or to several pods, a pool is being
written), the node counts as having more than any workload asks for: unknown devices keep no pod at the gate, and quota and
scheduler decide. What claims hold is not subtracted. So only the scheduler knows what is free, and no pod is pinned because of
these devices. Pure.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bulkhead.api.untrusted import mapping, mappings, sequence, text
from bulkhead.ledger.model import UNCOUNTED, Node

# And more, where nothing but conditions that hold beside it can follow.
_OF_DRIVER: Final = re.compile(r"""\s*device\.driver\s*==\s*(?:"([-.a-z0-9]{1,63})"|'([-.a-z0-9]{1,63})')\s*(&&[^|?]*)?""")
_LONGEST_NAME: Final = 317
# In one slice Kubernetes allows 128.
_MOST_DEVICES: Final = 1024
_MOST_SELECTORS: Final = 32


@dataclass(frozen=True, slots=True)
class Mapped:
    """A class of devices that a resource stands for."""

    resource: str
    # No other driver's devices are of it; "" where that is unknown.
    driver: str


@dataclass(frozen=True, slots=True)
class Slice:
    """Some devices of a pool."""

    driver: str
    pool: str
    generation: int
    # How many slices of that generation the pool has.
    slices: int
    # "" where they are not of one node.
    node: str
    devices: int
    # Each of them for one pod.
    whole: bool


def mapped_of(device_class: Mapping[str, Any]) -> Mapped | None:
    """What a DeviceClass stands for; None for one that stands for no resource."""
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
    """The nodes with what slices offer on them; what a node says itself is what it has."""
    drivers: dict[str, str] = {}
    for device_class in classes:
        # Which of several classes the scheduler takes is its own affair.
        drivers[device_class.resource] = "" if device_class.resource in drivers else device_class.driver
    if not drivers:
        return tuple(nodes)
    counted, elsewhere = _counted(slices)
    return tuple(_with(node, drivers, counted.get(node.name, {}), elsewhere) for node in nodes)


def _counted(slices: Iterable[Slice]) -> tuple[dict[str, dict[str, int]], set[str]]:
    """By node and driver how many there are; and drivers of which there are some that may be used from any node."""
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
        # While a pool is being written, what it has is unknown.
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
