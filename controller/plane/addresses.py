"""Which address ranges belong to the host, and what remains of a network without them. Pure.

    reserved ranges ─ those that the class reaches on purpose ──> closed networks ──> a NetworkPolicy's ipBlock with exceptions

IPv4 addresses can also be reached through IPv6: as mapped addresses, and through a translator (NAT64). This module treats all
of them as the same network, so that neither is a way around a closed range.
"""

import functools
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
# Not routed. It also contains the mapped addresses, whose own network API servers do not accept as an exception.
_UNROUTED: Final = IPv6Network("::/64")
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
# For each IP family. API servers have no limit here, but a network plugin may turn a network with exceptions into the list of
# the remaining networks, about twenty for each exception, and it has room for some thousands. Beyond this limit neighbouring
# networks are joined, which also closes the addresses between them.
MOST_EXCEPTIONS: Final = 256


@dataclass(frozen=True, slots=True, order=True)
class Reserved:
    """A range that a tenant's pods reach only if their class allows it, and what the range is.

    If a server is known only by its name, `cidr` is that name: its addresses are unknown, so nothing is closed for it.
    """

    cidr: str
    what: str


_LINKS: Final = ("127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10")
# Where clouds serve credentials to machines outside the link-local range: Azure, Alibaba, AWS, Google, Oracle.
_CLOUDS: Final = (
    "168.63.129.16/32", "100.100.100.200/32", "fd00:ec2::254/128", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128",
)  # fmt: skip
# On every host.
ALWAYS: Final = (*(Reserved(cidr, LINK) for cidr in _LINKS), *(Reserved(cidr, METADATA) for cidr in _CLOUDS))


def network(text: str) -> Network | None:
    """The network with mapped and translated addresses resolved; None if the text is not a network."""
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        return None
    if isinstance(found, IPv6Network) and found.subnet_of(_MAPPED):
        return IPv4Network((int(found.network_address) & 0xFFFFFFFF, found.prefixlen - 96))
    return found


def closed(reserved: Iterable[Reserved], reach: Iterable[str] = ()) -> tuple[Network, ...]:
    """The reserved ranges, joined to few networks, without what may be reached on purpose."""
    return _closed(tuple(range_.cidr for range_ in reserved), tuple(reach))


# Of a few hosts, each with few ways to reach something on purpose: every tenant of a host asks for the same.
@functools.lru_cache(maxsize=32)
def _closed(reserved: tuple[str, ...], reach: tuple[str, ...]) -> tuple[Network, ...]:
    left = _few(_both(reserved))
    for hole in _both(reach):
        left = [part for whole in left for part in _without(whole, hole)]
    return tuple(_collapsed([_UNROUTED, *left]))


def block(cidr: str, kept: Iterable[Network]) -> Obj | None:
    """The ipBlock of the rest of a network; None if nothing is left."""
    asked = network(cidr)
    if asked is None:
        return None
    inside = [taken for taken in kept if _overlap(taken, asked)]
    if any(_inside(asked, taken) for taken in inside):
        return None
    exceptions = {"except": [str(taken) for taken in inside]} if inside else {}
    return {"ipBlock": {"cidr": str(asked)} | exceptions}


def only_named(reserved: Iterable[Reserved]) -> tuple[str, ...]:
    """The servers that are not closed because only their names are known."""
    return tuple(sorted({range_.cidr for range_ in reserved if network(range_.cidr) is None}))


def holder(cidr: str, reserved: Iterable[Reserved]) -> Reserved | None:
    """The widest reserved range that contains a network or overlaps it; None if there is none."""
    asked = network(cidr)
    found = [(one, range_) for range_ in reserved if (one := network(range_.cidr)) is not None]
    meeting = [(one.prefixlen, range_) for one, range_ in found if asked is not None and _overlap(one, asked)]
    return min(meeting)[1] if meeting else None


def contains(address: str, networks: Iterable[str]) -> bool:
    """Whether one of these networks contains an address."""
    single = network(address)
    return single is not None and any(_inside(single, whole) for whole in _plain(networks))


def _plain(cidrs: Iterable[str]) -> Iterable[Network]:
    return (found for found in map(network, cidrs) if found is not None)


def _both(cidrs: Iterable[str]) -> Iterable[Network]:
    """The networks, and the IPv4 networks once more as a NAT64 translator maps them."""
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
    """The networks, joined. If there are too many, the nearest neighbours of each family are merged until they are few."""
    left = _collapsed(networks)
    four, six = ([part for part in left if part.version == version] for version in (4, 6))
    return _collapsed([*_nearest_joined(four), *_nearest_joined(six)])


def _nearest_joined(networks: list[Network]) -> Iterable[Network]:
    """Merge the neighbours whose common network is smallest, so that few other addresses are closed."""
    ordered = sorted(networks, key=lambda part: int(part.network_address))
    # The length of the prefix that each network has in common with the previous one.
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
