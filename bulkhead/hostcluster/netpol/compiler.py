"""Compiles network policies to allow-rules per pod. Pure, and knows nothing of nftables: `render` writes the text.

    policies, pods, namespaces -> per pod and direction: not isolated (None), or a profile = the set of what is allowed

A profile is a frozen set of rules; pods with the same one share a chain. Named ports are resolved here: of the pod itself for
ingress, of each peer for egress. An unknown construct allows nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from typing import Any, Literal

from bulkhead.hostcluster.netpol.cluster import Cluster, Pod, selects

Direction = Literal["Ingress", "Egress"]
PROTOCOLS = ("TCP", "UDP", "SCTP")


@dataclass(frozen=True, slots=True, order=True)
class PortRange:
    """Ports of one protocol, both ends included; 0 to 65535 is every port."""

    protocol: str
    first: int = 0
    last: int = 65535


@dataclass(frozen=True, slots=True)
class Rule:
    """Lets through packets of these peers to these ports; None is any."""

    peers: frozenset[IPv4Network] | None
    ports: frozenset[PortRange] | None


Profile = frozenset[Rule]


@dataclass(frozen=True, slots=True)
class PodRules:
    """What a pod may receive and send; None where no policy isolates it."""

    address: IPv4Address
    ingress: Profile | None
    egress: Profile | None


def policy_directions(spec: Mapping[str, Any]) -> frozenset[str]:
    """The directions that a policy isolates, with the API's defaulting."""
    given = spec.get("policyTypes")
    if given:
        return frozenset(given)
    return frozenset({"Ingress", "Egress"} if spec.get("egress") else {"Ingress"})


def _block(block: Mapping[str, Any]) -> frozenset[IPv4Network]:
    """The addresses of an ipBlock without its exceptions; none for IPv6, which pods here do not have."""
    try:
        left = [IPv4Network(block["cidr"], strict=False)]
        excepted = [IPv4Network(one, strict=False) for one in block.get("except") or ()]
    except ValueError:
        return frozenset()
    for hole in excepted:
        left = [part for network in left for part in _without(network, hole)]
    return frozenset(left)


def _without(network: IPv4Network, hole: IPv4Network) -> Iterable[IPv4Network]:
    if network.subnet_of(hole):
        return ()
    return network.address_exclude(hole) if hole.subnet_of(network) else (network,)


class _Compiler:
    """One run: remembers which pods a peer selects, as rules repeat themselves."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_namespace: dict[str, list[Pod]] = {}
        for pod in cluster.pods:
            self._by_namespace.setdefault(pod.namespace, []).append(pod)

    def _peer_pods(self, namespace: str, peer: Mapping[str, Any]) -> Iterable[Pod]:
        chosen = [namespace]
        if peer.get("namespaceSelector") is not None:
            chosen = [name for name, labels in self._cluster.namespaces.items() if selects(peer["namespaceSelector"], labels)]
        selector = peer.get("podSelector") or {}
        for name in chosen:
            yield from (pod for pod in self._by_namespace.get(name, ()) if selects(selector, pod.labels))

    def _peers(self, namespace: str, peers: Iterable[Mapping[str, Any]]) -> tuple[list[Pod], frozenset[IPv4Network]]:
        pods: dict[IPv4Address, Pod] = {}
        networks: set[IPv4Network] = set()
        for peer in peers:
            if peer.get("ipBlock") is not None:
                networks |= _block(peer["ipBlock"])
            elif peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None:
                pods |= {pod.address: pod for pod in self._peer_pods(namespace, peer)}
        return list(pods.values()), frozenset(networks)

    def ingress(self, namespace: str, rule: Mapping[str, Any], target: Pod) -> Iterable[Rule]:
        """What one ingress rule lets through to the target."""
        ports = _ports(rule.get("ports") or (), target)
        if ports is not None and not ports:
            return
        if not rule.get("from"):
            yield Rule(None, ports)
            return
        pods, networks = self._peers(namespace, rule["from"])
        everyone = _collapsed([*networks, *(IPv4Network(pod.address) for pod in pods)])
        if everyone:
            yield Rule(everyone, ports)

    def egress(self, namespace: str, rule: Mapping[str, Any]) -> Iterable[Rule]:
        """What one egress rule lets out; named ports are looked up at each peer."""
        given = rule.get("ports") or ()
        plain = [port for port in given if not isinstance(port.get("port"), str)]
        named = [port for port in given if isinstance(port.get("port"), str)]
        anybody = not rule.get("to")
        pods, networks = (list(self._cluster.pods), frozenset[IPv4Network]()) if anybody else self._peers(namespace, rule["to"])
        everyone = None if anybody else _collapsed([*networks, *(IPv4Network(pod.address) for pod in pods)])
        if (plain or not given) and (everyone is None or everyone):
            yield Rule(everyone, _ports(plain, None))
        by_port: dict[frozenset[PortRange], list[IPv4Network]] = {}
        for pod in pods if named else ():
            resolved = _ports(named, pod)
            if resolved:
                by_port.setdefault(resolved, []).append(IPv4Network(pod.address))
        for ports, addresses in by_port.items():
            yield Rule(_collapsed(addresses), ports)

    def profile(self, target: Pod, direction: Direction) -> Profile | None:
        """Everything that the policies of a pod let through in one direction, together."""
        isolated = False
        rules: set[Rule] = set()
        for policy in self._cluster.policies:
            spec, namespace = policy["spec"], policy["metadata"]["namespace"]
            if namespace != target.namespace or direction not in policy_directions(spec):
                continue
            if not selects(spec.get("podSelector") or {}, target.labels):
                continue
            isolated = True
            for rule in spec.get(direction.lower()) or ():
                rules |= set(self.ingress(namespace, rule, target) if direction == "Ingress" else self.egress(namespace, rule))
        return frozenset(rules) if isolated else None


def _collapsed(networks: Iterable[IPv4Network]) -> frozenset[IPv4Network]:
    return frozenset(collapse_addresses(networks))


def _ports(given: Iterable[Mapping[str, Any]], named_at: Pod | None) -> frozenset[PortRange] | None:
    """The port ranges of a rule; None when it names no ports, empty when none of its names is known."""
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


def compile_rules(cluster: Cluster, node: str) -> tuple[PodRules, ...]:
    """The rules of every pod on this node, isolated or not, in the order of their addresses."""
    compiler = _Compiler(cluster)
    made = []
    for pod in cluster.pods:
        if pod.node != node:
            continue
        made.append(PodRules(pod.address, compiler.profile(pod, "Ingress"), compiler.profile(pod, "Egress")))
    return tuple(sorted(made, key=lambda rules: rules.address))
