"""Quota and room together: as they are now, and as they will be once ending and reclaimed pods are gone.

    Snapshot ──> Books ──> now:   all that holds something
                       ──> later: the same without pods that are ending or reclaimed; computed on first use

Both hold what is admitted or reserved, so capacity that comes free is given away once. A pod without a node that the host's
scheduler will still place holds a likely node: the one that it is pinned to, or one found as the scheduler would. This module
decides nothing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from bulkhead.ledger.account import Charge, QuotaAccount
from bulkhead.ledger.flavors import Choice, Flavors
from bulkhead.ledger.model import GATED, Line, Pod, Snapshot, Topology
from bulkhead.ledger.order import Group, Shape, Workload, age
from bulkhead.ledger.place import Board

Where: TypeAlias = tuple[Shape, str, Topology | None, str]
Mark: TypeAlias = tuple[int, int, set[Where]]
_MOST_NOTES_COPIED: Final = 64  # notes that are worth a copy
_NO_MATTER_WHEN: Final = float("inf")
# A pod may take this much longer than the deadline to end, whatever grace it has, so that lent quota returns in time.
LAST_GRACE_SECONDS: Final = 30
# A pod that is still there this many seconds after its deadline is on a lost or hanging node: its end is unknown.
OVERDUE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Held:
    """A pod that holds quota or room, and how much."""

    pod: Pod
    # Where it runs, is pinned, or will likely run; "" if that is unknown.
    node: str
    charge: Charge


@dataclass(frozen=True, slots=True)
class Done:
    """What a workload was given, or what is reserved for it."""

    workload: Workload
    charge: Charge
    nodes: Sequence[str] = ()
    reserved: bool = False
    # It waits for its own tenant's quota, so the reservation does not affect other tenants.
    own: bool = False


class Side:
    """Quota and room at one time."""

    def __init__(self, account: QuotaAccount, board: Board) -> None:
        self.account = account
        self.board = board
        # Workloads that found no room; valid until room comes free.
        self._full: set[Where] = set()

    def mark(self) -> Mark:
        """The present state, for `undo`."""
        full = self._full
        self._full = set(full) if len(full) < _MOST_NOTES_COPIED else set()
        return self.account.mark(), self.board.mark(), full

    def undo(self, mark: Mark) -> None:
        """Restore the state at the mark."""
        self.account.undo(mark[0])
        self.board.undo(mark[1])
        self._full = mark[2]

    def hold(self, held: Held) -> None:
        """Count a pod's quota and room as held."""
        if held.charge:
            self.account.add(held.pod.tenant, held.charge)
        if held.node:
            self.board.hold(held.node, held.pod.asks)

    def free(self, held: Held) -> None:
        """Count a pod's quota and room as free."""
        if held.charge:
            self.account.add(held.pod.tenant, held.charge, -1)
        if held.node:
            self.board.release(held.node, held.pod.asks)
            self._full = set()

    def do(self, done: Done, times: int = 1) -> None:
        """Count what a workload was given, or what is reserved for it; with `times` of -1, no longer."""
        tenant = done.workload.tenant
        if done.reserved:
            self.account.reserve(tenant, done.charge, times, own=done.own)
        else:
            self.account.add(tenant, done.charge, times)
        change = self.board.hold if times > 0 else self.board.release
        for pod, node in zip(done.workload.pods if done.nodes else (), done.nodes, strict=True):
            change(node, pod.asks)
        if times < 0:
            self._full = set()

    def place(self, workload: Workload, choice: Choice) -> tuple[str, ...] | None:
        """A node for each of its pods; None if not all of them find room."""
        # If a shape fits nowhere, that holds for all tenants; a tenant with nodes to avoid has an entry of its own.
        avoids = workload.tenant if self.board.avoids(workload.tenant) else ""
        where = (workload.shape, choice.name, workload.topology, avoids)
        if where in self._full and not workload.is_rest:
            return None
        found = self.board.place(workload.pods, choice.flavor, workload.topology)
        if found is None and not workload.is_rest:
            self._full.add(where)
        return found


def is_of_the_host(pod: Pod) -> bool:
    """Whether a pod belongs to the host and has no known end: no tenant can ever use its room."""
    return not pod.tenant and bool(pod.node) and not pod.ending and pod.ends_by is None


