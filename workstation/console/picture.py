"""What the console shows of a host at one moment: frozen data, in base units, with text as it was found. Pure.

Text comes from tenants too: it is bounded here and never trusted. The page puts it in as text, never as markup.

    Picture ─┬─ alarms    what is wrong, the worst first, with the command to type next
             ├─ tenants   a row each, those with trouble first
             ├─ cohorts   for each line and tenant: nominal, used, borrowed, lent, waiting
             ├─ queue     the workloads that wait, in the ledger's order
             └─ maps      for each resource its racks, and in them the nodes

`as_json` writes short keys and leaves empty values out: a map of 5,000 nodes stays below 1 MiB.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

# A name of Kubernetes has at most 253 characters.
MAX_NAME_CHARS: Final = 253
MAX_TEXT_CHARS: Final = 2000
# With more nodes than this, the live page gets the nodes of a rack when the user opens it.
MAX_NODES_AT_ONCE: Final = 512


class Level(StrEnum):
    """How bad a thing is."""

    BAD = "bad"
    WARN = "warn"
    OK = "ok"


ORDER: Final[Mapping[Level, int]] = {Level.BAD: 0, Level.WARN: 1, Level.OK: 2}


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that is wrong."""

    level: Level
    # Of what kind the subject is: tenant, cohort, node, controller.
    kind: str
    subject: str
    reason: str
    text: str
    # RFC 3339; empty if it is unknown.
    since: str = ""
    # What to type next.
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One tenant."""

    name: str
    # One or two letters that no other tenant has.
    mark: str
    level: Level
    reason: str
    text: str
    since: str = ""
    cohort: str = ""
    mode: str = ""
    version: str = ""
    # Devices of all kinds that its pods hold and that it may hold at any time.
    used: int = 0
    nominal: int = 0
    borrowed: int = 0
    lent: int = 0
    # Workloads that wait.
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A tenant's numbers for one line, in base units."""

    tenant: str
    nominal: int
    ceiling: int
    used: int
    borrowed: int
    lent: int
    waiting: int


@dataclass(frozen=True, slots=True)
class LineBars:
    """One line of a cohort: a flavor of a resource."""

    name: str
    unit: str
    rows: tuple[QuotaRow, ...]


@dataclass(frozen=True, slots=True)
class CohortBars:
    """A cohort; with an empty name, the tenants without one."""

    name: str
    lines: tuple[LineBars, ...]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A workload that waits."""

    cohort: str
    # None if no room would help it.
    place: int | None
    tenant: str
    name: str
    pods: int
    asks: str
    reason: str
    text: str
    since: str
    # When it starts at the latest; empty if that is unknown.
    starts_by: str = ""


@dataclass(frozen=True, slots=True)
class NodeTile:
    """One node, for one resource. The host's API does not tell which of its devices a pod has, so they are counted."""

    name: str
    domain: str
    flavor: str
    # whole, partial, full or closed, as `bulkhead top` names them.
    state: str
    capacity: int
    # Devices by tenant; "" for pods that do not belong to one.
    held: tuple[tuple[str, int], ...]
    # Why it takes no pods; empty if it does.
    closed: str = ""

    @property
    def free(self) -> int:
        """The devices that are not in use."""
        return max(0, self.capacity - sum(amount for _, amount in self.held))


@dataclass(frozen=True, slots=True)
class RackTile:
    """The nodes of a rack, or a part of those that have no rack."""

    name: str
    nodes: tuple[NodeTile, ...]


@dataclass(frozen=True, slots=True)
class DeviceMap:
    """The nodes that have one resource."""

    resource: str
    racks: tuple[RackTile, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it."""

    # RFC 3339.
    at: str
    # Which cluster: the context of the kubeconfig, or the server.
    source: str
    alarms: tuple[Alarm, ...]
    tenants: tuple[TenantRow, ...]
    cohorts: tuple[CohortBars, ...]
    queue: tuple[QueueRow, ...]
    # Workloads that wait beyond those in `queue`.
    queue_left: int
    maps: tuple[DeviceMap, ...]
    # What this user may not read, by name.
    unread: tuple[str, ...] = ()
    # What is still being read, with how much there is so far; without it neither map nor queue can be shown. Empty once all is.
    reading: str = ""


def as_json(picture: Picture, *, nodes: bool) -> dict[str, Any]:
    """The picture for the page; without `nodes` each rack has its sums alone."""
    return {
        "at": picture.at,
        "source": picture.source,
        "alarms": [_short(asdict(alarm)) for alarm in picture.alarms],
        "tenants": [_short(asdict(tenant)) for tenant in picture.tenants],
        "cohorts": [asdict(cohort) for cohort in picture.cohorts],
        "queue": [_short(asdict(row)) for row in picture.queue],
        "queueLeft": picture.queue_left,
        "maps": [
            {
                "resource": shown.resource,
                "racks": [
                    _sums(rack) | ({"nodes": [node_json(node) for node in rack.nodes]} if nodes else {}) for rack in shown.racks
                ],
            }
            for shown in picture.maps
        ],
        "unread": list(picture.unread),
        "reading": picture.reading,
    }


def node_json(node: NodeTile) -> dict[str, Any]:
    """One node, with short keys."""
    told = {"n": node.name, "d": node.domain, "f": node.flavor, "s": node.state, "c": node.capacity, "x": node.closed}
    return _short(told) | {"h": [list(pair) for pair in node.held]}


def count_nodes(picture: Picture) -> int:
    """The number of tiles in all maps."""
    return sum(len(rack.nodes) for shown in picture.maps for rack in shown.racks)


def rack_of(picture: Picture, resource: str, name: str) -> RackTile | None:
    """One rack of one map."""
    racks = (rack for shown in picture.maps if shown.resource == resource for rack in shown.racks)
    return next((rack for rack in racks if rack.name == name), None)


def _sums(rack: RackTile) -> dict[str, Any]:
    held: Counter[str] = Counter()
    states = Counter(node.state for node in rack.nodes)
    flavors = Counter(node.flavor for node in rack.nodes if node.flavor)
    for node in rack.nodes:
        held.update(dict(node.held))
    return {
        "name": rack.name,
        "count": len(rack.nodes),
        "capacity": sum(node.capacity for node in rack.nodes),
        "free": sum(node.free for node in rack.nodes if node.state != "closed"),
        "states": dict(states),
        "flavors": sorted(flavors),
        "held": sorted(held.items(), key=lambda item: (not item[0], item[0])),
    }


def _short(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in ("", None, 0) or key in {"level", "name", "subject"}}


def marks(tenants: Iterable[str]) -> dict[str, str]:
    """One or two letters for each tenant, each of them once, if possible from the tenant's own name (team-b is B)."""
    found: dict[str, str] = {}
    used: set[str] = set()
    for tenant in sorted(tenants):
        own = [letter.upper() for letter in tenant.rpartition("-")[2] + tenant if letter.isascii() and letter.isalnum()]
        pairs = [own[0] + letter for letter in [*own[1:], *_LETTERS]] if own else []
        rest = (first + second for first in _LETTERS for second in _LETTERS)
        mark = next((candidate for candidate in (*own, *pairs) if candidate not in used), None)
        mark = mark or next((candidate for candidate in rest if candidate not in used), "?")
        used.add(mark)
        found[tenant] = mark
    return found


_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
