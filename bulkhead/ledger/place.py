"""Finds a node for each pod of a workload, all or nothing, on a working copy of the room of all nodes.

    Board(nodes) ── hold running pods ──> place(pods) ──> a node for each, or None ──> explain(pods): why not, in numbers

- Pods that request all accelerators of a node get empty nodes. Smaller pods go where the fewest accelerators are left over, to
  nodes that are in use already, so that empty nodes stay empty. If an empty node has to be used, it is one in a rack and NVLink
  domain that is in use already.
- With a required topology all pods go into one domain, the tightest with room. With a preferred topology they go into as few
  domains as possible, else anywhere. Larger pods are placed first.

Deterministic: the same nodes and pods give the same answer. Only needs (`nodes`) and room (`room`) decide, not quotas or the
order of workloads. `place` and `explain` hold nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from bulkhead.api.labels import NVLINK_DOMAIN, RACK
from bulkhead.ledger.model import Amounts, Avoid, Flavor, Needs, Node, Pod, Topology
from bulkhead.ledger.nodes import Bits, Domains, Nodes, numbers
from bulkhead.ledger.room import PODS, Column, Devices, Room, Takes

_NOTHING: Final[Avoid] = MappingProxyType({})
_EVERYWHERE: Final[Bits] = -1


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why pods find no room, in numbers. All fields but the last are about the first kind of pod that does not fit."""

    # How many pods there are, and how much each requests of the resource that the fewest nodes have enough of.
    pods: int
    resource: str
    asks: int
    # How many nodes match their needs; how much of the resource is free there in total, and at most on one node.
    nodes: int
    free: int
    largest: int
    # How many of the pods would find room now. With a topology: how many domains have such nodes, and how many pods fit into
    # the best of these domains.
    fitting: int
    domains: int
    fitting_domain: int
    # Whether all pods would find room if all nodes were empty, including nodes that are not usable now.
    could_ever: bool


@dataclass(frozen=True, slots=True)
class _Kind:
    """Pods of a workload that request the same and may go to the same nodes."""

    asks: Amounts
    takes: Takes
    # The resource of which they take the largest part of a node, and how much: accelerators if they request any.
    column: Column
    amount: int
    allowed: Bits
    members: tuple[int, ...]
    # The numbers of the nodes that were found for members so far.
    placed: list[int]

    @property
    def missing(self) -> int:
        return len(self.members) - len(self.placed)