class Books:
    """Quota and room of one snapshot."""

    def __init__(self, snapshot: Snapshot, now: float = _NO_MATTER_WHEN) -> None:
        self._snapshot = snapshot
        self._now = now
        # Pods of the host: DaemonSets, planes, and whatever else admins run. The ledger neither ends them nor knows their end.
        self._staying = tuple(pod for pod in snapshot.pods if is_of_the_host(pod))
        self.flavors = Flavors(snapshot)
        self.now = self._blank()
        self.held: dict[str, Held] = {}
        self._coming: set[str] = set()
        # Pods past their deadline: they still hold devices, but no workload waits for them and no reclaim selects them again.
        self._stuck: set[str] = set()
        # By tenant and line, what the pods in `_coming` will give back.
        self._returning: dict[str, Counter[Line]] = {}
        self._later: Side | None = None
        self._bare: Board | None = None
        self._ever: dict[Where, bool] = {}
        # Changes to `now` since the snapshot, to be repeated on a `later` that is computed afterwards.
        self._since: list[tuple[Done, int]] = []
        self._open(snapshot.pods)

    def _blank(self) -> Side:
        """A side without pods. Claims are counted, as the flavor that their tenant prefers; they are never reclaimed."""
        account = QuotaAccount(self._snapshot.tenants)
        for claim in self._snapshot.claims:
            account.add(claim.tenant, account.charge(claim.tenant, claim.asks, self.flavors.best(claim.tenant, claim.asks)))
        return Side(account, Board(self._snapshot.nodes, self._snapshot.avoid, self._staying))

    def _open(self, pods: Iterable[Pod]) -> None:
        """Count what pods hold; then find a likely node for pods that the scheduler still has to place."""
        homeless = []
        lost = {node.name for node in self._snapshot.nodes if node.lost}
        for pod in pods:
            if pod.stage in GATED:
                continue
            node = pod.node or pod.pinned
            held = self.held[pod.uid] = Held(pod, node, self._charge_of(pod))
            if not is_of_the_host(pod):
                self.now.hold(held)
            if not node and not pod.ending:
                homeless.append(held)
            # On a lost node no pod ends: no workload may wait for it.
            if pod.ending and self.is_overdue(pod):
                self._stuck.add(pod.uid)
            elif (self._ends_soon(pod) and node not in lost) or pod.reclaim_by is not None:
                self._comes(held)
        for held in sorted(homeless, key=lambda held: age(held.pod)):
            self._settle(held)

    def is_overdue(self, pod: Pod) -> bool:
        """Whether it still exists `OVERDUE_SECONDS` after it should have ended."""
        return pod.ends_by is not None and pod.ends_by + OVERDUE_SECONDS < self._now < _NO_MATTER_WHEN

    def _ends_soon(self, pod: Pod) -> bool:
        """Whether a pod that is being deleted is gone no later than a reclaimed one would be; its tenant chose the grace."""
        if not pod.ending or pod.ends_at is None:
            return pod.ending
        return pod.ends_at <= self._now + self._snapshot.rules_for(pod.tenant).reclaim_within + LAST_GRACE_SECONDS

    def _settle(self, held: Held) -> None:
        flavor = next(
            (
                choice.flavor
                for choice in self.flavors.choices(held.pod.tenant, held.pod.asks)
                if choice.name == held.pod.flavor
            ),
            None,
        )
        found = self.now.board.place((held.pod,), flavor)
        if found is not None:
            self.now.board.hold(found[0], held.pod.asks)
            self.held[held.pod.uid] = Held(held.pod, found[0], held.charge)

    def _charge_of(self, pod: Pod) -> Charge:
        return self.now.account.charge(pod.tenant, pod.asks, self.flavors.used(pod)) if pod.tenant else {}

    @property
    def later(self) -> Side:
        """Quota and room once all pods on their way out are gone."""
        if self._later is None:
            side = self._later = self._blank()
            for uid, held in self.held.items():
                if uid not in self._coming and not is_of_the_host(held.pod):
                    side.hold(held)
            for done, times in self._since:
                side.do(done, times)
        return self._later

    def is_coming(self, pod: Pod) -> bool:
        """Whether a pod is on its way out, so that what it holds becomes free."""
        return pod.uid in self._coming

    @property
    def is_any_coming(self) -> bool:
        """Whether any pod is on its way out."""
        return bool(self._coming)

    @property
    def coming(self) -> list[Held]:
        """The pods on their way out, with what they hold."""
        return [self.held[uid] for uid in sorted(self._coming)]

    def comes(self, group: Group) -> None:
        """Count these pods as on their way out."""
        for pod in group.pods:
            if pod.uid not in self._coming and pod.uid not in self._stuck:
                if self._later is not None:
                    self._later.free(self.held[pod.uid])
                self._comes(self.held[pod.uid])

    def _comes(self, held: Held) -> None:
        self._coming.add(held.pod.uid)
        self._returning.setdefault(held.pod.tenant, Counter()).update(held.charge)

    def excess(self, tenant: str) -> dict[Line, int]:
        """How much a tenant will hold beyond its ceiling, by line: the numbers of `later`, without computing `later`."""
        back: Charge = self._returning.get(tenant, {})
        return {line: entry.used - entry.ceiling - back.get(line, 0) for line, entry in self.now.account.lines(tenant)}

    def staying(self, group: Group) -> list[Held]:
        """The pods of a group that are not on their way out and could be reclaimed, with what they hold."""
        return [self.held[pod.uid] for pod in group.pods if pod.uid not in self._coming and pod.uid not in self._stuck]

    def could_ever(self, workload: Workload, choice: Choice, beside: Iterable[Pod] = ()) -> bool:
        """Whether there would be room if the usable nodes were empty, except for pods of the host and those in `beside`.

        Avoided nodes count, since they are avoided only for a while.
        """
        where = (workload.shape, choice.name, workload.topology, "")
        # The rest of a gang must join the others, so the answer is not the same for all workloads of its shape.
        found = None if workload.is_rest else self._ever.get(where)
        if found is None:
            if self._bare is None:
                self._bare = Board(self._snapshot.nodes, staying=self._staying)
            mark = self._bare.mark()
            for pod in beside:
                self._bare.hold(pod.node or pod.pinned, pod.asks)
            found = self._bare.place(workload.pods, choice.flavor, workload.topology) is not None
            self._bare.undo(mark)
            if not workload.is_rest:
                self._ever[where] = found
        return found

    def charge(self, workload: Workload, choice: Choice) -> Charge:
        """What a workload would be charged."""
        return self.now.account.charge(workload.tenant, workload.asks, choice.of)

    def do(self, done: Done, times: int = 1) -> None:
        """Count what a workload was given or what is reserved for it, now and later; with `times` of -1, no longer."""
        self._since.append((done, times))
        self.now.do(done, times)
        if self._later is not None:
            self._later.do(done, times)
