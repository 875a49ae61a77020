"""Which slice of the service range a tenant gets: disjoint, stable, and free of addresses that another Service already has.

Pure. The tenant's ServiceCIDR object keeps its slice, and the slice is read from there; this module is called only for a tenant
that has no slice yet.
"""

from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError, ip_network


def allocate(
    service_range: str, prefix: int, *, taken: Iterable[str], used: Iterable[str], wished: str | None = None
) -> str | None:
    """The first free slice, or the wished one if it is free; None if the range is exhausted.

    `taken` are networks that must not be touched (other slices, the host's own service ranges inside the range);
    `used` are single addresses that the host has given to Services.
    """
    whole = IPv4Network(service_range)
    networks = [network for network in map(_network, taken) if network is not None and network.overlaps(whole)]
    addresses = [address for address in map(_address, used) if address is not None and address in whole]
    if wished is not None:
        network = _network(wished)
        if (
            network is not None
            and network.subnet_of(whole)
            and network.prefixlen == prefix
            and _free(network, networks, addresses)
        ):
            return str(network)
    for candidate in whole.subnets(new_prefix=prefix):
        if _free(candidate, networks, addresses):
            return str(candidate)
    return None


def _free(candidate: IPv4Network, networks: list[IPv4Network], addresses: list[IPv4Address]) -> bool:
    return not any(candidate.overlaps(network) for network in networks) and not any(
        address in candidate for address in addresses
    )


def _network(text: str) -> IPv4Network | None:
    try:
        network = ip_network(text, strict=False)
    except (AddressValueError, NetmaskValueError, ValueError):
        return None
    return network if isinstance(network, IPv4Network) else None


def _address(text: str) -> IPv4Address | None:
    try:
        return IPv4Address(text)
    except AddressValueError:
        return None


def clash(service_slice: str, needed: Iterable[int], used: Iterable[str]) -> str | None:
    """The first address that the plane needs (an index in the slice) but another Service has; None if there is none."""
    first = int(IPv4Network(service_slice).network_address)
    wanted = {str(IPv4Address(first + place)) for place in needed}
    return next((address for address in sorted(used) if address in wanted), None)


def inside(service_slice: str, address: str) -> bool:
    """Whether an address is in a slice."""
    network, found = _network(service_slice), _address(address)
    return network is not None and found is not None and found in network
