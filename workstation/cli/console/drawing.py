"""From what was read of a host to the console's picture. Pure; time is passed in.

Observed ──> causes, alarms ──> tenants, those with trouble first
         ──> summary.cohorts ──> bars            ──> topmap.blocks ──> racks with their nodes
         ──> decide ──> the queue in the ledger's order, with reasons and forecasts
    while nodes and pods are being read ──> tenants and bars alone, as the ledger noted them on the quotas
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final, TypeAlias

from bulkhead.api.ledger import line_name, moment
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import unit_of
from bulkhead.api.untrusted import mapping, text
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import GATED, Decisions, Flavor, Line, Node, Snapshot, Standing, Why
from workstation.cli.console.alarms import Closed, Ending, alarms, causes, level_of
from workstation.cli.quotas import queued, topmap
from workstation.cli.quotas.hostview import View
from workstation.cli.quotas.summary import Members, Row, cohorts, is_device, noted_cohorts
from workstation.cli.quotas.topmap import Block
from workstation.cli.tenant.cause import Cause, namespace_of
from workstation.console.picture import (
    MAX_TEXT_CHARS,
    ORDER,
    CohortBars,
    DeviceMap,
    LineBars,
    NodeTile,
    Picture,
    QueueRow,
    QuotaRow,
    RackTile,
    TenantRow,
    marks,
)

MAX_QUEUED: Final = 500
# Nodes without a rack are shown in parts of this size.
_NODES_IN_A_PART: Final = 64
_NUMBERS: Final = re.compile(r"([0-9]{1,9})")
# A flavor without what only the ledger needs, to be compared.
_Bare: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Observed:
    """What was read of a host at one moment."""

    view: View
    source: str = ""
    # Deployments of the controller; None if they could not be read.
    controllers: tuple[Obj, ...] | None = ()
    closed: Mapping[str, Closed] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    # The certificate of each plane that ends first.
    ends: Mapping[str, Ending] = field(default_factory=dict)
    # What is still being read, and what the ledger noted of each tenant until then. Empty once all is read.
    reading: str = ""
    noted: Mapping[str, Mapping[Line, Standing]] = field(default_factory=dict)


def picture_of(seen: Observed, decisions: Decisions | None = None) -> Picture:
    """The whole picture; `decisions` are those of the ledger on this snapshot, if they are known already."""
    snapshot = seen.view.snapshot
    decided = decisions if decisions is not None else decide(snapshot, seen.view.now)
    found = noted_cohorts(snapshot.tenants, seen.noted) if seen.reading else cohorts(snapshot)
    why = causes(seen.view.tenants, seen.controllers)
    # A queue is made of pods that wait, and of gangs: nothing else of thousands of pods is sorted for it.
    asking = replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod.stage in GATED or pod.gang is not None))
    queue = [row for members in found for row in _queue(asking, decided, members)]
    waiting = Counter(row.tenant for row in queue)
    short = {row.cohort for row in queue if row.reason == Why.COHORT}
    letters, by_tenant = marks(seen.view.tenants), _rows(found)
    tenants = [
        _tenant(tenant, why[name], snapshot, by_tenant.get(name, ()), mark=letters[name], waiting=waiting[name])
        for name, tenant in seen.view.tenants.items()
    ]
    return Picture(
        at=moment(seen.view.now),
        source=seen.source,
        alarms=alarms(
            snapshot,
            seen.view.tenants,
            why,
            seen.closed,
            found,
            short=short,
            ends=seen.ends,
            now=seen.view.now,
            namespace=namespace_of(seen.controllers),
        ),
        tenants=tuple(sorted(tenants, key=lambda row: (ORDER[row.level], row.name))),
        cohorts=tuple(_bars(members) for members in found if members.rows),
        queue=tuple(queue[:MAX_QUEUED]),
        queue_left=max(0, len(queue) - MAX_QUEUED),
        maps=tuple(device_map(snapshot, resource, seen.closed) for resource in resources(snapshot)),
        unread=seen.unread,
        reading=seen.reading,
    )


def _rows(found: Iterable[Members]) -> dict[str, list[Row]]:
    """The rows about devices, by tenant."""
    rows: dict[str, list[Row]] = {}
    for members in found:
        for row in members.rows:
            if is_device(row.line):
                rows.setdefault(row.tenant, []).append(row)
    return rows


def _tenant(tenant: Obj, cause: Cause, snapshot: Snapshot, rows: Sequence[Row], *, mark: str, waiting: int) -> TenantRow:
    name = text(mapping(tenant.get("metadata")).get("name"))
    spec, status = mapping(tenant.get("spec")), mapping(tenant.get("status"))
    ledger = snapshot.tenants.get(name)
    return TenantRow(
        name=name,
        mark=mark,
        level=level_of(tenant, cause),
        reason=cause.reason,
        text=cause.what[:MAX_TEXT_CHARS],
        since=cause.since or "",
        cohort=ledger.cohort if ledger else "",
        mode=text(mapping(spec.get("scheduling")).get("mode")),
        version=text(mapping(status.get("versions")).get("kubernetes")),
        used=sum(row.standing.used for row in rows),
        nominal=sum(row.standing.nominal for row in rows),
        borrowed=sum(row.standing.borrowed for row in rows),
        lent=sum(row.standing.lent for row in rows),
        waiting=waiting,
    )


def _bars(members: Members) -> CohortBars:
    lines = []
    for line in members.lines():
        rows = tuple(
            QuotaRow(row.tenant, its.nominal, its.ceiling, its.used, its.borrowed, its.lent, row.waiting)
            for row in members.rows
            if row.line == line and (its := row.standing)
        )
        lines.append(LineBars(line_name(*line), "devices" if is_device(line) else unit_of(line[1]), rows))
    return CohortBars(members.name, tuple(lines))


def _queue(snapshot: Snapshot, decisions: Decisions, members: Members) -> list[QueueRow]:
    # Tenants without a cohort have a queue each.
    alone = ("",) if members.name else members.tenants
    return [
        QueueRow(
            cohort=members.name,
            place=waits.place,
            tenant=waits.first.tenant,
            name=waits.name,
            pods=len(waits.pods),
            asks=queued.devices(waits.asks),
            reason=str(waits.verdict.why),
            text=waits.verdict.message[:MAX_TEXT_CHARS],
            since=moment(waits.since),
            starts_by="" if waits.verdict.starts_by is None else moment(waits.verdict.starts_by),
        )
        for tenant in alone
        for waits in queued.waiting(snapshot, decisions, members.name, tenant)
    ]


def resources(snapshot: Snapshot) -> list[str]:
    """Devices that nodes have, those on the most nodes first."""
    there: Counter[str] = Counter()
    for node in snapshot.nodes:
        there.update(name for name, amount in node.allocatable.items() if amount > 0 and _is_device(name))
    return sorted(there, key=lambda name: (-there[name], name))


def _is_device(resource: str) -> bool:
    domain, slash, _ = resource.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def device_map(snapshot: Snapshot, resource: str, closed: Mapping[str, Closed]) -> DeviceMap:
    """The racks of one resource."""
    flavors = tuple(
        {flavor for rules in snapshot.rules.values() for flavor in map(_bare, rules.flavors) if flavor[1] == resource}
    )
    nodes = {node.name: node for node in snapshot.nodes}
    racks = []
    for rack, grouped in groupby(_by_rack(topmap.blocks(snapshot, resource)), key=lambda block: block.domain[0]):
        tiles = [
            NodeTile(
                name=block.node,
                domain=block.domain[1],
                flavor=_flavor(nodes[block.node], flavors),
                state=block.state,
                capacity=block.capacity,
                held=block.held,
                closed=closed[block.node].why if block.node in closed else "",
            )
            for block in grouped
        ]
        racks += [RackTile(rack, tuple(tiles))] if rack or len(tiles) <= _NODES_IN_A_PART else list(_parts(tiles))
    return DeviceMap(resource, tuple(racks))


def _by_rack(found: Iterable[Block]) -> list[Block]:
    """The blocks by rack, rack-2 before rack-10; those without a rack last."""

    def place(block: Block) -> tuple[bool, list[tuple[int, str]]]:
        parts = _NUMBERS.split(block.domain[0])
        return not block.domain[0], [(int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in parts]

    return sorted(found, key=place)


def _bare(flavor: Flavor) -> _Bare:
    return flavor.name, flavor.resource, tuple(sorted(flavor.node_labels.items()))


def _flavor(node: Node, flavors: Iterable[_Bare]) -> str:
    """The flavors of a node, by its labels."""
    return ", ".join(
        sorted({name for name, _, wanted in flavors if all(node.labels.get(key) == value for key, value in wanted)})
    )


def _parts(tiles: Sequence[NodeTile]) -> Iterable[RackTile]:
    for start in range(0, len(tiles), _NODES_IN_A_PART):
        part = tuple(tiles[start : start + _NODES_IN_A_PART])
        yield RackTile(f"{part[0].name} to {part[-1].name}", part)
