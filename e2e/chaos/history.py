"""The records that the observer and the runner write, one JSON line for each. Pure: it reads and writes lines, without a clock.

All times are seconds of the machine's monotonic clock, which both processes share.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

HOST = "host"  # the "tenant" of probes against the host's own API server

Side = Literal["host", "virtual"]


@dataclass(frozen=True, slots=True)
class Probe:
    """One request of the observer, sent as a tenant would send it; `error` is empty if the answer was good."""

    at: float
    tenant: str
    kind: Literal["read", "write"]
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was seen: on the host (with the virtual UID it stands for) or in a plane (where `virtual_uid` is its own UID)."""

    at: float
    side: Side
    tenant: str
    uid: str
    virtual_uid: str
    name: str
    deleting: bool = False
    refused: bool = False  # PodScheduled=False: a virtual pod that may not run has no host pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod that was seen before no longer exists."""

    at: float
    side: Side
    tenant: str
    uid: str


@dataclass(frozen=True, slots=True)
class PartSeen:
    """A container of the platform (planes, syncers, DNS, controller, addons): its pod's UID and restart count so far."""

    at: float
    tenant: str  # empty for parts that belong to no tenant
    part: str  # the pod's readable name and the container
    pod_uid: str
    restarts: int
    out_of_memory: bool = False


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    """The holder of the controller's lease."""

    at: float
    holder: str


@dataclass(frozen=True, slots=True)
class Span:
    """An experiment, from just before its fault until its target had recovered. The target may also be the controller."""

    experiment: str
    target: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence that a fault happened, or that it did not."""

    experiment: str
    at: float
    proven: bool
    text: str


Record = Probe | PodSeen | PodGone | PartSeen | LeaderSeen | Span | Evidence
_TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Probe, PodSeen, PodGone, PartSeen, LeaderSeen, Span, Evidence)}


@dataclass(frozen=True, slots=True)
class History:
    """All records, in the order of their times."""

    records: tuple[Record, ...]
    tenants: tuple[str, ...]
    end: float = field(default=0.0)

    @staticmethod
    def of(records: Iterable[Record], tenants: Iterable[str]) -> "History":
        ordered = tuple(sorted(records, key=time_of))
        return History(ordered, tuple(tenants), max((_last(record) for record in ordered), default=0.0))

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(record for record in self.records if isinstance(record, Span))

    def probes(self, tenant: str, begin: float, end: float) -> list[Probe]:
        return [item for item in self.records if isinstance(item, Probe) and item.tenant == tenant and begin <= item.at < end]


def time_of(record: Record) -> float:
    return record.begin if isinstance(record, Span) else record.at


def _last(record: Record) -> float:
    return record.end if isinstance(record, Span) else record.at


def to_line(record: Record) -> str:
    return json.dumps({"type": type(record).__name__, **asdict(record)})


def from_line(line: str) -> Record:
    fields = json.loads(line)
    record: Record = _TYPES[fields.pop("type")](**fields)
    return record


def from_lines(lines: Iterable[str]) -> list[Record]:
    """The records of a file; a last line cut short by the end of its writer is left out."""
    records = []
    for line in lines:
        if not line.endswith("}\n") and not line.endswith("}"):
            continue
        records.append(from_line(line))
    return records
