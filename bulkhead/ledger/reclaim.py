"""Chooses the borrowed quota to reclaim, so that a workload can start.

    a waiting workload ──> candidates, by share, priority, newest ──> taken one by one until quota and room suffice
                                                                 └──> candidates that turned out not to be needed are spared

A workload within its tenant's nominal reclaims from any tenant that borrows. A workload that would borrow reclaims only from a
tenant whose share is larger than its own tenant's would then be, so that no two tenants reclaim from each other in turn. It
must come before the victim in the queue once the victim is gone, otherwise the victim would return first. It takes no gang that
is partly within nominal, because the victim could reclaim that part. A gang is reclaimed as a whole. No pod is reclaimed before
its minimum runtime. Pods that are already on their way out are counted before this search begins.

The search is bounded in groups and nodes visited, and in placements tried. It works on `Books.later` and leaves it unchanged.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bulkhead.ledger.account import Charge
from bulkhead.ledger.books import Books, Side
from bulkhead.ledger.flavors import Choice
from bulkhead.ledger.model import Cause, Line, Node, Snapshot
from bulkhead.ledger.order import Group, Workload, by_loss

_MOST_PLACES_TRIED: Final = 48  # placements tried for one workload
# Divided by the number of its pods: more placements, to find out which candidates can be spared.
_MOST_PLACES_OF_SMALL: Final = 1024
_MOST_LOOKS: Final = 30_000
_MOST_UNITS_TRIED: Final = 32  # nodes or domains that are emptied on trial

GroupsByTenant: TypeAlias = Mapping[str, Sequence[Group]]


@dataclass(frozen=True, slots=True)
class Found:
    """The groups to reclaim, and the nodes on which the workload then starts."""

    groups: tuple[Group, ...]
    nodes: tuple[str, ...]
    cause: Cause
    # When the last of these groups reaches its minimum runtime.
    ripe: float


class Candidates:
    """All groups that hold quota, by tenant, in the order in which they are reclaimed."""

    def __init__(self, groups: Iterable[Group], books: Books, snapshot: Snapshot) -> None:
        self._books = books
        self._snapshot = snapshot
        self.nodes: Mapping[str, Node] = {node.name: node for node in snapshot.nodes}
        self._of: dict[str, list[Group]] = {}
        self._charges: dict[int, Charge] = {}
        self._loads: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
        self._on: dict[str, dict[str, dict[int, Group]]] = {}
        # How many more groups may be visited in this turn.
        self.budget = _MOST_LOOKS
        for group in groups:
            self._of.setdefault(group.tenant, []).append(group)
        self._of = {tenant: by_loss(mine) for tenant, mine in self._of.items()}

    def of(self, tenant: str) -> Sequence[Group]:
        """A tenant's groups, in that order."""
        return self._of.get(tenant, ())

    def charge(self, group: Group) -> Charge:
        """The charge of all pods of a group."""
        found = self._charges.get(id(group))
        if found is None:
            total: dict[Line, int] = {}
            for pod in group.pods:
                for line, amount in self._books.held[pod.uid].charge.items():
                    total[line] = total.get(line, 0) + amount
            found = self._charges[id(group)] = total
        return found

    def loads(self, resource: str, key: str) -> dict[str, dict[str, int]]:
        """How much of a resource each node (or domain of label `key`) has in use, by tenant, without pods on their way out."""
        found = self._loads.get((resource, key))
        if found is None:
            found = self._loads[resource, key] = {}
            for held in self._books.held.values():
                unit, amount = self._unit(held.node, key), held.pod.asks.get(resource, 0)
                if unit and amount > 0 and not self._books.is_coming(held.pod):
                    load = found.setdefault(unit, {})
                    load[held.pod.tenant] = load.get(held.pod.tenant, 0) + amount
        return found

    def gone(self, group: Group) -> None:
        """Count these pods as on their way out."""
        self._of[group.tenant] = [other for other in self._of[group.tenant] if other.key != group.key]
        for (resource, key), loads in self._loads.items():
            for pod in group.pods:
                load = loads.get(self._unit(self._books.held[pod.uid].node, key))
                if load is not None:
                    load[pod.tenant] = load.get(pod.tenant, 0) - pod.asks.get(resource, 0)

    def on(self, unit: str, key: str, tenants: Iterable[str]) -> dict[str, list[Group]]:
        """The groups of some tenants that have pods on a node or in a domain, in order."""
        if key not in self._on:
            there: dict[str, dict[int, Group]] = {}
            for mine in self._of.values():
                for group in mine:
                    for pod in group.pods:
                        there.setdefault(self._unit(self._books.held[pod.uid].node, key), {})[id(group)] = group
            self._on[key] = there
        found: dict[str, list[Group]] = {tenant: [] for tenant in tenants}
        for group in self._on[key].get(unit, {}).values():
            if group.tenant in found:
                found[group.tenant].append(group)
        return found

    def _unit(self, node: str, key: str) -> str:
        if not key:
            return node
        there = self.nodes.get(node)
        return there.labels.get(key, "") if there else ""

    def ripe(self, group: Group) -> float:
        """When a group reaches its minimum runtime."""
        return group.since + self._snapshot.rules_for(group.tenant).min_runtime