class Board:
    """A mutable working copy of all nodes' room. Each pod takes what it requests, and one of the node's places for pods."""

    def __init__(self, nodes: Sequence[Node], avoid: Avoid = _NOTHING, staying: Iterable[Pod] = ()) -> None:
        """`staying` are pods that are never reclaimed: they hold their room even on a board that is otherwise empty."""
        self._all = nodes
        self._nodes = Nodes(nodes)
        self._avoid = avoid
        self._avoiding = frozenset(tenant for tenant, _ in avoid)
        self._staying = tuple(staying)
        self._room = Room(nodes)
        for pod in self._staying:
            self.hold(pod.node, pod.asks)
        # The smallest domains first. Labels that no node of the host has are left out.
        self._whole = tuple(found for found in map(self._nodes.domains, (NVLINK_DOMAIN, RACK)) if found.masks)
        self._empty: Board | None = None

    def avoids(self, tenant: str) -> bool:
        """Whether a tenant has nodes to avoid that other tenants do not avoid."""
        return tenant in self._avoiding

    def hold(self, node: str, asks: Amounts) -> None:
        """Count a pod's room on a node as taken; unknown nodes are ignored."""
        number = self._nodes.numbers.get(node)
        if number is not None:
            self._room.take(number, self._room.takes(asks), 1)

    def release(self, node: str, asks: Amounts) -> None:
        """Count a pod's room on a node as free; unknown nodes are ignored."""
        number = self._nodes.numbers.get(node)
        if number is not None:
            self._room.take(number, self._room.takes(asks), -1)

    def free(self, node: str, resource: str) -> int:
        """How much of a resource is free on a node."""
        column, number = self._room.columns.get(resource), self._nodes.numbers.get(node)
        return 0 if column is None or number is None else max(0, column.free[number])

    def mark(self) -> int:
        """The present state, for `undo`."""
        return self._room.mark()

    def undo(self, mark: int) -> None:
        """Restore the state at the mark."""
        self._room.undo(mark)

    def place(
        self, pods: Sequence[Pod], flavor: Flavor | None = None, topology: Topology | None = None
    ) -> tuple[str, ...] | None:
        """A node for each pod, in their order, or None if not all find room. Nothing is held."""
        kinds = self._kinds(pods, flavor)
        if kinds is None:
            return None
        mark = self.mark()
        whole = self._fill(kinds) if topology is None else self._together(kinds, topology)
        self.undo(mark)
        if not whole:
            return None
        found = [0] * len(pods)
        for kind in kinds:
            for member, node in zip(kind.members, kind.placed, strict=True):
                found[member] = node
        return tuple(self._all[node].name for node in found)

    def explain(self, pods: Sequence[Pod], flavor: Flavor | None = None, topology: Topology | None = None) -> Shortfall:
        """Why `place` finds nothing."""
        ever = self.emptied().place(pods, flavor, topology) is not None
        kinds = self._kinds(pods, flavor)
        if kinds is None:
            return self._of_nothing(pods, flavor, could_ever=ever)
        mark = self.mark()
        short = next((kind for kind in kinds if not self._put(kind, _EVERYWHERE)), kinds[0])
        fitting = len(short.placed)
        self.undo(mark)
        column, amount = _scarcest(short.takes, short.allowed)
        free, largest = column.free_on(short.allowed)
        rooms = [] if topology is None else _open_rooms(short, self._nodes.domains(topology.key))
        return Shortfall(
            pods=len(short.members),
            resource=column.resource,
            asks=amount,
            nodes=short.allowed.bit_count(),
            free=free,
            largest=largest,
            fitting=fitting,
            domains=len(rooms),
            fitting_domain=min(len(short.members), max(rooms, default=0)),
            could_ever=ever,
        )

    def reach(self, pods: Sequence[Pod], flavor: Flavor | None = None) -> int:
        """How many usable nodes of the flavor match the needs of at least one of these pods."""
        return self._reached(pods, flavor).bit_count()

    def reached(self, pods: Sequence[Pod], flavor: Flavor | None = None) -> frozenset[str]:
        """The names of the nodes that `reach` counts."""
        return frozenset(self._all[node].name for node in numbers(self._reached(pods, flavor)))

    def _reached(self, pods: Sequence[Pod], flavor: Flavor | None) -> Bits:
        found: Bits = 0
        alike = {(pod.tenant, pod.needs): pod for pod in pods if flavor is None or _of(flavor, pod)}
        for pod in alike.values():
            found |= self._allowed(pod, flavor)
        return found

    def _allowed(self, pod: Pod, flavor: Flavor | None) -> Bits:
        """The nodes to which a pod may go; only those of the flavor if it requests the flavor's resource."""
        found = self._nodes.matching(pod.needs, _of(flavor, pod))
        return found & ~self._nodes.named(self._avoid.get((pod.tenant, pod.needs), ())) if self._avoid else found

    def _of_nothing(self, pods: Sequence[Pod], flavor: Flavor | None, *, could_ever: bool) -> Shortfall:
        """The shortfall if some pods request a resource that no node has."""
        unknown = ((pod, name) for pod in pods for name, amount in pod.asks.items() if amount > 0 and self._lacks(name))
        pod, name = next(unknown)
        of_them = [other for other in pods if other.asks == pod.asks and other.needs == pod.needs]
        nodes = self._allowed(pod, flavor).bit_count()
        return Shortfall(len(of_them), name, pod.asks[name], nodes, 0, 0, 0, 0, 0, could_ever)

    def _lacks(self, resource: str) -> bool:
        return resource not in self._room.columns

    def emptied(self) -> "Board":
        """A board of all nodes, including unusable and avoided ones, on which only the staying pods hold room."""
        if self._empty is None:
            self._empty = Board([replace(node, usable=True) for node in self._all], staying=self._staying)
        return self._empty

    def _kinds(self, pods: Sequence[Pod], flavor: Flavor | None) -> list[_Kind] | None:
        """The pods grouped by requests and needs, the largest first; None if some pod requests a resource that no node has."""
        alike: dict[tuple[Needs, tuple[tuple[str, int], ...]], list[int]] = {}
        for member, pod in enumerate(pods):
            alike.setdefault((pod.needs, tuple(sorted(pod.asks.items()))), []).append(member)
        found = []
        for (_, asked), members in alike.items():
            if any(amount > 0 and self._lacks(name) for name, amount in asked):
                return None
            pod = pods[members[0]]
            takes = self._room.takes(pod.asks)
            column, amount = max(takes, key=_part)
            allowed = self._allowed(pod, flavor)
            found.append(_Kind(pod.asks, takes, column, amount, allowed, tuple(members), []))
        if len(found) > 1:
            found.sort(key=lambda kind: (_part((kind.column, kind.amount)), -kind.allowed.bit_count()), reverse=True)
        return found

    def _fill(self, kinds: Sequence[_Kind], within: Bits = _EVERYWHERE) -> bool:
        """Place the missing pods of each kind; false as soon as one kind does not fit completely."""
        return all(self._put(kind, within) for kind in kinds)

    def _put(self, kind: _Kind, within: Bits) -> bool:
        """Place as many pods of a kind as find room; whether all of them did."""
        missing, room = kind.missing, self._room
        if not missing:
            return True
        for node in self._order(kind, kind.allowed & within):
            times = min(missing, room.fitting(node, kind.takes))
            if times > 0:
                room.take(node, kind.takes, times)
                kind.placed.extend([node] * times)
                missing -= times
                if not missing:
                    return True
        return False

    def _order(self, kind: _Kind, nodes: Bits) -> Iterator[int]:
        """The nodes with enough room for one pod, best first. The caller fills a node before it takes the next."""
        column = kind.column
        if not isinstance(column, Devices):
            having, touched = 0, 0
            for devices in self._room.devices:
                having, touched = having | devices.having, touched | devices.touched
            for some in (nodes & ~having, nodes & having & touched, nodes & having & ~touched):
                yield from numbers(some)
            return
        levels = sorted((free, some & nodes) for free, some in column.levels.items() if free >= kind.amount)
        touched = column.touched
        for _, some in levels:
            yield from numbers(some & touched)
        for _, some in levels:
            yield from self._breaking(column, some & ~touched)

    def _breaking(self, column: Devices, nodes: Bits) -> Iterator[int]:
        """Nodes that are completely free: first those whose domains have the fewest such nodes left."""
        while nodes:
            some = nodes
            for domains in self._whole:
                some = _most_broken(domains, some, column)
            nodes &= ~some
            yield from numbers(some)

    def _together(self, kinds: Sequence[_Kind], topology: Topology) -> bool:
        """Place all pods in one domain, or, if that is only preferred, in as few as possible; whether all found room."""
        domains = self._nodes.domains(topology.key)
        if self._in_one(kinds, domains):
            return True
        if topology.required:
            return False
        mark, lead = self.mark(), kinds[0]
        while any(kind.missing for kind in kinds):
            rooms = _rooms(lead, domains)
            best = max(range(len(rooms)), key=lambda domain: rooms[domain], default=-1)
            before = sum(kind.missing for kind in kinds)
            if best >= 0:
                for kind in kinds:
                    self._put(kind, domains.masks[best])
            if sum(kind.missing for kind in kinds) == before:
                break
            lead = next((kind for kind in kinds if kind.missing), lead)
            if lead.missing and self._in_one([kind for kind in kinds if kind.missing], domains):
                return True
        if self._fill(kinds):
            return True
        self.undo(mark)
        for kind in kinds:
            kind.placed.clear()
        return self._fill(kinds)

    def _in_one(self, kinds: Sequence[_Kind], domains: Domains) -> bool:
        """Place the missing pods in the domain that has room for all of them and the least beyond; false if there is none."""
        rooms_of_kinds = [_rooms(kind, domains) for kind in kinds]
        enough = (
            domain
            for domain in range(len(domains.masks))
            if all(rooms[domain] >= kind.missing for kind, rooms in zip(kinds, rooms_of_kinds, strict=True))
        )
        before, mark = [len(kind.placed) for kind in kinds], self.mark()
        for domain in sorted(enough, key=lambda domain: [rooms[domain] for rooms in rooms_of_kinds]):
            if self._fill(kinds, domains.masks[domain]):
                return True
            self.undo(mark)
            for kind, length in zip(kinds, before, strict=True):
                del kind.placed[length:]
        return False


