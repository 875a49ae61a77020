"""Addresses of other Services in the slice of a tenant that goes: which there are, and what keeps them."""

from typing import Any

import pytest

from bulkhead.api import labels
from controller.decide import slices
from controller.decide.remnant import abandoned, holders, missing, remnant_of

SLICE: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "ServiceCIDR",
    "metadata": {"name": "bh-red", "uid": "s", "labels": labels.made_for("red")},
    "spec": {"cidrs": ["10.112.4.0/22"]},
}


def address(name: str, service: str = "web", namespace: str = "default") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parentRef": {"namespace": namespace, "name": service}}}


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        ([address("10.112.4.1"), address("10.112.7.254")], ["default/web has 10.112.4.1", "default/web has 10.112.7.254"]),
        ([address("10.112.3.255"), address("10.112.8.0"), address("10.96.0.1"), address("fd00::4")], []),
        # What is not as the host writes it has no address in the slice.
        ([address("not-an-address"), {"metadata": {"name": 7}}, {"metadata": {}, "spec": None}], []),
        ([{"metadata": {"name": "10.112.4.9"}, "spec": {"parentRef": "x"}}], ["/ has 10.112.4.9"]),
    ],
)
def test_the_holders_of_addresses_are_named(claimed: list[Any], expected: list[str]) -> None:
    assert holders(SLICE, claimed) == expected


def test_a_remnant_takes_the_whole_slice_and_is_no_longer_the_tenants() -> None:
    made = remnant_of(SLICE)
    assert made["spec"]["cidrs"] == SLICE["spec"]["cidrs"]
    assert made["metadata"]["name"] == "10.112.4.0-22.left.bulkhead.dev"
    assert made["metadata"]["labels"] == {labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD, labels.LEFT_BY: "red"}
    # Without it the host lets a new ServiceCIDR go at once, with the addresses in it.
    assert made["metadata"]["finalizers"] == ["networking.k8s.io/service-cidr-finalizer"]
    # No tenant gets the slice while it exists.
    assert slices.allocate("10.112.4.0/22", 22, taken=(), used=()) == "10.112.4.0/22"
    assert slices.allocate("10.112.4.0/22", 22, taken=made["spec"]["cidrs"], used=()) is None


def test_it_is_made_once_and_only_if_another_service_has_an_address() -> None:
    taken = [address("10.112.5.186")]
    (made,) = missing([SLICE], [], taken)
    assert made == remnant_of(SLICE)
    assert missing([SLICE], [made], taken) == []
    assert missing([SLICE], [], [address("10.96.0.9")]) == []
    assert missing([], [], taken) == []
    other = {"metadata": {"name": "10.112.0.0-22.left.bulkhead.dev"}}
    assert [item["metadata"]["name"] for item in missing([SLICE], [other], taken)] == [made["metadata"]["name"]]


def test_a_remnant_is_abandoned_until_its_deletion_was_asked_for() -> None:
    made = remnant_of(SLICE)
    going = made | {"metadata": made["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert abandoned([SLICE, going, made, {"metadata": {"name": "kubernetes"}}]) == [made]
