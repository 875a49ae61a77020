"""Finds a node for each pod of a workload, all or nothing, on a working copy of the room of all nodes.

    Board(nodes) ── hold what runs ──> place(pods) ──> a node for each, or None ──> explain(pods): why not, in numbers

- Pods that ask for all accelerators of a node get empty nodes. Smaller pods go where the fewest accelerators are left over, to
  nodes that are in use already, so that empty nodes stay empty. If an empty node has to be used, it is one in a rack and NVLink
  domain that is in use already.
- With a required topology all pods go into one domain, the tightest with room. With a preferred topology they go into as few
  domains as possible, else anywhere. Larger pods are placed first.

Deterministic: the same nodes and pods give the same answer. Needs (`nodes`) and room (`room`) decide; quotas and the order of
workloads do not. Asking holds nothing.
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
    """Why pods find no room, in numbers. All but the last are of the first kind of pod that does not fit."""

    # How many pods ask for how much of which resource: the one that the fewest nodes have enough of.
    pods: int
    resource: str
    asks: int
    # Nodes that they may go to by their needs; on these, how much is free in sum and at most on one.
    nodes: int
    free: int
    largest: int
    # How many of them would find room now, and with a topology: domains with such nodes, and how many fit into the best.
    fitting: int
    domains: int
    fitting_domain: int
    # Whether all pods would find room if the nodes were empty, those that are not usable now among them.
    could_ever: bool


@dataclass(frozen=True, slots=True)
class _Kind:
    """Pods of a workload that ask for the same and may go to the same nodes."""

    asks: Amounts
    takes: Takes
    # Of which they take the largest part of a node: accelerators, where they ask for any.
    column: Column
    amount: int
    allowed: Bits
    members: tuple[int, ...]
    # Nodes by number for the members, as far as they were found.
    placed: list[int]

    @property
    def missing(self) -> int:
        return len(self.members) - len(self.placed)


class Board:
    """A mutable working copy of all nodes' room. Each that holds something counts as one pod, beside what it asks for."""

    def __init__(self, nodes: Sequence[Node], avoid: Avoid = _NOTHING, staying: Iterable[Pod] = ()) -> None:
        """`staying` are pods that never make way: they hold their room even on a board that is otherwise empty."""
        self._all = nodes
        self._nodes = Nodes(nodes)
        self._avoid = avoid
        self._avoiding = frozenset(tenant for tenant, _ in avoid)
        self._staying = tuple(staying)
        self._room = Room(nodes)
        for pod in self._staying:
            self.hold(pod.node, pod.asks)
        # Finest first; what a host does not label costs nothing.
        self._whole = tuple(found for found in map(self._nodes.domains, (NVLINK_DOMAIN, RACK)) if found.masks)
        self._empty: Board | None = None

    def avoids(self, tenant: str) -> bool:
        """Whether a tenant's pods have nodes to avoid that others have not."""
        return tenant in self._avoiding

    def hold(self, node: str, asks: Amounts) -> None:
        """A pod takes its room; a node that is not there is ignored."""
        number = self._nodes.numbers.get(node)
        if number is not None:
            self._room.take(number, self._room.takes(asks), 1)

    def release(self, node: str, asks: Amounts) -> None:
        """A pod gives its room back."""
        number = self._nodes.numbers.get(node)
        if number is not None:
            self._room.take(number, self._room.takes(asks), -1)

    def free(self, node: str, resource: str) -> int:
        """How much of a resource is free on a node."""
        column, number = self._room.columns.get(resource), self._nodes.numbers.get(node)
        return 0 if column is None or number is None else max(0, column.free[number])

    def mark(self) -> int:
        """The state as it is, for `undo`."""
        return self._room.mark()

    def undo(self, mark: int) -> None:
        """Everything is again as it was at the mark."""
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
        """To how many usable nodes of that kind some of these pods may go by their needs."""
        return self._reached(pods, flavor).bit_count()

    def reached(self, pods: Sequence[Pod], flavor: Flavor | None = None) -> frozenset[str]:
        """The names of these."""
        return frozenset(self._all[node].name for node in numbers(self._reached(pods, flavor)))

    def _reached(self, pods: Sequence[Pod], flavor: Flavor | None) -> Bits:
        found: Bits = 0
        alike = {(pod.tenant, pod.needs): pod for pod in pods if flavor is None or _of(flavor, pod)}
        for pod in alike.values():
            found |= self._allowed(pod, flavor)
        return found

    def _allowed(self, pod: Pod, flavor: Flavor | None) -> Bits:
        """The nodes to which a pod may go, of the flavor if it asks for that."""
        found = self._nodes.matching(pod.needs, _of(flavor, pod))
        return found & ~self._nodes.named(self._avoid.get((pod.tenant, pod.needs), ())) if self._avoid else found

    def _of_nothing(self, pods: Sequence[Pod], flavor: Flavor | None, *, could_ever: bool) -> Shortfall:
        """Some pods ask for what no node has at all."""
        unknown = ((pod, name) for pod in pods for name, amount in pod.asks.items() if amount > 0 and self._lacks(name))
        pod, name = next(unknown)
        of_them = [other for other in pods if other.asks == pod.asks and other.needs == pod.needs]
        nodes = self._allowed(pod, flavor).bit_count()
        return Shortfall(len(of_them), name, pod.asks[name], nodes, 0, 0, 0, 0, 0, could_ever)

    def _lacks(self, resource: str) -> bool:
        return resource not in self._room.columns

    def emptied(self) -> "Board":
        """All nodes, the ones that are not usable now or avoided among them, without what holds room there and may go."""
        if self._empty is None:
            self._empty = Board([replace(node, usable=True) for node in self._all], staying=self._staying)
        return self._empty

    def _kinds(self, pods: Sequence[Pod], flavor: Flavor | None) -> list[_Kind] | None:
        """The pods by what they ask for and need, the big ones first; None where no node has what one asks for."""
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
        """Place what is missing of each kind; false as soon as one does not fit whole."""
        return all(self._put(kind, within) for kind in kinds)

    def _put(self, kind: _Kind, within: Bits) -> bool:
        """Place as many of a kind as find room; whether these are all."""
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
        """The nodes with enough, best first. A node is filled before the next is asked for."""
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
        """Nodes of which nothing is taken, those first whose domains are broken most."""
        while nodes:
            some = nodes
            for domains in self._whole:
                some = _most_broken(domains, some, column)
            nodes &= ~some
            yield from numbers(some)

    def _together(self, kinds: Sequence[_Kind], topology: Topology) -> bool:
        """All in one domain, or, if that is only preferred, in as few as possible."""
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
        """Place what is missing in the tightest domain that has room for all of it."""
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
    """How many pods each domain has room for, going by what they ask most of."""
    return kind.column.rooms(kind.allowed, kind.amount, domains)


def _open_rooms(kind: _Kind, domains: Domains) -> list[int]:
    """The same of the domains that they may go to at all."""
    rooms = zip(_rooms(kind, domains), domains.masks, strict=True)
    return [room for room, mask in rooms if mask & kind.allowed]


def _of(flavor: Flavor | None, pod: Pod) -> Flavor | None:
    """A pod of a gang that asks for none of the flavor's resource may go to any node."""
    return flavor if flavor is not None and pod.asks.get(flavor.resource, 0) > 0 else None


def _part(take: tuple[Column, int]) -> tuple[bool, float, str]:
    """How much of a node that is; accelerators before all else."""
    column, amount = take
    return isinstance(column, Devices), amount / column.most, column.resource


def _scarcest(takes: Takes, nodes: Bits) -> tuple[Column, int]:
    """Of which the fewest nodes have enough; accelerators are named before all else, and the number of pods last."""
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
    """Of some nodes those whose domain has the fewest whole nodes; domains that are whole come last, the smallest first."""
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
