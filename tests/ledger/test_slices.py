"""Devices that only ResourceSlices list: how many a node counts as having, and that unknown numbers refuse no pod."""

from typing import Any

import pytest
from hypothesis import given

from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import UNCOUNTED, Node, Pod, Share, Snapshot, Stage, Tenant
from bulkhead.ledger.slices import Mapped, Slice, mapped_of, offered, slice_of
from tests.ledger.junk import junk

GPU, DRIVER = "nvidia.com/gpu", "gpu.example.com"
EXPRESSIONS: list[tuple[str, str]] = [
    (f'device.driver == "{DRIVER}"', DRIVER),
    (f" device.driver=='{DRIVER}' ", DRIVER),
    (f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'", DRIVER),
    (f"device.driver == '{DRIVER}' || true", ""),
    (f"device.driver == '{DRIVER}' && false || true", ""),
    (f"device.driver == '{DRIVER}' && false ? false : true", ""),
    (f"device.driver != '{DRIVER}'", ""),
    (f"!(device.driver == '{DRIVER}')", ""),
    (f"device.driver == '{DRIVER}\"", ""),
    (f"device.attributes['{DRIVER}'].type == 'gpu'", ""),
    ("", ""),
]


def device_class(*expressions: str, resource: Any = GPU) -> dict[str, Any]:
    return {"spec": {"extendedResourceName": resource, "selectors": [{"cel": {"expression": each}} for each in expressions]}}


@pytest.mark.parametrize(("expression", "driver"), EXPRESSIONS)
def test_a_driver_is_what_a_class_demands_and_nothing_less(expression: str, driver: str) -> None:
    assert mapped_of(device_class(expression)) == Mapped(GPU, driver)
    # All selectors have to hold.
    assert mapped_of(device_class("true", expression)) == Mapped(GPU, driver)


@pytest.mark.parametrize("resource", ["", "gpu", None, 5, "x/" + "y" * 400])
def test_a_class_that_stands_for_no_resource_maps_nothing(resource: Any) -> None:
    assert mapped_of(device_class("true", resource=resource)) is None


def resource_slice(number: int = 4, **more: Any) -> dict[str, Any]:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1} | more.pop("pool", {})
    return {"spec": {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": [{"name": "d"}] * number} | more}


OF_DRIVER, OF_ANY = Mapped(GPU, DRIVER), Mapped(GPU, "")
SHARED = [{"name": "d", "allowMultipleAllocations": True}]
ELSEWHERE = {"nodeName": "n2", "pool": {"name": "n2"}}
# How many the node n1 has then.
OFFERS: dict[str, tuple[list[Mapped], list[dict[str, Any]], int]] = {
    "no class stands for it": ([], [resource_slice()], 0),
    "the driver's": ([OF_DRIVER], [resource_slice()], 4),
    "none on this node": ([OF_DRIVER], [resource_slice(**ELSEWHERE)], 0),
    "another driver's": ([OF_DRIVER], [resource_slice(driver="nic.example.com")], 0),
    "of two slices": ([OF_DRIVER], [resource_slice(pool={"resourceSliceCount": 2})] * 2, 8),
    "of two pools": ([OF_DRIVER], [resource_slice(), resource_slice(2, pool={"name": "more"})], 6),
    "an older generation": ([OF_DRIVER], [resource_slice(), resource_slice(7, pool={"generation": 2}), resource_slice()], 7),
    "a pool that is being written": ([OF_DRIVER], [resource_slice(pool={"resourceSliceCount": 2})], UNCOUNTED),
    "devices for several pods each": ([OF_DRIVER], [resource_slice(devices=SHARED)], UNCOUNTED),
    "devices of no one node": ([OF_DRIVER], [resource_slice(nodeName=None, allNodes=True)], UNCOUNTED),
    "a class that is not understood": ([OF_ANY], [resource_slice(driver="nic.example.com")], UNCOUNTED),
    "nor there is anything": ([OF_ANY], [resource_slice(**ELSEWHERE)], 0),
    "two classes for one resource": ([OF_DRIVER, Mapped(GPU, "nic.example.com")], [resource_slice()], UNCOUNTED),
    "nothing in it": ([OF_DRIVER], [resource_slice(0)], 0),
}


@pytest.mark.parametrize("name", OFFERS)
def test_what_a_node_is_taken_to_have(name: str) -> None:
    classes, slices, wanted = OFFERS[name]
    (found,) = offered([Node("n1", {"cpu": 1000})], classes, map(slice_of, slices))
    assert found.allocatable == ({"cpu": 1000, GPU: wanted} if wanted else {"cpu": 1000})
    assert found.by_slices == ({GPU} if wanted else frozenset())


def test_what_a_node_says_itself_is_what_it_has() -> None:
    node = Node("n1", {GPU: 8})
    assert offered([node], [OF_DRIVER], [slice_of(resource_slice())]) == (node,)
    (empty,) = offered([Node("n1", {GPU: 0})], [OF_DRIVER], [slice_of(resource_slice())])
    assert empty.allocatable == {GPU: 4}


ANYTHING = junk({"spec", "pool", "devices", "driver", "nodeName", "selectors", "cel", "expression", "extendedResourceName"})


@given(ANYTHING, ANYTHING)
def test_nothing_is_too_strange(one: Any, other: Any) -> None:
    for each in ({"spec": one}, {"spec": {"extendedResourceName": GPU, "selectors": one}}):
        mapped_of(each)
    slices = [slice_of(each) for each in ({"spec": one}, {"spec": {"pool": one, "devices": other}})]
    (node,) = offered([Node("n1", {})], [OF_ANY], slices)
    assert all(0 < number <= UNCOUNTED for number in node.allocatable.values())


def verdict_of(asks: int, classes: list[Mapped], slices: list[Slice], running: int = 0) -> str:
    """Why a pod waits, or where it goes."""
    tenant = Tenant("red", shares={("", GPU): Share(64)})
    nodes = offered([Node(name, {"cpu": 64_000, "pods": 9}) for name in ("n1", "n2")], classes, slices)
    pods = [Pod("w", "bh-red-work", "w", {GPU: asks}, Stage.WAITING, 2.0, "red")]
    pods += [Pod(f"r{at}", "bh-red-work", f"r{at}", {GPU: 1}, Stage.BOUND, 1.0, "red", "n1") for at in range(running)]
    decided = decide(Snapshot({"red": tenant}, nodes, tuple(pods)), 10.0)
    return decided.admit[0].node if decided.admit else f"{decided.verdicts['w'].why}: {decided.verdicts['w'].message}"


def test_a_pod_at_the_gate_goes_where_the_devices_are_and_none_is_refused_for_unknown_numbers() -> None:
    known = [slice_of(resource_slice())]
    assert verdict_of(2, [], known).startswith("NeverFits: requests 2 ")
    assert verdict_of(2, [OF_DRIVER], []).startswith("NeverFits: requests 2 ")
    assert verdict_of(2, [OF_DRIVER], known) == "n1"
    assert verdict_of(5, [OF_DRIVER], known).startswith("NeverFits: requests 5 ")
    assert verdict_of(2, [OF_DRIVER], known, running=3).startswith("NoCapacity: requests 2 ")
    assert verdict_of(60, [OF_ANY], known, running=4) == "n1"
    assert verdict_of(65, [OF_ANY], known).startswith("QuotaExceeded: requests 65 ")


def test_uncounted_devices_are_not_reported_in_numbers() -> None:
    """One node has devices without a count and no cpu left, the other has cpu and too few devices."""
    nodes = offered([Node("n1", {"cpu": 500}), Node("n2", {"cpu": 9000, GPU: 1})], [OF_ANY], [slice_of(resource_slice())])
    pod = Pod("w", "bh-red-work", "w", {GPU: 2, "cpu": 1000}, Stage.WAITING, 2.0, "red")
    said = decide(Snapshot({"red": Tenant("red", shares={("", GPU): Share(8)})}, nodes, (pod,)), 10.0).verdicts["w"]
    assert str(UNCOUNTED) not in said.message
