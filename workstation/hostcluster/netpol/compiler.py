"""Compiles network policies to allow-rules for each pod. Pure, and independent of nftables: `render` writes the text.

    policies, pods, namespaces -> per pod and direction: not isolated (None), or a profile = the set of what is allowed

A profile is a frozen set of rules; pods with the same profile share a chain. Named ports are resolved here: for ingress those
of the pod itself, for egress those of each peer. An unknown construct allows nothing.

The rules of a namespace's pods depend on its policies, its pods, and the pods of the namespaces that its policies name. A
policy is compiled once for all pods that it selects, and selectors are looked up in an index. So the work grows with the size
of the policies plus the number of pods that they select, and not with their product. It is done in steps, so that a large
namespace does not delay others.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, collapse_addresses, summarize_address_range
from typing import Any, Literal

from workstation.hostcluster.netpol.cluster import Cluster, Pod
from workstation.hostcluster.netpol.index import ClusterIndex, Selector, Space

Direction = Literal["Ingress", "Egress"]
DIRECTIONS: tuple[Direction, ...] = ("Ingress", "Egress")


@dataclass(frozen=True, slots=True, order=True)
class PortRange:
    """Ports of one protocol, both ends included; 0 to 65535 is every port."""

    protocol: str
    first: int = 0
    last: int = 65535


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows packets of these peers to these ports; None means any."""

    peers: frozenset[IPv4Network] | None
    ports: frozenset[PortRange] | None


Profile = frozenset[Rule]


@dataclass(frozen=True, slots=True)
class PodRules:
    """What a pod may receive and send; None if no policy isolates it."""

    address: IPv4Address
    ingress: Profile | None
    egress: Profile | None


def policy_directions(spec: Mapping[str, Any]) -> frozenset[str]:
    """The directions that a policy isolates, with the API's defaults."""
    given = spec.get("policyTypes")
    if given:
        return frozenset(given)
    return frozenset({"Ingress", "Egress"} if spec.get("egress") else {"Ingress"})


def _block(block: Mapping[str, Any]) -> frozenset[IPv4Network]:
    """The addresses of an ipBlock without its exceptions; none for IPv6, which pods here do not have."""
    return _left(str(block["cidr"]), tuple(map(str, block.get("except") or ())))


@lru_cache(maxsize=256)
def _left(cidr: str, exceptions: tuple[str, ...]) -> frozenset[IPv4Network]:
    try:
        whole = IPv4Network(cidr, strict=False)
        holes = [IPv4Network(one, strict=False) for one in exceptions]
    except ValueError:
        return frozenset()
    found: set[IPv4Network] = set()
    first, last = int(whole.network_address), int(whole.broadcast_address)
    for hole in sorted(collapse_addresses(hole for hole in holes if hole.overlaps(whole))):
        if first < int(hole.network_address):
            found |= set(summarize_address_range(IPv4Address(first), hole.network_address - 1))
        first = max(first, int(hole.broadcast_address) + 1)
    if first <= last:
        found |= set(summarize_address_range(IPv4Address(first), IPv4Address(last)))
    return frozenset(found)


