"""Keeps how much of each resource is free on each node. Every change can be undone.

    take(node, …) ──> columns: free by node; for devices also the nodes by how many are free
         └──> log ──> undo(mark)

This module knows amounts and numbers of nodes, but not pods or needs. A free amount may be negative, because running pods may
hold more than a node still has.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from bulkhead.ledger.model import Amounts, Node
from bulkhead.ledger.nodes import Bits, Domains, numbers

PODS: Final = "pods"
# The places for pods on a node that does not state a number.
_ANY_NUMBER: Final = 1 << 40
_FEW_DOMAINS: Final = 64
_MOST_KEPT: Final = 4096


class Column:
    """One resource on all nodes."""

    __slots__ = ("capacity", "free", "most", "resource")

    def __init__(self, resource: str, capacity: Sequence[int]) -> None:
        self.resource = resource
        self.capacity = capacity
        self.free = list(capacity)
        self.most = max((*capacity, 1))

    def take(self, node: int, amount: int) -> None:
        """Take an amount from a node; a negative amount is given back."""
        self.free[node] -= amount

    def enough(self, nodes: Bits, amount: int) -> int:
        """How many of the nodes have this amount free."""
        return sum(1 for node in numbers(nodes) if self.free[node] >= amount)

    def free_on(self, nodes: Bits) -> tuple[int, int]:
        """How much is free on the nodes in total, and at most on one."""
        found = [max(0, self.free[node]) for node in numbers(nodes)]
        return sum(found), max(found, default=0)

    def rooms(self, nodes: Bits, amount: int, domains: Domains) -> list[int]:
        """How many times this amount fits on the nodes of each domain."""
        found = [0] * len(domains.masks)
        for node in numbers(nodes & domains.labelled):
            if self.free[node] > 0:
                found[domains.of[node]] += self.free[node] // amount
        return found


class Devices(Column):
    """A resource of whole devices, with an index of nodes by the number of free devices."""

    __slots__ = ("having", "levels", "touched")

    def __init__(self, resource: str, capacity: Sequence[int]) -> None:
        super().__init__(resource, capacity)
        # Nodes by the number of free devices, if that is above 0.
        self.levels: dict[int, Bits] = {}
        # Nodes that have devices, and nodes of whose devices some are taken.
        self.having: Bits = 0
        self.touched: Bits = 0
        for node, free in enumerate(capacity):
            if free > 0:
                self.levels[free] = self.levels.get(free, 0) | 1 << node
                self.having |= 1 << node

    def take(self, node: int, amount: int) -> None:
        """The same; also updates the index."""
        bit = 1 << node
        before = self.free[node]
        after = self.free[node] = before - amount
        levels = self.levels
        if before > 0:
            left = levels[before] ^ bit
            if left:
                levels[before] = left
            else:
                del levels[before]
        if after > 0:
            levels[after] = levels.get(after, 0) | bit
        if after == self.capacity[node]:
            self.touched &= ~bit
        else:
            self.touched |= bit

    def enough(self, nodes: Bits, amount: int) -> int:
        """The same, from the index."""
        return sum((some & nodes).bit_count() for free, some in self.levels.items() if free >= amount)

    def free_on(self, nodes: Bits) -> tuple[int, int]:
        """The same, from the index."""
        found = [(free, count) for free, some in self.levels.items() if (count := (some & nodes).bit_count())]
        return sum(free * count for free, count in found), max((free for free, _ in found), default=0)

    def rooms(self, nodes: Bits, amount: int, domains: Domains) -> list[int]:
        """The same, from the index, unless there are many domains."""
        if len(domains.masks) > _FEW_DOMAINS:
            return super().rooms(nodes, amount, domains)
        levels = [(free // amount, some & nodes) for free, some in self.levels.items() if free >= amount]
        return [sum(times * (some & mask).bit_count() for times, some in levels) for mask in domains.masks]


Takes: TypeAlias = tuple[tuple[Column, int], ...]


class Room:
    """The columns of all nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.columns: dict[str, Column] = {}
        for resource in sorted({PODS, *(name for node in nodes for name in node.allocatable)}):
            otherwise = _ANY_NUMBER if resource == PODS else 0
            capacity = [node.allocatable.get(resource, otherwise) for node in nodes]
            self.columns[resource] = (Devices if "/" in resource else Column)(resource, capacity)
        self.devices = tuple(column for column in self.columns.values() if isinstance(column, Devices))
        self._log: list[tuple[int, Takes, int]] = []
        self._takes: dict[tuple[tuple[str, int], ...], Takes] = {}

    def takes(self, asks: Amounts) -> Takes:
        """What a pod takes from a node: its requests, without resources that no node has, and one place for a pod."""
        asked = tuple(asks.items())
        found = self._takes.get(asked)
        if found is None:
            columns = self.columns
            named = [(columns[name], amount) for name, amount in asked if amount > 0 and name in columns and name != PODS]
            found = (*named, (columns[PODS], 1))
            if len(self._takes) < _MOST_KEPT:
                self._takes[asked] = found
        return found

    def fitting(self, node: int, takes: Takes) -> int:
        """How many such pods find room on a node."""
        return min(column.free[node] // amount for column, amount in takes)

    def take(self, node: int, takes: Takes, times: int) -> None:
        """Take the room of this many pods; a negative number is given back."""
        for column, amount in takes:
            column.take(node, amount * times)
        self._log.append((node, takes, times))

    def mark(self) -> int:
        """A state to which `undo` returns."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Revert all changes since the mark."""
        log = self._log
        while len(log) > mark:
            node, takes, times = log.pop()
            for column, amount in takes:
                column.take(node, -amount * times)
