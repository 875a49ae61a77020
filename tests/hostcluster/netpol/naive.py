"""The meaning of network policies, written down packet by packet: slow, obvious, and sharing no code with the compiler."""

from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from bulkhead.api.objects import Obj


@dataclass(frozen=True, slots=True)
class Packet:
    """The first packet of a connection, after service addresses were replaced by pods'."""

    source: str
    target: str
    protocol: str
    port: int


def _matches(selector: Obj, labels: dict[str, str]) -> bool:
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for one in selector.get("matchExpressions", []):
        present, value = one["key"] in labels, labels.get(one["key"])
        holds = {
            "In": present and value in one.get("values", []),
            "NotIn": not present or value not in one.get("values", []),
            "Exists": present,
            "DoesNotExist": not present,
        }[one["operator"]]
        if not holds:
            return False
    return True


class World:
    """Pods, namespaces and policies, as API objects."""

    def __init__(self, pods: list[Obj], namespaces: list[Obj], policies: list[Obj]) -> None:
        self.pods = {pod["status"]["podIP"]: pod for pod in pods}
        self.namespaces = {one["metadata"]["name"]: one["metadata"].get("labels", {}) for one in namespaces}
        self.policies = policies

    def allows(self, packet: Packet) -> bool:
        """Whether the packet arrives."""
        if packet.source == packet.target:
            return True
        return self._lets_out(packet) and self._lets_in(packet)

    def _policies_of(self, pod: Obj, direction: str) -> list[Obj]:
        found = []
        for policy in self.policies:
            spec = policy["spec"]
            default = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
            if direction not in (spec.get("policyTypes") or default):
                continue
            same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
            if same and _matches(spec.get("podSelector", {}), pod["metadata"].get("labels", {})):
                found.append(policy)
        return found

    def _lets_out(self, packet: Packet) -> bool:
        return self._side(packet, packet.source, packet.target, direction="Egress", rules="egress", peers="to")

    def _lets_in(self, packet: Packet) -> bool:
        return self._side(packet, packet.target, packet.source, direction="Ingress", rules="ingress", peers="from")

    def _side(self, packet: Packet, subject: str, other: str, *, direction: str, rules: str, peers: str) -> bool:
        pod = self.pods.get(subject)
        if pod is None:
            return True
        policies = self._policies_of(pod, direction)
        if not policies:
            return True
        return any(
            self._peer_matches(rule.get(peers), other, policy["metadata"]["namespace"])
            and self._port_matches(rule.get("ports"), packet)
            for policy in policies
            for rule in policy["spec"].get(rules, [])
        )

    def _peer_matches(self, peers: list[Obj] | None, address: str, namespace: str) -> bool:
        return not peers or any(self._one_peer(peer, address, namespace) for peer in peers)

    def _one_peer(self, peer: Obj, address: str, namespace: str) -> bool:
        if "ipBlock" in peer:
            block = peer["ipBlock"]
            inside = ip_address(address) in ip_network(block["cidr"])
            return inside and not any(ip_address(address) in ip_network(one) for one in block.get("except", []))
        pod = self.pods.get(address)
        if pod is None:
            return False
        where = pod["metadata"]["namespace"]
        if "namespaceSelector" in peer:
            in_place = _matches(peer["namespaceSelector"], self.namespaces[where])
        else:
            in_place = where == namespace
        return in_place and _matches(peer.get("podSelector", {}), pod["metadata"].get("labels", {}))

    def _port_matches(self, ports: list[Obj] | None, packet: Packet) -> bool:
        return not ports or any(self._one_port(port, packet) for port in ports)

    def _one_port(self, port: Obj, packet: Packet) -> bool:
        if port.get("protocol", "TCP") != packet.protocol:
            return False
        wanted = port.get("port")
        if wanted is None:
            return True
        if isinstance(wanted, int):
            return wanted <= packet.port <= port.get("endPort", wanted)
        target = self.pods.get(packet.target)
        if target is None:
            return False
        return any(
            (known["name"], known["containerPort"], known["protocol"]) == (wanted, packet.port, packet.protocol)
            for container in target["spec"]["containers"]
            for known in container.get("ports", [])
        )
