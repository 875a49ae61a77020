"""A small cluster under the ledger: tenants, nodes and pods that live in memory, a shell that may stop after any write.

    rules of the machine ──> World ──> Snapshot ──> decide ──> writes, one by one ──> World
                                └──> what the oracle asks after every write, and once all is at rest

The shell writes as the real one does: marks all pods of a group before the first one goes, takes a gate away with the note of
when and where in one write. Kubelets, a scheduler and syncers are played by `step`. Time is a number.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from bulkhead.ledger.books import OVERDUE_SECONDS
from bulkhead.ledger.decide import decide
from bulkhead.ledger.gangs import as_admitted
from bulkhead.ledger.model import (
    Cause,
    Decisions,
    Gang,
    Line,
    Moved,
    Needs,
    Node,
    Pod,
    Rules,
    Share,
    Snapshot,
    Stage,
    Taint,
    Tenant,
    Topology,
)

GPU = "nvidia.com/gpu"
RACK = "bulkhead.dev/rack"
KIND = "gpu-kind"
GRACE = 5.0
COHORT = "research"
# What the API server gives a pod that does not say how long it takes to end.
USUAL_GRACE = 30.0
# What the host puts on a node that it hears nothing of.
UNREACHABLE = tuple(Taint("node.kubernetes.io/unreachable", "", effect) for effect in ("NoSchedule", "NoExecute"))
# So long the place of a pod that was moved is kept once it is gone.
KEPT = 60.0


@dataclass
class World:
    """Tenants, nodes and pods of a small cluster in memory, with the shell that carries out what the ledger decides."""

    tenants: dict[str, Tenant] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    pods: dict[str, Pod] = field(default_factory=dict)
    now: float = 1000.0
    serial: int = 0
    # Pods that a disruption budget protects: they go at the deadline alone.
    stubborn: set[str] = field(default_factory=set)
    # Gangs of which a pod ended or was restarted: they may lack one for as long as it takes.
    restarted: set[str] = field(default_factory=set)
    # Gangs with more pods than they say.
    larger: set[str] = field(default_factory=set)
    ended_at: dict[str, float] = field(default_factory=dict)
    # Which tenant took from which, and on which kind of node, since the last change that was not the ledger's.
    taken: set[tuple[str, str, str]] = field(default_factory=set)
    after_write: Callable[["World", str, Pod], None] = lambda world, what, pod: None
    before_writes: Callable[["World", Decisions], None] = lambda world, decisions: None
    # What the shell remembers: by UID who was moved where.
    moved: dict[str, Moved] = field(default_factory=dict)
    # Names of what was moved since something else happened.
    moves: list[str] = field(default_factory=list)
    # And since when room is kept without a forecast, and what is avoided.
    kept: dict[str, float] = field(default_factory=dict)
    avoid: dict[tuple[str, Needs], frozenset[str]] = field(default_factory=dict)
    # Nodes whose kubelets are silent: a pod there neither ends nor goes, whatever is asked of it.
    silent: set[str] = field(default_factory=set)

    def snapshot(self) -> Snapshot:
        """What the ledger sees."""
        for uid, each in list(self.moved.items()):
            until = self.now + KEPT if each.until is None and uid not in self.pods else each.until
            self.moved[uid] = replace(each, until=until)
            if until is not None and until <= self.now:
                del self.moved[uid]
        pods, moved = tuple(self.pods.values()), tuple(self.moved.values())
        nodes, kept = tuple(self.nodes.values()), dict(self.kept)
        return Snapshot(dict(self.tenants), nodes, pods, {COHORT: self.rules}, self.avoid, moved=moved, kept_since=kept)

    def happens(self) -> None:
        """Something happened that is not the ledger's doing."""
        self.taken.clear()
        self.moves.clear()

    def create(self, tenant: str, gpus: int, pods: int = 1, size: int = 0, **more: object) -> str:
        """A single pod, or pods of a new gang; returns the name."""
        self.serial += 1
        name = f"w{self.serial}"
        topology = more.pop("topology", None)
        assert topology is None or isinstance(topology, Topology)
        if size and pods > size:
            self.larger.add(name)
        gang = Gang(name, size or pods, topology) if pods > 1 or size else None
        for _ in range(pods):
            self.add(tenant, name, gpus, gang, **more)
        self.happens()
        return name

    def add(self, tenant: str, name: str, gpus: int, gang: Gang | None = None, **more: object) -> Pod:
        """One pod that waits."""
        self.serial += 1
        pod = Pod(
            uid=f"u{self.serial:05}",
            namespace=f"bh-{tenant}-work",
            name=f"{name}-{self.serial}",
            asks={GPU: gpus, "cpu": 1000},
            stage=Stage.WAITING,
            created=self.now,
            tenant=tenant,
            virtual_namespace="default",
            virtual_name=name,
            gang=gang,
        )
        pod = replace(pod, **more)  # type: ignore[arg-type]
        self.pods[pod.uid] = pod
        return pod

    def decide(self) -> Decisions:
        """What the ledger would do now."""
        return decide(self.snapshot(), self.now)

    def apply(self, decisions: Decisions, writes: int | None = None) -> bool:
        """Write; after so many writes the shell dies. Whether all was written."""
        self.before_writes(self, decisions)
        self.kept = {uid: self.kept.get(uid, self.now) for uid in decisions.keeps}
        for number, write in enumerate(self.writes(decisions)):
            if number == writes:
                self.moved.clear()
                self.moves.clear()
                self.kept.clear()
                return False
            what, pod = write()
            self.after_write(self, what, pod)
        return True

    def writes(self, decisions: Decisions) -> Iterator[Callable[[], tuple[str, Pod]]]:
        """Every single write, in the order of the shell."""
        for each in decisions.reclaim:
            if each.cause in {Cause.BORROWED, Cause.FAIRNESS} and each.beneficiary:
                self.taken.add((each.beneficiary, each.pod.tenant, self.kind(each.pod)))
            if each.cause is Cause.MOVED:
                self.moved[each.pod.uid] = Moved(each.pod, each.to, self.now)
                self.moves.append(each.pod.virtual_name)
            else:
                self.moves.clear()
            yield lambda each=each: self._set("mark", each.pod, reclaim_by=each.deadline, reclaim_cause=each.cause.value)  # type: ignore[misc]
        for each in decisions.reclaim:
            if each.pod.uid not in self.stubborn or each.cause is Cause.ROLLBACK:
                yield lambda each=each: self._set("evict", each.pod, ending=True)  # type: ignore[misc]
        for admission in decisions.admit:
            self.moved.pop(admission.instead, None)
            yield lambda admission=admission: self._set(  # type: ignore[misc]
                "admit",
                admission.pod,
                stage=Stage.ADMITTED,
                admitted=self.now,
                admitted_gang=as_admitted(admission).admitted_gang,
                shape=as_admitted(admission).shape,
                alone=as_admitted(admission).alone,
                flavor=admission.flavor,
                pinned=admission.node if admission.pod.plain else "",
            )

    def _set(self, what: str, pod: Pod, **changes: object) -> tuple[str, Pod]:
        found = self.pods.get(pod.uid)
        if found is None:
            return "gone", pod
        made = replace(found, **changes)  # type: ignore[arg-type]
        self.pods[pod.uid] = made
        if made.ending:
            self.ended_at.setdefault(pod.uid, self.now + GRACE)
        return what, made

    def step(self, seconds: float) -> None:
        """Time passes, and all actors except the ledger do what is due."""
        self.now += seconds
        for pod in list(self.pods.values()):
            if pod.reclaim_by is not None and not pod.ending and (pod.uid not in self.stubborn or pod.reclaim_by <= self.now):
                self._set("evict", pod, ending=True)
            elif pod.reclaim_by is not None and pod.ending and pod.reclaim_by <= self.now:
                # Whatever grace its tenant gave it: at the deadline it is deleted with little of it.
                self.ended_at[pod.uid] = min(self.ended_at[pod.uid], pod.reclaim_by + GRACE)
        for uid, at in list(self.ended_at.items()):
            if at <= self.now and not self._is_silent(uid):
                self._forget(uid)
        for pod in list(self.pods.values()):
            if self._is_silent(pod.uid):
                if pod.ending and pod.ends_at is None:
                    self.pods[pod.uid] = replace(pod, ends_at=self.now + USUAL_GRACE, ends_by=self.now + USUAL_GRACE)
            elif pod.ends_by is not None and pod.ends_by <= self.now:
                self.pods.pop(pod.uid)
                self.happens()
        for pod in sorted(self.pods.values(), key=lambda each: each.uid):
            if pod.stage is Stage.ADMITTED and not pod.ending:
                self._bind(pod)

    def _forget(self, uid: str) -> None:
        """A pod is gone; the syncer makes another one, if it went because it was taken back."""
        self.ended_at.pop(uid)
        pod = self.pods.pop(uid, None)
        if pod is not None and pod.reclaim_cause == Cause.MOVED and not pod.maker:
            return
        if pod is not None and pod.reclaim_by is not None:
            self.serial += 1
            made = Pod(
                uid=f"u{self.serial:05}",
                namespace=pod.namespace,
                name=pod.name,
                asks=pod.asks,
                stage=Stage.WAITING,
                created=self.now,
                tenant=pod.tenant,
                virtual_namespace=pod.virtual_namespace,
                virtual_name=pod.virtual_name,
                priority=pod.priority,
                own_priority=pod.own_priority,
                gang=pod.gang,
                plain=pod.plain,
                maker=pod.maker,
                lasts=pod.lasts,
            )
            self.pods[made.uid] = made

    def _bind(self, pod: Pod) -> None:
        """As the host's scheduler does: pins and flavors hold, and no pod is bound to room that others use."""
        for node in sorted(self.nodes.values(), key=lambda each: each.name):
            there = (each for each in self.pods.values() if node.name in {each.node, each.pinned} and each.uid != pod.uid)
            free = node.allocatable[GPU] - sum(each.asks[GPU] for each in there)
            may = pod.pinned in {"", node.name} and (not pod.asks[GPU] or pod.flavor in {"", node.labels.get(KIND)})
            if may and node.usable and pod.asks[GPU] <= free:
                ends = None if pod.lasts is None else self.now + pod.lasts
                self.pods[pod.uid] = replace(pod, stage=Stage.BOUND, node=node.name, ends_by=ends)
                return

    def silence(self, node: str, *, noticed: bool = True) -> None:
        """A kubelet stops reporting; once the host notices, the node is not ready and is tainted."""
        self.silent.add(node)
        if noticed and node in self.nodes:
            self.nodes[node] = replace(self.nodes[node], usable=False, lost=True, taints=UNREACHABLE)
        self.happens()

    def speak(self, node: Node) -> None:
        """A kubelet reports again: its pods run on, and those that had to end do so."""
        self.silent.discard(node.name)
        self.nodes[node.name] = replace(node, usable=True, lost=False, taints=())
        self.happens()

    def _is_silent(self, uid: str) -> bool:
        return uid in self.pods and self.pods[uid].node in self.silent

    def is_stuck(self, pod: Pod) -> bool:
        """Whether it had to end a while ago, and its node is silent: it stays until the node speaks or the host forgets it."""
        overdue = pod.ends_by is not None and pod.ends_by + OVERDUE_SECONDS < self.now
        return pod.ending and overdue and pod.node in self.silent

    def delete(self, pod: Pod, grace: float) -> None:
        """Its tenant deletes it, and gives it so long to end."""
        self.pods[pod.uid] = replace(pod, ending=True, ends_at=self.now + grace, ends_by=self.now + grace)
        self.ended_at[pod.uid] = self.now + grace
        self.happens()

    def end(self, pod: Pod) -> None:
        """A pod ends by itself and is deleted."""
        self.pods.pop(pod.uid, None)
        self.ended_at.pop(pod.uid, None)
        self.happens()

    def settle(self, rounds: int = 400) -> Decisions:
        """Decide and write until nothing is left to do; asserts that this comes."""
        for _ in range(rounds):
            decisions = self.decide()
            self.apply(decisions)
            self._note_over(decisions)
            if self._is_quiet(decisions):
                return decisions
            times = [at - self.now for at in (decisions.next_at, *self._ends()) if at is not None and at > self.now]
            self.step(max(0.001, min([10.0, *times]) if self._is_busy() else min([3600.0, *times])))
        raise AssertionError(f"it does not come to rest: {decisions.reclaim} {decisions.admit}")

    def _ends(self) -> Iterator[float]:
        return (pod.ends_by for pod in self.pods.values() if pod.ends_by is not None)

    def _is_busy(self) -> bool:
        there = [pod for pod in self.pods.values() if not self.is_stuck(pod)]
        return any(pod.ending or pod.reclaim_by is not None or pod.stage is Stage.ADMITTED for pod in there)

    def _is_quiet(self, decisions: Decisions) -> bool:
        unbound = any(pod.stage is Stage.ADMITTED and pod.pinned for pod in self.pods.values())
        there = [pod for pod in self.pods.values() if not self.is_stuck(pod)]
        leaving = any(pod.ending or pod.reclaim_by is not None for pod in there)
        return not (decisions.admit or decisions.reclaim or decisions.next_at is not None or unbound or leaving)

    def _note_over(self, decisions: Decisions) -> None:
        """As the shell notes since when a tenant holds more than its ceiling."""
        for name, lines in decisions.standings.items():
            over = [line for line, each in lines.items() if each.used > each.ceiling and self.rules.over_quota == "Reclaim"]
            since = self.tenants[name].over_since
            wanted = {line: since.get(line, self.now) for line in over}
            if wanted != since:
                self.tenants[name] = replace(self.tenants[name], over_since=wanted)

    # What the oracle counts by itself.

    def held(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.stage in {Stage.ADMITTED, Stage.BOUND}]

    def used(self, tenant: str, line: Line) -> int:
        flavor, resource = line
        of_kind = (pod for pod in self.held() if pod.tenant == tenant)
        return sum(pod.asks.get(resource, 0) for pod in of_kind if not flavor or self.kind(pod) == flavor)

    def kind(self, pod: Pod) -> str:
        node = self.nodes.get(pod.node or pod.pinned)
        return node.labels.get(KIND, "") if node else pod.flavor


def nodes(count: int, gpus: int = 8, per_rack: int = 2, kinds: tuple[str, ...] = ()) -> dict[str, Node]:
    """Nodes of one shape, two to a rack."""
    made = {}
    for number in range(count):
        labels = {RACK: f"r{number // per_rack}"} | ({KIND: kinds[number % len(kinds)]} if kinds else {})
        made[f"n{number}"] = Node(f"n{number}", {GPU: gpus, "cpu": 1 << 20, "pods": 110}, labels)
    return made


def tenant(name: str, nominal: int, borrowing: int | None = None, lending: int | None = None, weight: int = 1) -> Tenant:
    """A tenant with one line."""
    return Tenant(name, COHORT, weight, {("", GPU): Share(nominal, borrowing, lending)})
