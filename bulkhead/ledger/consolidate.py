"""Chooses pods that move to other nodes, so that a workload with quota finds room where accelerators are free in pieces.

    has quota, no room ──> nodes (or domains) where the least must leave ──> small pods released one by one until it fits
                                                                         ──> each of them fits elsewhere, now ──> they are moved

Only single pods move, which a controller in their plane recreates, and whose placement depends only on what is checked here.
They belong to the beneficiary's own tenant. If the beneficiary stays within nominal, pods of tenants that borrow move too, up
to what these borrow. A pod stays if it has a higher priority, has not run for its minimum runtime, or is not smaller than the
beneficiary. A larger workload never makes way for a smaller one, so no two workloads move each other in turn.

A moved pod keeps its quota, and room on its new node (`homes`); that room is free at once. Moves are considered at the end of a
turn, when every workload that can start without them has started. The search is bounded in pods, nodes, places and moves. It
leaves the books as they will be after the moves.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from bulkhead.ledger.account import Charge
from bulkhead.ledger.books import Books, Done, Held, Side
from bulkhead.ledger.flavors import Choice
from bulkhead.ledger.model import Cause, Snapshot, Stage
from bulkhead.ledger.nodes import only
from bulkhead.ledger.order import Group, Workload
from bulkhead.ledger.reclaim import Candidates

_MOST_PLACES_TRIED: Final = 96  # tried for one workload
_MOST_UNITS_TRIED: Final = 32  # nodes or domains


@dataclass(frozen=True, slots=True)
class Broken:
    """A workload that has quota and no room."""

    workload: Workload
    choice: Choice
    charge: Charge
    # What is reserved for it while it waits, if it is the first to wait.
    kept: Done | None


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that is moved, and the node on which room is reserved for its successor."""

    group: Group
    to: str


# The nodes on which the workload then starts, and the moves.
_Found: TypeAlias = tuple[tuple[str, ...], tuple[Move, ...]]


class Consolidation:
    """Plans the moves of one turn."""

    def __init__(self, snapshot: Snapshot, books: Books, candidates: Candidates, now: float) -> None:
        self._snapshot, self._books, self._candidates, self._now = snapshot, books, candidates, now
        # When pods that could be moved reach the end of their minimum runtime.
        self.times: list[float] = []
        # Cohorts that have moved pods on their way out; no others are moved for these until they are gone.
        on_their_way = (held.pod for held in books.coming if held.pod.reclaim_cause == Cause.MOVED)
        self._busy = {snapshot.tenants[pod.tenant].cohort for pod in on_their_way if pod.tenant in snapshot.tenants}

    def moves(self, broken: Broken) -> tuple[Move, ...]:
        """The moves that make room for a workload; none if that does not help."""
        tenant = self._snapshot.tenants.get(broken.workload.tenant)
        if tenant is None or tenant.cohort in self._busy:
            return ()
        rules = self._snapshot.rules_for(tenant.name)
        search = _Search(self._snapshot, self._books, self._candidates, broken, self._now, rules.max_moves)
        found = search.run()
        if found:
            self._busy.add(tenant.cohort)
        elif search.ripens is not None:
            self.times.append(search.ripens)
        return found


