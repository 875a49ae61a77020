"""Writes compiled rules as text for `nft -f`: one table, replaced in one transaction. Pure.

A packet costs one connection-tracking check. A packet of a new connection also costs a few look-ups by address, and then the
rules of the pods concerned, whose peers are sets. The same rules give the same text, so an unchanged state is not applied
again.

    forward: own address? -> known connection? -> both pods known? -> to itself? -> sender's chain -> receiver's chain
    input:   own address? -> known connection? -> pod known? -> sender's chain, for packets to the node's own addresses

An address of the pods' range that no known pod has is blocked: a pod that was just attached waits some milliseconds for its
rules, and a pod that the API no longer has is cut off. A chain ends in drop; allowed packets return to the calling chain.
Traffic from the node's own processes crosses neither hook.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

from workstation.hostcluster.component import REAL_POD_RANGE
from workstation.hostcluster.netpol.compiler import PodRules, PortRange, Profile, Rule

TABLE = "inet bulkhead-netpol"
_WIDE = PortRange("any")
# Rules match IPv4 addresses, so a pod may use no address but its own, and no IPv6 (which it has only on its own link).
_HONEST = ('iifname "veth*" meta nfproto ipv6 drop', 'iifname "veth*" fib saddr . iif oif missing drop')


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _network(network: IPv4Network) -> str:
    return str(network.network_address) if network.prefixlen == 32 else str(network)


def _elements(items: Iterable[str]) -> str:
    listed = list(items)
    return f" elements = {{ {', '.join(listed)} }};" if listed else ""


@dataclass(frozen=True, slots=True)
class _Chain:
    """A chain as text, with the sets that it names."""

    name: str
    text: str
    sets: Mapping[str, str]


class Chains:
    """A cache of the chains of profiles: most are the same the next time."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, Profile], _Chain] = {}
        self._now: dict[tuple[str, Profile], _Chain] = {}

    def chain(self, direction: str, profile: Profile) -> _Chain:
        """The chain of a profile, written once."""
        key = (direction, profile)
        if key not in self._now:
            self._now[key] = self._before.get(key) or _Writer().chain(direction, profile)
        return self._now[key]

    def used(self) -> list[_Chain]:
        """The chains of this run; those of the last run that were not used again are dropped."""
        self._before, self._now = self._now, {}
        return list(self._before.values())


class _Writer:
    """Collects the named sets of a chain while its rules are written."""

    def __init__(self) -> None:
        self._sets: dict[str, str] = {}

    def _peer_set(self, peers: frozenset[IPv4Network]) -> str:
        members = ", ".join(_network(network) for network in sorted(peers))
        name = f"peers-{_digest(members)}"
        self._sets[name] = f"set {name} {{ type ipv4_addr; flags interval; elements = {{ {members} }}; }}"
        return name

    def _rule(self, rule: Rule, field: str) -> list[str]:
        peers = "" if rule.peers is None else f"ip {field} @{self._peer_set(rule.peers)} "
        if rule.ports is None:
            return [f"{peers}return"]
        lines = []
        for protocol in sorted({port.protocol for port in rule.ports}):
            ranges = sorted(port for port in rule.ports if port.protocol == protocol)
            match = f"meta l4proto {protocol.lower()} "
            if not any((port.first, port.last) == (_WIDE.first, _WIDE.last) for port in ranges):
                match += f"th dport {{ {', '.join(_merged(ranges))} }} "
            lines.append(f"{peers}{match}return")
        return lines

    def chain(self, direction: str, profile: Profile) -> _Chain:
        """The chain of a profile."""
        field = "saddr" if direction == "in" else "daddr"
        lines = sorted(line for rule in profile for line in self._rule(rule, field))
        body = "; ".join([*lines, "drop"])
        name = f"{direction}-{_digest(body)}"
        return _Chain(name, f"chain {name} {{ {body}; }}", self._sets)


def _merged(ranges: Iterable[PortRange]) -> list[str]:
    """Ranges as nft writes them; touching and overlapping ones are merged."""
    merged: list[list[int]] = []
    for one in sorted(ranges):
        if merged and one.first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], one.last)
        else:
            merged.append([one.first, one.last])
    return [str(first) if first == last else f"{first}-{last}" for first, last in merged]


def render(rules: Iterable[PodRules], pod_range: str = REAL_POD_RANGE, chains: Chains | None = None) -> str:
    """The whole table, as one transaction."""
    chains = chains or Chains()
    listed = list(rules)
    senders = [f"{one.address} : jump {chains.chain('out', one.egress).name}" for one in listed if one.egress is not None]
    receivers = [f"{one.address} : jump {chains.chain('in', one.ingress).name}" for one in listed if one.ingress is not None]
    used = chains.used()
    sets = {name: text for chain in used for name, text in chain.sets.items()}
    texts = {chain.name: chain.text for chain in used}
    selves = [f"{one.address} . {one.address}" for one in listed if not (one.ingress is None and one.egress is None)]
    unknown_sender, unknown_receiver = (f"ip {field} {pod_range} ip {field} != @known drop" for field in ("saddr", "daddr"))
    lines = [
        f"table {TABLE} {{}}",
        f"delete table {TABLE}",
        f"table {TABLE} {{",
        *(sets[name] for name in sorted(sets)),
        f"set known {{ type ipv4_addr;{_elements(str(one.address) for one in listed)} }}",
        f"set selves {{ type ipv4_addr . ipv4_addr;{_elements(selves)} }}",
        *(texts[name] for name in sorted(texts)),
        f"map senders {{ type ipv4_addr : verdict;{_elements(senders)} }}",
        f"map receivers {{ type ipv4_addr : verdict;{_elements(receivers)} }}",
        "chain forward { type filter hook forward priority filter; policy accept;",
        *_HONEST,
        "ct state established,related accept",
        unknown_sender,
        unknown_receiver,
        "ip saddr . ip daddr @selves accept",
        "ip saddr vmap @senders",
        "ip daddr vmap @receivers",
        "}",
        "chain input { type filter hook input priority filter; policy accept;",
        *_HONEST,
        "ct state established,related accept",
        unknown_sender,
        "ip saddr vmap @senders",
        "}",
        "}",
    ]
    return "\n".join(lines) + "\n"