@dataclass(slots=True)
class Search:
    """The search for one workload and one way to charge it."""

    books: Books
    candidates: Candidates
    workload: Workload
    choice: Choice
    charge: Charge
    # Groups that reach their minimum runtime only later are not reclaimed.
    at: float
    fair: bool
    _side: Side = field(init=False)
    _within: bool = field(init=False)
    _would: float = field(init=False, default=0.0)
    _has: float = field(init=False, default=0.0)
    _places: int = field(init=False, default=_MOST_PLACES_TRIED)

    def __post_init__(self) -> None:
        self._side = self.books.later
        account, tenant = self._side.account, self.workload.tenant
        self._within = account.within_nominal(tenant, self.charge)
        if not self._within:
            self._would = account.share(tenant, self.charge)
            self._has = account.share(tenant)

    def run(self) -> Found | None:
        """The groups to reclaim; None if that does not help, or if quota may be reclaimed from no tenant."""
        if not self.charge or not (self._within or self.fair):
            return None
        tenants = sorted(self._side.account.borrowers(self.workload.tenant, self.charge))
        if not tenants:
            return None
        by_tenant = {tenant: self.candidates.of(tenant) for tenant in tenants}
        mark = self._side.mark()
        try:
            for attempt in (self._for_quota, self._by_node, self._by_order):
                taken: list[Group] = []
                if attempt(by_tenant, taken) is not None:
                    return self._without_spare(taken)
                self._side.undo(mark)
            return None
        finally:
            self._side.undo(mark)

    def _without_spare(self, taken: list[Group]) -> Found | None:
        self._places = _MOST_PLACES_TRIED + _MOST_PLACES_OF_SMALL // len(self.workload.pods)
        kept = self._spare(taken)
        nodes = self._side.place(self.workload, self.choice)
        if nodes is None:
            return None
        ripe = max((self.candidates.ripe(group) for group in kept), default=0.0)
        return Found(tuple(kept), nodes, Cause.BORROWED if self._within else Cause.FAIRNESS, ripe)

    def _for_quota(self, by_tenant: GroupsByTenant, taken: list[Group]) -> tuple[str, ...] | None:
        """Take groups in order until quota suffices, and see whether there is room."""
        for group in self._in_order(by_tenant):
            if self._take(group, taken) and not self._lacks():
                return self._place()
        return None

    def _by_order(self, by_tenant: GroupsByTenant, taken: list[Group]) -> tuple[str, ...] | None:
        """Take groups in order until the workload fits; look for room after 1, 2, 4, 8, … of them."""
        after, nodes = 0, None
        for group in self._in_order(by_tenant):
            if not self._take(group, taken) or self._lacks():
                continue
            after += 1
            if after & (after - 1) == 0:
                nodes = self._place()
                if nodes is not None:
                    return nodes
        return None if self._lacks() or not taken else self._place()

    def _by_node(self, by_tenant: GroupsByTenant, taken: list[Group]) -> tuple[str, ...] | None:
        """Empty nodes (or domains), first those where the least is held by pods that stay: fragments elsewhere do not help."""
        topology = self.workload.topology
        alone = len(self.workload.pods) == 1 or (topology is not None and topology.required)
        for unit in self._units(by_tenant)[:_MOST_UNITS_TRIED]:
            mark, before = self._side.mark(), len(taken)
            for group in self._in_order(unit):
                self._take(group, taken)
            if self._lacks():
                already = {id(group) for group in taken}
                for group in self._in_order(by_tenant):
                    if id(group) not in already and self._take(group, taken) and not self._lacks():
                        break
            nodes = None if self._lacks() else self._place()
            if nodes is not None:
                return nodes
            if alone:
                self._side.undo(mark)
                del taken[before:]
        return None

    def _units(self, by_tenant: GroupsByTenant) -> list[dict[str, list[Group]]]:
        """Nodes or domains with groups of these tenants, ordered by what other tenants hold there, then by what to reclaim."""
        resources = sorted({resource for _, resource in self.charge}, key=lambda name: ("/" not in name, name))
        topology = self.workload.topology
        key = topology.key if topology is not None and topology.required else ""
        loads = self.candidates.loads(resources[0], key)
        ranked = []
        for unit, load in loads.items():
            goes = sum(amount for tenant, amount in load.items() if tenant in by_tenant)
            if goes > 0:
                ranked.append((sum(load.values()) - goes, goes, unit))
        ranked.sort()
        return [self.candidates.on(unit, key, by_tenant) for _, _, unit in ranked[:_MOST_UNITS_TRIED]]

    def _in_order(self, groups: GroupsByTenant) -> Iterator[Group]:
        """Groups of the tenant with the largest share at each moment, in the tenant's order, until no tenant may lose more."""
        account = self._side.account
        heap = [(-account.share(tenant, reserved=False), tenant, 0) for tenant in groups]
        heapq.heapify(heap)
        while heap and self.candidates.budget > 0:
            share, tenant, at = heapq.heappop(heap)
            if at >= len(groups[tenant]) or not any(account.borrows(tenant, line) for line in self.charge):
                continue
            if not self._within and -share <= self._would:
                return
            yield groups[tenant][at]
            heapq.heappush(heap, (-account.share(tenant, reserved=False), tenant, at + 1))

    def _take(self, group: Group, taken: list[Group]) -> bool:
        """Take a group if the rules allow it in the present state; whether they do."""
        self.candidates.budget -= 1
        if self.candidates.ripe(group) > self.at:
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
            comes_first = left < self._has or (left == self._has and group.priority > self.workload.priority)
            if comes_first or account.is_below_nominal(tenant, charge.keys() & self.charge.keys()):
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
        """The groups that really must go. Halves are given back as long as the workload still fits, the last taken first."""
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