def _rooms(kind: _Kind, domains: Domains) -> list[int]:
    """How many pods of a kind each domain has room for, by their largest request only."""
    return kind.column.rooms(kind.allowed, kind.amount, domains)


def _open_rooms(kind: _Kind, domains: Domains) -> list[int]:
    """The same for the domains with nodes that the pods may go to."""
    rooms = zip(_rooms(kind, domains), domains.masks, strict=True)
    return [room for room, mask in rooms if mask & kind.allowed]


def _of(flavor: Flavor | None, pod: Pod) -> Flavor | None:
    """The flavor, if it applies to the pod: pods that request none of the flavor's resource may go to any node."""
    return flavor if flavor is not None and pod.asks.get(flavor.resource, 0) > 0 else None


def _part(take: tuple[Column, int]) -> tuple[bool, float, str]:
    """Sort key: the part of a node that a request takes; accelerators rank above all else."""
    column, amount = take
    return isinstance(column, Devices), amount / column.most, column.resource


def _scarcest(takes: Takes, nodes: Bits) -> tuple[Column, int]:
    """The request that the fewest nodes can fulfil. Among equals accelerators come first, and the number of pods last."""
    found, fewest = takes[-1], nodes.bit_count() + 1
    for take in sorted(takes, key=lambda take: (not isinstance(take[0], Devices), take[0].resource == PODS)):
        column, amount = take
        having = column.enough(nodes, amount)
        if having < fewest:
            found, fewest = take, having
        if not having:
            break
    return found


def _most_broken(domains: Domains, nodes: Bits, column: Devices) -> Bits:
    """The nodes whose domain has the fewest completely free nodes; entirely free domains come last, smallest first."""
    outside = nodes
    best, found = None, 0
    for mask in domains.masks:
        some = nodes & mask
        if some:
            outside &= ~mask
            having = mask & column.having
            left = having & ~column.touched
            broken = (left == having, left.bit_count())
            if best is None or broken < best:
                best, found = broken, some
            elif broken == best:
                found |= some
    return outside or found
