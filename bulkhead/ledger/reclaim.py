"""Whose borrowed quota goes back, so that a workload can start.

    a workload that waits ──> candidates, by share, priority, newest ──> taken one by one until quota and room suffice
                                                                    └──> everything that turned out not to be needed is spared

A workload within its tenant's nominal takes from whoever borrows. One that would borrow takes only from a tenant that borrows
more by weight than its own would then (no two take from each other in turn), and only if it is before the victim in the queue
once that is gone (otherwise the victim would come back first). Gangs go whole. Nobody goes before its minimum runtime. What is
on its way out already was counted before anybody is asked here.

The search is bounded: in places tried, in nodes looked at. It works on `Books.later` and leaves it as it was.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bulkhead.ledger.account import Charge
from bulkhead.ledger.books import Books, Side
from bulkhead.ledger.flavors import Choice
from bulkhead.ledger.model import Cause, Line, Node, Rules, Snapshot
from bulkhead.ledger.order import Group, Workload

_PLACES: Final = 48  # tried for one workload
_UNITS: Final = 32  # nodes or domains that are emptied on trial


@dataclass(frozen=True, slots=True)
class Found:
    """Who goes, and where the workload starts then."""

    groups: tuple[Group, ...]
    nodes: tuple[str, ...]
    cause: Cause
    # When all of them have run for their minimum.
    ripe: float


class Candidates:
    """All that is held, by tenant, in the order in which it is taken back."""

    def __init__(self, groups: Iterable[Group], books: Books, snapshot: Snapshot) -> None:
        self._books = books
        self._tenants = snapshot.tenants
        self._rules = snapshot.rules
        self.nodes: Mapping[str, Node] = {node.name: node for node in snapshot.nodes}
        self._of: dict[str, list[Group]] = {}
        self._charges: dict[int, Charge] = {}
        for group in groups:
            self._of.setdefault(group.tenant, []).append(group)
        for mine in self._of.values():
            mine.sort(key=lambda each: (each.priority, -each.since, each.key))

    def of(self, tenant: str) -> Sequence[Group]:
        """What a tenant holds, in that order."""
        return self._of.get(tenant, ())

    def charge(self, group: Group) -> Charge:
        """What a group is charged for."""
        found = self._charges.get(id(group))
        if found is None:
            total: dict[Line, int] = {}
            for pod in group.pods:
                for line, amount in self._books.held[pod.uid].charge.items():
                    total[line] = total.get(line, 0) + amount
            found = self._charges[id(group)] = total
        return found

    def ripe(self, group: Group) -> float:
        """When it has run for its minimum."""
        return group.since + self._rules.get(self._tenants[group.tenant].cohort, Rules()).min_runtime


@dataclass(slots=True)
class Search:
    """One search for one workload and one way to charge it."""

    books: Books
    candidates: Candidates
    workload: Workload
    choice: Choice
    charge: Charge
    # Who has not run for its minimum by then is left alone.
    at: float
    fair: bool
    _side: Side = field(init=False)
    _within: bool = field(init=False)
    _would: float = field(init=False, default=0.0)
    _has: float = field(init=False, default=0.0)
    _places: int = field(init=False, default=_PLACES)

    def __post_init__(self) -> None:
        self._side = self.books.later
        account, tenant = self._side.account, self.workload.tenant
        self._within = account.within_nominal(tenant, self.charge)
        if not self._within:
            self._would = account.share(tenant, self.charge)
            self._has = account.share(tenant)

    def run(self) -> Found | None:
        """Who has to go; None if that does not help, or nobody may be taken from."""
        if not self.charge or not (self._within or self.fair):
            return None
        tenants = self._side.account.borrowers(self.workload.tenant, self.charge)
        if not tenants:
            return None
        mark = self._side.mark()
        try:
            taken: list[Group] = []
            nodes = self._by_order(tenants, taken)
            if nodes is None and taken and self._places > 0:
                self._side.undo(mark)
                taken.clear()
                nodes = self._by_node(tenants, taken)
            if nodes is None:
                return None
            self._places = _PLACES
            kept = self._spare(taken)
            nodes = self._side.place(self.workload, self.choice) or nodes
            cause = Cause.BORROWED if self._within else Cause.FAIRNESS
            return Found(tuple(kept), nodes, cause, max((self.candidates.ripe(each) for each in kept), default=0.0))
        finally:
            self._side.undo(mark)

    def _by_order(self, tenants: Iterable[str], taken: list[Group]) -> tuple[str, ...] | None:
        """Take in order until it fits; look for room when quota suffices, and ever more rarely if there is none."""
        after, tried = 0, -1
        for group in self._in_order({tenant: self.candidates.of(tenant) for tenant in tenants}):
            if not self._take(group, taken) or self._lacks():
                continue
            after += 1
            if after & (after - 1) == 0:
                nodes, tried = self._place(), len(taken)
                if nodes is not None:
                    return nodes
        return None if tried == len(taken) or self._lacks() else self._place()

    def _by_node(self, tenants: Iterable[str], taken: list[Group]) -> tuple[str, ...] | None:
        """Empty the nodes (or domains) first on which the least is held by others: fragments elsewhere would not help."""
        topology = self.workload.topology
        alone = len(self.workload.pods) == 1 or (topology is not None and topology.required)
        everybody = {tenant: self.candidates.of(tenant) for tenant in tenants}
        for unit in self._units(everybody)[:_UNITS]:
            mark, before = self._side.mark(), len(taken)
            for group in self._in_order(unit):
                self._take(group, taken)
            if self._lacks():
                already = {id(group) for group in taken}
                for group in self._in_order(everybody):
                    if id(group) not in already and self._take(group, taken) and not self._lacks():
                        break
            nodes = None if self._lacks() else self._place()
            if nodes is not None:
                return nodes
            if alone:
                self._side.undo(mark)
                del taken[before:]
        return None

    def _units(self, everybody: Mapping[str, Sequence[Group]]) -> list[dict[str, list[Group]]]:
        """Nodes or domains with something that may go: by what stays there, then by what has to go."""
        resources = {resource for _, resource in self.charge}
        may = {
            pod.uid: group for groups in everybody.values() for group in groups if self._is_ripe(group) for pod in group.pods
        }
        stays: dict[str, int] = {}
        goes: dict[str, int] = {}
        units: dict[str, dict[int, Group]] = {}
        for uid, held in self.books.held.items():
            unit = self._unit(held.node)
            amount = sum(held.pod.asks.get(resource, 0) for resource in resources)
            if not unit or not amount or self.books.is_coming(held.pod):
                continue
            group = may.get(uid)
            if group is None:
                stays[unit] = stays.get(unit, 0) + amount
            else:
                goes[unit] = goes.get(unit, 0) + amount
                units.setdefault(unit, {})[id(group)] = group
        found = []
        for unit in sorted(units, key=lambda each: (stays.get(each, 0), goes[each], each)):
            mine: dict[str, list[Group]] = {}
            for group in sorted(units[unit].values(), key=lambda each: (each.priority, -each.since, each.key)):
                mine.setdefault(group.tenant, []).append(group)
            found.append(mine)
        return found

    def _unit(self, node: str) -> str:
        topology = self.workload.topology
        if topology is None or not topology.required:
            return node
        there = self.candidates.nodes.get(node)
        return there.labels.get(topology.key, "") if there else ""

    def _in_order(self, groups: Mapping[str, Sequence[Group]]) -> Iterator[Group]:
        """By share of its tenant as it is at each moment, then as the tenant's stand."""
        account = self._side.account
        heap = [(-account.share(tenant, reserved=False), tenant, 0) for tenant in groups]
        heapq.heapify(heap)
        while heap:
            share, tenant, at = heapq.heappop(heap)
            if at >= len(groups[tenant]):
                continue
            yield groups[tenant][at]
            share = -account.share(tenant, reserved=False)
            if share < 0:
                heapq.heappush(heap, (share, tenant, at + 1))

    def _is_ripe(self, group: Group) -> bool:
        return self.candidates.ripe(group) <= self.at

    def _take(self, group: Group, taken: list[Group]) -> bool:
        """Take a group if the rules allow it as things stand."""
        if not self._is_ripe(group):
            return False
        account, tenant = self._side.account, group.tenant
        charge = self.candidates.charge(group)
        if not any(line in self.charge and account.borrows(tenant, line) for line in charge):
            return False
        staying = self.books.staying(group)
        if not staying or (not self._within and account.share(tenant, reserved=False) <= self._would):
            return False
        mark = self._side.mark()
        for held in staying:
            self._side.free(held)
        if not self._within:
            left = account.share(tenant, reserved=False)
            if left < self._has or (left == self._has and group.priority > self.workload.priority):
                self._side.undo(mark)
                return False
        taken.append(group)
        return True

    def _lacks(self) -> bool:
        return self._side.account.lacks(self.workload.tenant, self.charge) is not None

    def _place(self) -> tuple[str, ...] | None:
        if self._places <= 0:
            return None
        self._places -= 1
        return self._side.place(self.workload, self.choice)

    def _spare(self, groups: list[Group]) -> list[Group]:
        """Of those who were taken, who really has to go: halves are given back while it still fits, the last taken first."""
        mark = self._side.mark()
        for group in groups:
            for held in self.books.staying(group):
                self._side.hold(held)
        if not self._lacks() and self._place() is not None:
            return []
        self._side.undo(mark)
        if len(groups) == 1:
            return groups
        half = len(groups) // 2
        last = self._spare(groups[half:])
        return self._spare(groups[:half]) + last
