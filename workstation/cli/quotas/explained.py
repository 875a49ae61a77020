"""All that is known of one host pod: why it waits, or where it runs and until when. Pure.

Snapshot, pod ──> decide: verdict, place in the queue, forecast
              ──> quota: each line that it requests
              ──> gang: which pods exist, how many are missing
              ──> nodes: for each one, the first thing that keeps the pod from it
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bulkhead.ledger.books import Books
from bulkhead.ledger.decide import decide
from bulkhead.ledger.flavors import Choice
from bulkhead.ledger.model import GATED, Line, Needs, Node, Pod, Reclaim, Rules, Snapshot, Standing
from bulkhead.ledger.nodes import Nodes, tolerates
from workstation.cli.quotas.queued import Waiting, waiting
from workstation.cli.quotas.summary import claimed

FITS: Final = "fits now"
_CLOSED: Final = "not ready, or cordoned"
_LABELS: Final = "its selector or affinity names other nodes"
_FLAVOR: Final = "not of a flavor that its tenant has a quota of"


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota line that a pod requests."""

    line: Line
    asks: int
    standing: Standing
    # The part of `used` that the tenant's claims for devices hold.
    claims: int


@dataclass(frozen=True, slots=True)
class Company:
    """The gang of a pod."""

    name: str
    size: int
    topology: str
    pods: tuple[Pod, ...]

    @property
    def missing(self) -> int:
        """The number of pods that the tenant has not created yet, or whose host pods do not exist yet."""
        return max(0, self.size - len(self.pods))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod could run by itself, without its gang."""

    nodes: int
    # Numbers of nodes: by what keeps the pod from them, and how many fit.
    nodes_by_reason: Mapping[str, int]
    # The resource it requests most of: free on the nodes that it may use, in total and on one node at most.
    resource: str
    asks: int
    free: int
    largest: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known of one host pod."""

    pod: Pod
    cohort: str
    quota: tuple[Quota, ...]
    gang: Company | None
    placement: Placement | None
    # Its entry in the queue, and the whole queue of its cohort.
    waits: Waiting | None
    queue: tuple[Waiting, ...]
    # The node on which the ledger would admit it in its next turn.
    next_node: str
    # The reclaim that the ledger would decide in its next turn.
    reclaim: Reclaim | None
    # Until then, no tenant can reclaim what it borrows.
    spared_until: float | None
    rules: Rules


def explain(snapshot: Snapshot, pod: Pod, now: float) -> Explanation:
    """Collect what is known of a tenant's pod."""
    decisions = decide(snapshot, now)
    books = Books(snapshot)
    tenant = snapshot.tenants.get(pod.tenant)
    cohort = tenant.cohort if tenant else ""
    rules = snapshot.rules.get(cohort, Rules())
    queue = tuple(waiting(snapshot, decisions, cohort, pod.tenant))
    gated = pod.stage in GATED
    return Explanation(
        pod,
        cohort,
        quota=_quota(snapshot, books, pod),
        gang=_gang(snapshot, pod),
        placement=_placement(snapshot, books, pod) if gated else None,
        waits=next((waiting for waiting in queue if pod.uid in {member.uid for member in waiting.pods}), None)
        if gated
        else None,
        queue=queue,
        next_node=next((admitted.node for admitted in decisions.admit if admitted.pod.uid == pod.uid), ""),
        reclaim=next((reclaimed for reclaimed in decisions.reclaim if reclaimed.pod.uid == pod.uid), None),
        spared_until=None if pod.admitted is None else pod.admitted + rules.min_runtime,
        rules=rules,
    )


def _quota(snapshot: Snapshot, books: Books, pod: Pod) -> tuple[Quota, ...]:
    gated = pod.stage in GATED
    choices = books.flavors.choices(pod.tenant, pod.asks) if gated else (Choice(of=books.flavors.used(pod)),)
    account = books.now.account
    found = {line: number for choice in choices for line, number in account.charge(pod.tenant, pod.asks, choice.of).items()}
    # Before the next turn, not after it, because the numbers in the verdict describe the present.
    standings = account.standings().get(pod.tenant, {})
    claims = claimed(snapshot, books)
    return tuple(
        Quota(line, number, standings[line], claims[pod.tenant, line]) for line, number in found.items() if line in standings
    )


def _gang(snapshot: Snapshot, pod: Pod) -> Company | None:
    if pod.gang is None:
        return None
    pods = [member for member in snapshot.pods if member.workload == pod.workload]
    size = max(member.gang.size for member in pods if member.gang is not None)
    topology = pod.gang.topology
    domain = "" if topology is None else f"{'required' if topology.required else 'preferred'}: {topology.key}"
    return Company(pod.gang.name, size, domain, tuple(sorted(pods, key=lambda member: member.virtual_name)))


def _placement(snapshot: Snapshot, books: Books, pod: Pod) -> Placement:
    held: dict[str, Counter[str]] = {}
    for each in books.held.values():
        if each.node:
            held.setdefault(each.node, Counter()).update(each.pod.asks)
    choices = books.flavors.choices(pod.tenant, pod.asks)
    open_nodes = [replace(node, usable=True, taints=()) for node in snapshot.nodes]
    labelled = Nodes(open_nodes)
    right = labelled.matching(Needs(pod.needs.selector, pod.needs.terms))
    flavored = 0
    for choice in choices:
        flavored |= labelled.matching(Needs(), choice.flavor)
    resource = _most(pod.asks)
    reasons: Counter[str] = Counter()
    free: list[int] = []
    for at, node in enumerate(snapshot.nodes):
        bit = 1 << at
        used = held.get(node.name, Counter())
        reason = _barred(node, pod, labelled=bool(right & bit), flavored=bool(flavored & bit))
        if not reason:
            free.append(max(0, node.allocatable.get(resource, 0) - used[resource]))
            reason = _short(node, used, pod.asks)
        reasons[reason or FITS] += 1
    return Placement(
        len(snapshot.nodes),
        dict(reasons.most_common()),
        resource,
        pod.asks.get(resource, 0),
        free=sum(free),
        largest=max(free, default=0),
    )


def _barred(node: Node, pod: Pod, *, labelled: bool, flavored: bool) -> str:
    """What keeps a pod from a node regardless of what is free there; empty if nothing does."""
    if not node.usable:
        return _CLOSED
    if not labelled:
        return _LABELS
    for taint in node.taints:
        if not any(tolerates(toleration, taint) for toleration in pod.needs.tolerations):
            return f"taint {taint.key}"
    return "" if flavored else _FLAVOR


def _short(node: Node, used: Mapping[str, int], asks: Mapping[str, int]) -> str:
    """The resource of which the node has too little, as a text; empty if the pod fits."""
    lacking = [name for name, amount in asks.items() if node.allocatable.get(name, 0) - used.get(name, 0) < amount]
    if not lacking:
        return ""
    name = _most({name: asks[name] for name in lacking})
    return f"too little {name} free" if node.allocatable.get(name, 0) >= asks[name] else f"never has so much {name}"


def _most(asks: Mapping[str, int]) -> str:
    """The resource to show first: devices before all others."""
    return min(asks, key=lambda name: ("/" not in name, name), default="")


def ahead(explanation: Explanation) -> Sequence[Waiting]:
    """The state before the pod is considered."""
    place = explanation.waits.place if explanation.waits else None
    return [waiting for waiting in explanation.queue if place and waiting.place and waiting.place < place]