@dataclass(slots=True)
class Sources:
    """The inputs from which the rules of a namespace were compiled, to check whether the rules are still valid."""

    policies: tuple[Mapping[str, Any], ...]
    spaces: dict[str, Space] = field(default_factory=dict)
    selectors: list[tuple[Selector, tuple[str, ...]]] = field(default_factory=list)
    everyone: tuple[Space, ...] | None = None  # set if the pods of all namespaces were an input

    def hold(self, index: ClusterIndex, policies: tuple[Mapping[str, Any], ...]) -> bool:
        """Whether compiling again would give the same rules."""
        return (
            len(policies) == len(self.policies)
            and all(one is other or one == other for one, other in zip(policies, self.policies, strict=True))
            and all(index.space(name) is space for name, space in self.spaces.items())
            and all(index.namespaces(selector) == names for selector, names in self.selectors)
            and (self.everyone is None or self.everyone == tuple(index.spaces.values()))
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """What one rule of a policy allows: these peers at these ports. Named ports still depend on the selected pod."""

    peers: frozenset[IPv4Network] | None
    ports: tuple[Mapping[str, Any], ...]

    def rule(self, target: Pod | None) -> Rule | None:
        ports = _ports(self.ports, target)
        return None if ports is not None and not ports else Rule(self.peers, ports)


class _Namespace:
    """One run over one namespace."""

    def __init__(self, index: ClusterIndex, name: str, sources: Sources) -> None:
        self._index = index
        self._name = name
        self._sources = sources
        self._parts: dict[tuple[int, Direction], list[_Part]] = {}
        self._profiles: dict[tuple[Any, ...], Profile] = {}

    def rules(self, node: str) -> Generator[None, None, tuple[PodRules, ...]]:
        """The rules of the namespace's pods on a node, with one step for each rule of a policy and each pod."""
        here = self._space(self._name)
        mine: dict[tuple[str, Direction], list[int]] = {}
        for number, policy in enumerate(self._sources.policies):
            spec = policy["spec"]
            for direction in DIRECTIONS:
                if direction not in policy_directions(spec):
                    continue
                for pod in here.chosen(spec.get("podSelector") or {}):
                    mine.setdefault((pod.name, direction), []).append(number)
                parts: list[_Part] = []
                self._parts[number, direction] = parts
                for rule in spec.get(direction.lower()) or ():
                    parts.extend(self._ingress(rule) if direction == "Ingress" else self._egress(rule))
                    yield
        made = []
        for pod in here.pods:
            if pod.node == node:
                one, other = (self._profile(pod, direction, mine.get((pod.name, direction))) for direction in DIRECTIONS)
                made.append(PodRules(pod.address, one, other))
                yield
        return tuple(made)

    def _profile(self, pod: Pod, direction: Direction, policies: Sequence[int] | None) -> Profile | None:
        """All that the policies of a pod allow in one direction; shared by all pods with the same policies and ports."""
        if policies is None:
            return None
        key = (direction, tuple(policies), pod.ports)
        if key not in self._profiles:
            parts = (part for number in policies for part in self._parts[number, direction])
            rules = (part.rule(pod if direction == "Ingress" else None) for part in parts)
            self._profiles[key] = frozenset(rule for rule in rules if rule is not None)
        return self._profiles[key]

    def _ingress(self, rule: Mapping[str, Any]) -> Iterator[_Part]:
        """What one ingress rule allows; its named ports are those of the selected pod."""
        ports = tuple(rule.get("ports") or ())
        if not rule.get("from"):
            yield _Part(None, ports)
            return
        pods, networks = self._peers(rule["from"])
        everyone = _addresses(pods, networks)
        if everyone:
            yield _Part(everyone, ports)

    def _egress(self, rule: Mapping[str, Any]) -> Iterator[_Part]:
        """What one egress rule allows; named ports are looked up at each peer."""
        given = rule.get("ports") or ()
        plain = tuple(port for port in given if not isinstance(port.get("port"), str))
        named = [port for port in given if isinstance(port.get("port"), str)]
        anybody = not rule.get("to")
        pods, networks = ([], frozenset[IPv4Network]()) if anybody else self._peers(rule["to"])
        everyone = None if anybody else _addresses(pods, networks)
        if (plain or not given) and (everyone is None or everyone):
            yield _Part(everyone, plain)
        if not named:
            return
        by_port: dict[frozenset[PortRange], list[IPv4Network]] = {}
        for pod in self._everyone() if anybody else pods:
            resolved = _ports(named, pod)
            if resolved:
                by_port.setdefault(resolved, []).append(IPv4Network(pod.address))
        for ports, addresses in by_port.items():
            numbers = tuple({"protocol": port.protocol, "port": port.first, "endPort": port.last} for port in sorted(ports))
            yield _Part(_collapsed(addresses), numbers)

    def _peers(self, peers: Iterable[Mapping[str, Any]]) -> tuple[list[Pod], frozenset[IPv4Network]]:
        pods: dict[IPv4Address, Pod] = {}
        networks: set[IPv4Network] = set()
        for peer in peers:
            if peer.get("ipBlock") is not None:
                networks |= _block(peer["ipBlock"])
            elif peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None:
                for name in self._named(peer.get("namespaceSelector")):
                    pods |= {pod.address: pod for pod in self._space(name).chosen(peer.get("podSelector") or {})}
        return list(pods.values()), frozenset(networks)

    def _named(self, selector: Selector | None) -> tuple[str, ...]:
        if selector is None:
            return (self._name,)
        names = self._index.namespaces(selector)
        self._sources.selectors.append((selector, names))
        return names

    def _space(self, name: str) -> Space:
        return self._sources.spaces.setdefault(name, self._index.space(name))

    def _everyone(self) -> Iterator[Pod]:
        self._sources.everyone = tuple(self._index.spaces.values())
        return (pod for space in self._sources.everyone for pod in space.pods)


def _addresses(pods: Iterable[Pod], networks: Iterable[IPv4Network]) -> frozenset[IPv4Network]:
    return _collapsed([*networks, *(IPv4Network(pod.address) for pod in pods)])


def _collapsed(networks: Iterable[IPv4Network]) -> frozenset[IPv4Network]:
    return frozenset(collapse_addresses(networks))


def _ports(given: Iterable[Mapping[str, Any]], named_at: Pod | None) -> frozenset[PortRange] | None:
    """The port ranges of a rule; None if it names no ports, empty if none of its names is known."""
    listed = list(given)
    if not listed:
        return None
    found: set[PortRange] = set()
    for one in listed:
        protocol, port = one.get("protocol") or "TCP", one.get("port")
        if port is None:
            found.add(PortRange(protocol))
        elif isinstance(port, int):
            found.add(PortRange(protocol, port, one.get("endPort") or port))
        elif named_at is not None:
            matching = (known for known in named_at.ports if known.name == port and known.protocol == protocol)
            found |= {PortRange(protocol, known.port, known.port) for known in matching}
    return frozenset(found)


def compile_namespace(
    index: ClusterIndex, name: str, sources: Sources, node: str
) -> Generator[None, None, tuple[PodRules, ...]]:
    """The rules of a namespace's pods on this node, step by step; `sources` records their inputs."""
    return _Namespace(index, name, sources).rules(node)


def policies_by_namespace(cluster: Cluster) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """The policies of each namespace, in their order."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for policy in cluster.policies:
        found.setdefault(policy["metadata"]["namespace"], []).append(policy)
    return {name: tuple(listed) for name, listed in found.items()}