@dataclass(slots=True)
class _Search:
    """One search for one workload."""

    snapshot: Snapshot
    books: Books
    candidates: Candidates
    broken: Broken
    now: float
    most: int
    ripens: float | None = None
    _side: Side = field(init=False)
    _resource: str = field(init=False)
    # The most devices that one of its pods requests.
    _pod_asks: int = field(init=False)
    _on: dict[str, list[Group]] = field(init=False, default_factory=dict)
    _places: int = field(init=False, default=_MOST_PLACES_TRIED)

    def __post_init__(self) -> None:
        self._side = self.books.now
        flavor, workload = self.broken.choice.flavor, self.broken.workload
        devices = sorted(name for name in workload.asks if "/" in name)
        self._resource = flavor.resource if flavor is not None else next(iter(devices), "")
        self._pod_asks = max(pod.asks.get(self._resource, 0) for pod in workload.pods)

    def run(self) -> tuple[Move, ...]:
        """Try nodes or domains one after the other."""
        if self._pod_asks <= 0:
            return ()
        mark = self._side.mark()
        if self.broken.kept is not None:
            self._side.do(self.broken.kept, -1)
        self._look()
        found = next((trial for trial in self._trials() if trial is not None), None)
        self._side.undo(mark)
        if found is None:
            return ()
        nodes, moves = found
        self._carry_out(nodes, moves)
        return moves

    def _trials(self) -> Iterator[_Found | None]:
        for unit in self._units():
            for order in (_large_first, _small_first):
                before = self._side.mark()
                yield self._within(unit, order)
                self._side.undo(before)

    def _look(self) -> None:
        """Collect the pods that may be moved, by node."""
        account, workload = self._side.account, self.broken.workload
        lends = account.within_nominal(workload.tenant, self.broken.charge)
        borrowers = account.borrowers(workload.tenant, self.broken.charge) if lends else set()
        allowed = self._side.board.reached(workload.pods, self.broken.choice.flavor)
        for tenant in (workload.tenant, *sorted(borrowers)):
            for group in self.candidates.of(tenant):
                self.candidates.budget -= 1
                if self.candidates.budget <= 0:
                    return
                node = group.pods[0].node
                if node not in allowed or not self._is_movable(group):
                    continue
                ripe = self.candidates.ripe(group)
                if ripe > self.now:
                    self.ripens = ripe if self.ripens is None else min(ripe, self.ripens)
                else:
                    self._on.setdefault(node, []).append(group)

    def _is_movable(self, group: Group) -> bool:
        pod, workload = group.pods[0], self.broken.workload
        if group.is_gang or pod.slurm_worker or not pod.plain or not pod.maker or pod.stage is not Stage.BOUND:
            return False
        if pod.ending or pod.reclaim_by is not None or self.books.is_coming(pod):
            return False
        own = pod.own_priority if pod.tenant == workload.tenant else 0
        than = workload.own_priority if pod.tenant == workload.tenant else 0
        return (pod.priority, own) <= (workload.priority, than) and 0 < self._asks(group) < workload.asks[self._resource]

    def _units(self) -> list[list[str]]:
        """Sets of nodes to try together: those first where the fewest devices must become free, then the least work is lost."""
        ranked = sorted((self._lacks(node), self._work(node), node) for node in self._on)
        nodes = [node for lack, _, node in ranked if lack <= sum(map(self._asks, self._on[node]))]
        topology = self.broken.workload.topology
        if topology is not None and topology.required:
            domains: dict[str, list[str]] = {}
            for node in nodes:
                domains.setdefault(self.candidates.nodes[node].labels.get(topology.key, ""), []).append(node)
            domains.pop("", None)
            return list(domains.values())[:_MOST_UNITS_TRIED]
        return [[node] for node in nodes[:_MOST_UNITS_TRIED]] if len(self.broken.workload.pods) == 1 else [nodes]

    def _work(self, node: str) -> float:
        """The work that movable pods of a node have done, in device-seconds; a pod that moves loses its part."""
        return sum((self.now - group.since) * self._asks(group) for group in self._on[node])

    def _lacks(self, node: str) -> int:
        """How many devices must become free on a node for one pod more."""
        return self._pod_asks - self._side.board.free(node, self._resource) % self._pod_asks

    def _within(self, nodes: Sequence[str], order: Callable[[int], int]) -> _Found | None:
        """The workload's nodes, and the moves that make room for it on some of these nodes; None if that fails."""
        taken: list[Group] = []
        for node in nodes:
            while self._clear(node, order, taken):
                if self._place() is not None:
                    return self._settled(taken)
        return None

    def _clear(self, node: str, order: Callable[[int], int], taken: list[Group]) -> bool:
        """Release pods of a node until one pod more has room there; whether that worked."""
        mark, before, lack = self._side.mark(), len(taken), self._lacks(node)
        for group in sorted(self._on[node], key=lambda group: order(self._asks(group))):
            if lack <= 0 or len(taken) >= self.most:
                break
            if group not in taken and self._may_take(group):
                self._side.free(self._held(group))
                taken.append(group)
                lack -= self._asks(group)
        if lack > 0:
            self._side.undo(mark)
            del taken[before:]
        return lack <= 0

    def _may_take(self, group: Group) -> bool:
        """Whether a pod may be moved: pods of other tenants only up to what these borrow."""
        if group.tenant == self.broken.workload.tenant:
            return True
        charge = self._held(group).charge
        return any(line in self.broken.charge and self._side.account.borrows(group.tenant, line) for line in charge)

    def _settled(self, taken: list[Group]) -> _Found | None:
        """The moves that are really needed, with their destinations; None unless each moved pod has room elsewhere."""
        for group in taken[::-1]:
            mark = self._side.mark()
            self._side.hold(self._held(group))
            if self._place() is not None:
                taken.remove(group)
            else:
                self._side.undo(mark)
        nodes = self._place()
        if nodes is None or not taken:
            return None
        self._hold(nodes)
        left, moves = {group.pods[0].node for group in taken}, []
        for group in sorted(taken, key=self._asks, reverse=True):
            node = self._elsewhere(self._held(group), left)
            if not node:
                return None
            self._side.board.hold(node, group.pods[0].asks)
            moves.append(Move(group, node))
        return nodes, tuple(moves)

    def _elsewhere(self, held: Held, left: set[str]) -> str:
        """A node with room for a pod now, of the pod's present flavor; "" if there is none."""
        pod, flavors = held.pod, self.books.flavors
        used = flavors.used(pod)
        choice = next((choice for choice in flavors.choices(pod.tenant, pod.asks) if choice.of == used), None)
        if choice is None:
            return ""
        away = only(pod.needs, "NotIn", left | self.snapshot.avoid.get((pod.tenant, pod.needs), frozenset()))
        found = self._side.board.place((replace(pod, needs=away),), choice.flavor)
        return found[0] if found is not None else ""

    def _carry_out(self, nodes: tuple[str, ...], moves: tuple[Move, ...]) -> None:
        """Change the books to the state after the moves. No workload is judged afterwards, so `later` stays as it is."""
        if self.broken.kept is not None:
            self._side.do(self.broken.kept, -1)
        for move in moves:
            self._side.board.release(move.group.pods[0].node, move.group.pods[0].asks)
            self._side.board.hold(move.to, move.group.pods[0].asks)
            self.candidates.gone(move.group)
            self.books.comes(move.group)
        self._hold(nodes)

    def _hold(self, nodes: Sequence[str]) -> None:
        for pod, node in zip(self.broken.workload.pods, nodes, strict=True):
            self._side.board.hold(node, pod.asks)

    def _place(self) -> tuple[str, ...] | None:
        self._places -= 1
        return self._side.place(self.broken.workload, self.broken.choice) if self._places >= 0 else None

    def _asks(self, group: Group) -> int:
        return group.pods[0].asks.get(self._resource, 0)

    def _held(self, group: Group) -> Held:
        return self.books.held[group.pods[0].uid]


def _large_first(amount: int) -> int:
    return -amount


def _small_first(amount: int) -> int:
    return amount
