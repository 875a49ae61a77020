"""Slices of the service range: disjoint, and with no address of others."""

from ipaddress import IPv4Address, IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from controller.decide import slices

RANGE, PREFIX = "10.112.0.0/18", 22


@given(st.lists(st.integers(0, 2**14 - 1), max_size=8), st.integers(1, 20))
def test_slices_are_disjoint_and_hold_no_address_of_others(offsets: list[int], tenants: int) -> None:
    used = [str(IPv4Address(int(IPv4Address("10.112.0.0")) + offset)) for offset in offsets]
    given_out: list[str] = []
    for _ in range(tenants):
        chosen = slices.allocate(RANGE, PREFIX, taken=given_out, used=used)
        if chosen is None:
            break
        network = IPv4Network(chosen)
        assert network.subnet_of(IPv4Network(RANGE))
        assert not any(network.overlaps(IPv4Network(other)) for other in given_out)
        assert not any(IPv4Address(address) in network for address in used)
        given_out.append(chosen)
    if len(given_out) < tenants:
        free = [subnet for subnet in IPv4Network(RANGE).subnets(new_prefix=PREFIX) if str(subnet) not in given_out]
        assert all(any(IPv4Address(address) in network for address in used) for network in free)


def test_a_slice_that_a_tenant_had_is_given_back_to_it_if_it_is_free() -> None:
    assert slices.allocate(RANGE, PREFIX, taken=[], used=[], wished="10.112.8.0/22") == "10.112.8.0/22"
    assert slices.allocate(RANGE, PREFIX, taken=["10.112.8.0/22"], used=[], wished="10.112.8.0/22") == "10.112.0.0/22"
    assert slices.allocate(RANGE, PREFIX, taken=[], used=[], wished="192.168.0.0/22") == "10.112.0.0/22"


def test_foreign_ranges_and_garbage_do_not_confuse_the_allocation() -> None:
    taken = ["10.96.0.0/12", "fd00::/108", "nonsense", "10.112.0.0/20"]
    assert slices.allocate(RANGE, PREFIX, taken=taken, used=["fd00::1", ""]) == "10.112.16.0/22"


def test_what_is_inside_a_slice_and_what_is_not() -> None:
    assert slices.inside("10.112.4.0/22", "10.112.5.186")
    for service_slice, address in (
        ("10.112.4.0/22", "10.112.8.1"),
        ("10.112.4.0/22", "fd00::1"),
        ("", "10.112.4.1"),
        ("x", "y"),
    ):
        assert not slices.inside(service_slice, address)


def test_a_clash_names_the_address_that_the_plane_needs() -> None:
    assert slices.clash("10.112.4.0/22", (1, 10, 11), ["10.112.4.200", "10.112.4.10"]) == "10.112.4.10"
    assert slices.clash("10.112.4.0/22", (1, 10, 11), ["10.112.4.200"]) is None
