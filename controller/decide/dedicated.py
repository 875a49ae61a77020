"""Which nodes of the host are dedicated to a tenant: from nodes and claims to marks, and to each tenant's report. Pure.

A claim is a Tenant with `nodes.dedicated`; its pool is what its selector matches. A node of the pool gets one key twice:

    taint bulkhead.dev/tenant=<tenant>:NoSchedule   from the moment that it is allotted: no more pods of others are bound
    label bulkhead.dev/tenant=<tenant>              once no pod of another tenant runs there or will: its own pods select it

So a tenant's nodes are dedicated from its first pod on, and pods that were there before drain off. The marks on the nodes are
the only memory: a node stays with its tenant while that tenant claims it, and is released when it does not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bulkhead.api import labels
from bulkhead.api.accelerators import count
from bulkhead.api.claimnotes import BIND_COMPLETED, SELECTED_NODE
from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from controller.refusal import Refusal

KEY: Final = labels.TENANT
EFFECT: Final = "NoSchedule"
_MAX_NAMED: Final = 3
# A scheduler waits for ten minutes by default (`bindTimeoutSeconds` of its plugin VolumeBinding).
_LONGEST_BINDING_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True)
class HostNode:
    """The relevant parts of a host node."""

    name: str
    version: str
    labels: Mapping[str, str]
    taints: tuple[Obj, ...] = ()
    allocatable: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tainted_for(self) -> str | None:
        """The tenant in its taint."""
        return next((str(taint.get("value") or "") for taint in self.taints if taint.get("key") == KEY), None)

    @property
    def labelled_for(self) -> str | None:
        """The tenant in its label."""
        return self.labels.get(KEY)

    @property
    def holder(self) -> str | None:
        """The tenant that holds the node by its marks."""
        return self.tainted_for if self.tainted_for is not None else self.labelled_for

    @property
    def marked_well(self) -> bool:
        """Whether the node has exactly one taint with the key, and with the right effect."""
        return [taint.get("effect") for taint in self.taints if taint.get("key") == KEY] == [EFFECT]


@dataclass(frozen=True, slots=True)
class Claim:
    """What the allotment of nodes must know about a tenant."""

    tenant: str
    since: str
    # False: the tenant must not change now, because it is refused, paused or being deleted. What it has stays.
    active: bool = True
    selector: Mapping[str, str] = field(default_factory=dict)
    most: int | None = None
    gpu_resources: tuple[str, ...] = ()

    def wants(self, node: HostNode) -> bool:
        """Whether a node belongs to the claimed pool; a claim without a selector has none."""
        return bool(self.active and self.selector) and all(
            node.labels.get(key) == value for key, value in self.selector.items()
        )


@dataclass(frozen=True, slots=True)
class Allotment:
    """The tenant to which each node is allotted, and the refused tenants."""

    owners: Mapping[str, str]
    refused: Mapping[str, Refusal]


@dataclass(frozen=True, slots=True)
class Mark:
    """A node whose marks must change."""

    node: HostNode
    taint: str | None
    label: str | None

    def patch(self) -> Obj:
        """The merge patch. It is valid only for the node as it was read, because it contains all its taints."""
        others = [taint for taint in self.node.taints if taint.get("key") != KEY]
        own = [{"key": KEY, "value": self.taint, "effect": EFFECT}] if self.taint is not None else []
        meta = {"resourceVersion": self.node.version, "labels": {KEY: self.label}}
        return {"metadata": meta, "spec": {"taints": [*others, *own] or None}}


@dataclass(frozen=True, slots=True)
class Finding:
    """The report to a tenant with a claim."""

    refusing: Refusal | None = None
    nodes: tuple[str, ...] = ()
    gpus: int = 0
    # Nodes for which it waits, and how many pods of which tenants run there.
    waits: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    selector: str = ""

    @property
    def complete(self) -> bool:
        """Whether the whole pool is dedicated to the tenant."""
        return bool(self.nodes) and not self.waits

    def message(self) -> str:
        """The finding as text."""
        if not self.nodes and not self.waits:
            return f"no node of the host has the labels {self.selector}"
        have = f"{len(self.nodes)} nodes with {self.gpus} GPUs are dedicated to this tenant"
        if not self.waits:
            return have
        return f"{have}; waiting for pods of other tenants to end: {_some([_there(name, pods) for name, pods in self.waits])}"


Running: TypeAlias = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Coming:
    """Pods that have chosen a node and wait there for a volume: the scheduler binds them once it is made, whatever the taint.

    since: when each of their claims was first seen, by UID. chosen: node, tenant and number of claims.
    """

    since: Mapping[str, float]
    chosen: Mapping[tuple[str, str], int]

    def to(self, node: str, owner: str) -> Counter[str]:
        """How many of other tenants than its owner come to a node, by tenant."""
        return Counter({tenant: number for (name, tenant), number in self.chosen.items() if name == node and tenant != owner})


def coming(claims: Iterable[Obj], known: Mapping[str, float], now: float) -> Coming:
    """The pods that have chosen a node, from the metadata of tenants' claims. `known`: since when each claim is known.

    One whose volume is not made for longer than the scheduler waits no longer counts: its pod is judged again, and then
    by the taint.
    """
    since: dict[str, float] = {}
    chosen: Counter[tuple[str, str]] = Counter()
    for claim in claims:
        meta = mapping(claim.get("metadata"))
        notes, uid = mapping(meta.get("annotations")), text(meta.get("uid"))
        node = text(notes.get(SELECTED_NODE))
        if not node or notes.get(BIND_COMPLETED) == "yes":
            continue
        since[uid] = known.get(uid, now)
        if now - since[uid] <= _LONGEST_BINDING_SECONDS:
            chosen[node, text(mapping(meta.get("labels")).get(KEY))] += 1
    return Coming(since, chosen)


def allot(nodes: Sequence[HostNode], claims: Iterable[Claim]) -> Allotment:
    """Allot each node to its holder while that claims it, else to the oldest claim. A tenant that loses one gets no new one."""
    known = {claim.tenant: claim for claim in sorted(claims, key=lambda one: (one.since, one.tenant))}
    owners: dict[str, str] = {}
    lost: dict[str, list[tuple[str, str]]] = {}
    sizes: dict[str, int] = {}
    for node in nodes:
        wanted = [claim.tenant for claim in known.values() if claim.wants(node)]
        holder = known.get(node.holder or "")
        stays = holder is not None and (not holder.active or holder.tenant in wanted)
        first = holder.tenant if holder is not None and stays else wanted[0] if wanted else None
        for tenant in wanted:
            sizes[tenant] = sizes.get(tenant, 0) + 1
            if first is not None and tenant != first:
                lost.setdefault(tenant, []).append((node.name, first))
        if first is not None:
            owners[node.name] = first
    refused = {tenant: _taken(found) for tenant, found in lost.items()}
    for tenant, size in sizes.items():
        most = known[tenant].most
        if tenant not in refused and most is not None and size > most:
            text = f"spec.nodes.dedicated: {size} nodes have the labels {_labels(known[tenant])}, more than the {most}"
            refused[tenant] = Refusal(
                Reason.OUT_OF_BOUNDS, f"{text} that the class allows (nodes.maxDedicated); narrow spec.nodes.selector"
            )
    holders = {node.name: node.holder for node in nodes}
    return Allotment({name: one for name, one in owners.items() if one not in refused or holders[name] == one}, refused)


def settled(
    nodes: Sequence[HostNode], claims: Iterable[Claim], before: Mapping[str, Claim | None]
) -> tuple[tuple[Claim, ...], Allotment, Mapping[str, Refusal]]:
    """The claims that hold, the tenant of each node under them, and the refused edits.

    A refused claim is an edit that is not applied if the tenant's claim of `before` is known (None: it had none). That claim
    holds instead, so that a tenant which requests nodes of others keeps those that it has.
    """
    holding = tuple(claims)
    refused: dict[str, Refusal] = {}
    while True:
        allotment = allot(nodes, holding)
        again = {name: refusal for name, refusal in allotment.refused.items() if name in before and name not in refused}
        if not again:
            return holding, allotment, refused
        refused |= again
        kept = ((before[claim.tenant] if claim.tenant in again else claim) for claim in holding)
        holding = tuple(claim for claim in kept if claim is not None)


def to_be_emptied(nodes: Iterable[HostNode], allotment: Allotment) -> tuple[tuple[str, str], ...]:
    """The nodes with the taint and without the label, on which pods of other tenants may still run."""
    owners = allotment.owners
    return tuple(
        (node.name, owners[node.name])
        for node in nodes
        if node.name in owners and node.tainted_for == owners[node.name] != node.labelled_for
    )


def marks(nodes: Iterable[HostNode], allotment: Allotment, running: Running) -> tuple[Mark, ...]:
    """The nodes whose marks must change; `running` are pods of other tenants on the nodes that were looked at."""
    found = []
    for node in nodes:
        owner = allotment.owners.get(node.name)
        empty = node.tainted_for == owner and running.get(node.name) == {}
        label = owner if owner is not None and (node.labelled_for == owner or empty) else None
        well = node.tainted_for is None if owner is None else node.tainted_for == owner and node.marked_well
        if not well or node.labelled_for != label:
            found.append(Mark(node, owner, label))
    return tuple(found)


def findings(
    nodes: Sequence[HostNode], claims: Iterable[Claim], allotment: Allotment, running: Running
) -> Mapping[str, Finding]:
    """The report to each tenant with an active claim."""
    found = {}
    for claim in claims:
        if not claim.active or not claim.selector:
            continue
        allotted = [node for node in nodes if allotment.owners.get(node.name) == claim.tenant]
        own = [node for node in allotted if node.labelled_for == claim.tenant]
        waits = {node.name: running.get(node.name, {}) for node in allotted if node.labelled_for != claim.tenant}
        found[claim.tenant] = Finding(
            refusing=allotment.refused.get(claim.tenant),
            nodes=tuple(sorted(node.name for node in own)),
            gpus=sum(count(node.allocatable.get(resource)) for node in own for resource in claim.gpu_resources),
            waits=tuple((name, tuple(sorted(waits[name].items()))) for name in sorted(waits)),
            selector=_labels(claim),
        )
    return found


def _taken(lost: Sequence[tuple[str, str]]) -> Refusal:
    others = sorted({tenant for _, tenant in lost})
    nodes = _some(sorted({name for name, _ in lost}))
    text = f"spec.nodes.dedicated: the pool overlaps that of tenant {', '.join(others[:_MAX_NAMED])} in {nodes}"
    return Refusal(Reason.NODES_TAKEN, f"{text}; choose another spec.nodes.selector")


def _labels(claim: Claim) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(claim.selector.items()))


def _there(node: str, pods: Sequence[tuple[str, int]]) -> str:
    return f"{node} ({', '.join(f'{number} of tenant {tenant}' for tenant, number in pods[:_MAX_NAMED])})" if pods else node


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more
