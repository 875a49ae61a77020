"""What of the address space is the host's own, and what is left of a network when that is taken out of it. Pure.

    reserved ranges ─ those that the class reaches on purpose ──> closed networks ──> a NetworkPolicy's ipBlock with exceptions

IPv4 is also reached by addresses of IPv6: written as mapped ones, and through a translator (NAT64). Both are the same network
here, so that neither is a way around.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Final, TypeAlias

from bulkhead.api.objects import Obj

Network: TypeAlias = IPv4Network | IPv6Network

SERVICES: Final = "services of the host"
SLICES: Final = "services of tenants"
PODS: Final = "pods of the host"
NODES: Final = "nodes of the host"
API: Final = "the host's API server"
LISTED: Final = "reserved by the installation"
LINK: Final = "link-local addresses"
METADATA: Final = "metadata services of clouds"
STORAGE: Final = "servers of the host's storage"
RECEIVERS: Final = "receivers of audit trails"
REGISTRY: Final = "the registry of the platform's images"

_MAPPED: Final = IPv6Network("::ffff:0:0/96")
# Nothing of it is routed, and mapped addresses lie in it, whose own network no API server takes as an exception.
_UNROUTED: Final = IPv6Network("::/64")
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
# Of one family. No API server bounds them, but network plugins may write a network less its exceptions as the networks that are
# left, some twenty for each, and have room for some thousands. Beyond, nodes whose network is not named are closed with
# their neighbours.
MOST_EXCEPTIONS: Final = 256


@dataclass(frozen=True, slots=True, order=True)
class Reserved:
    """A range that no tenant's pods reach unless their class says so, and what it is.

    Of a server that is known by its name alone the name stands for a range that nobody knows, so nothing is closed by it.
    """

    cidr: str
    what: str


_LINKS: Final = ("127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10")
# Where clouds hand machines their credentials outside the link's range: Azure, Alibaba, AWS, Google, Oracle.
_CLOUDS: Final = (
    "168.63.129.16/32", "100.100.100.200/32", "fd00:ec2::254/128", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128",
)  # fmt: skip
# Whatever the host is.
ALWAYS: Final = (*(Reserved(cidr, LINK) for cidr in _LINKS), *(Reserved(cidr, METADATA) for cidr in _CLOUDS))


def network(text: str) -> Network | None:
    """A network as it is reached, or None for what is none."""
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        return None
    if isinstance(found, IPv6Network) and found.subnet_of(_MAPPED):
        return IPv4Network((int(found.network_address) & 0xFFFFFFFF, found.prefixlen - 96))
    return found


def closed(reserved: Iterable[Reserved], reach: Iterable[str] = ()) -> tuple[Network, ...]:
    """The reserved ranges as few networks, without what may be reached on purpose."""
    left = _few(_both(range_.cidr for range_ in reserved))
    for hole in _both(reach):
        left = [part for whole in left for part in _without(whole, hole)]
    return tuple(_collapsed([_UNROUTED, *left]))


def block(cidr: str, kept: Iterable[Network]) -> Obj | None:
    """The ipBlock of what is left of a network; None where nothing is."""
    asked = network(cidr)
    if asked is None:
        return None
    inside = [taken for taken in kept if _overlap(taken, asked)]
    if any(_inside(asked, taken) for taken in inside):
        return None
    exceptions = {"except": [str(taken) for taken in inside]} if inside else {}
    return {"ipBlock": {"cidr": str(asked)} | exceptions}


def only_named(reserved: Iterable[Reserved]) -> tuple[str, ...]:
    """What was to be closed and is not: servers that are known by their names alone."""
    return tuple(sorted({range_.cidr for range_ in reserved if network(range_.cidr) is None}))


def holder(cidr: str, reserved: Iterable[Reserved]) -> Reserved | None:
    """The reserved range that has a network, or a part of it; the widest there is."""
    asked = network(cidr)
    found = [(one, range_) for range_ in reserved if (one := network(range_.cidr)) is not None]
    meeting = [(one.prefixlen, range_) for one, range_ in found if asked is not None and _overlap(one, asked)]
    return min(meeting)[1] if meeting else None


def contains(address: str, networks: Iterable[str]) -> bool:
    """Whether an address lies in any of these networks."""
    single = network(address)
    return single is not None and any(_inside(single, whole) for whole in _plain(networks))


def _plain(cidrs: Iterable[str]) -> Iterable[Network]:
    return (found for found in map(network, cidrs) if found is not None)


def _both(cidrs: Iterable[str]) -> Iterable[Network]:
    """The networks, and those of IPv4 once more as a translator has them."""
    for whole in _plain(cidrs):
        yield whole
        if isinstance(whole, IPv4Network):
            yield IPv6Network((int(_TRANSLATED.network_address) + int(whole.network_address), whole.prefixlen + 96))


def _inside(one: Network, other: Network) -> bool:
    if isinstance(one, IPv4Network) and isinstance(other, IPv4Network):
        return one.subnet_of(other)
    return isinstance(one, IPv6Network) and isinstance(other, IPv6Network) and one.subnet_of(other)


def _overlap(one: Network, other: Network) -> bool:
    return _inside(one, other) or _inside(other, one)


def _without(whole: Network, hole: Network) -> Iterable[Network]:
    if _inside(whole, hole):
        return ()
    if isinstance(whole, IPv4Network) and isinstance(hole, IPv4Network) and hole.subnet_of(whole):
        return whole.address_exclude(hole)
    if isinstance(whole, IPv6Network) and isinstance(hole, IPv6Network) and hole.subnet_of(whole):
        return whole.address_exclude(hole)
    return (whole,)


def _collapsed(networks: Iterable[Network]) -> list[Network]:
    listed = list(networks)
    four = collapse_addresses(part for part in listed if isinstance(part, IPv4Network))
    six = collapse_addresses(part for part in listed if isinstance(part, IPv6Network))
    return [*four, *six]


def _few(networks: Iterable[Network]) -> list[Network]:
    """The networks joined, and of each family those that lie nearest to each other made one until they are few."""
    left = _collapsed(networks)
    four, six = ([part for part in left if part.version == version] for version in (4, 6))
    return _collapsed([*_nearest_joined(four), *_nearest_joined(six)])


def _nearest_joined(networks: list[Network]) -> Iterable[Network]:
    """Neighbours are joined where the network of both is smallest, so that little is closed beside them."""
    ordered = sorted(networks, key=lambda part: int(part.network_address))
    # How many bits each has in common with the one before it: the length of the network of both.
    shared = [other.max_prefixlen - _differing(one, other) for one, other in itertools.pairwise(ordered)]
    joined = set(sorted(range(len(shared)), key=lambda at: -shared[at])[: max(0, len(ordered) - MOST_EXCEPTIONS)])
    group, length = ordered[:1], ordered[0].prefixlen if ordered else 0
    for at, part in enumerate(ordered[1:]):
        if at in joined:
            length = min(length, shared[at])
            continue
        yield group[0].supernet(new_prefix=length)
        group, length = [part], part.prefixlen
    if group:
        yield group[0].supernet(new_prefix=length)


def _differing(one: Network, other: Network) -> int:
    return (int(one.network_address) ^ int(other.network_address)).bit_length()
