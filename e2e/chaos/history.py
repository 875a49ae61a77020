"""The records of a run, one JSON line for each. Pure: it reads and writes lines, without a clock.

All times are seconds of the machine's monotonic clock, which all processes share. A history holds everything that a run is
judged and drawn by: `python -m e2e.chaos.page` needs nothing else.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

HOST = "host"  # the "tenant" of probes against the host's own API server
CONTROLLER = "controller"
MISSING = -1  # the value of a key that was read and is not there

Side = Literal["host", "virtual"]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of a run before its first fault; `baseline_*` is the window without a fault."""

    at: float
    tenants: Sequence[str]
    started: str
    seed: int
    baseline_begin: float
    baseline_end: float
    idle_cores: float
    cores: int
    factor: float  # the bound that a neighbour's p99 is judged by: factor x baseline + allowance, in seconds
    allowance: float
    quiet_seconds: float
    experiments: Sequence[str] = ()  # those that were asked for, in their order
    command: str = ""
    simulated: bool = False  # made up, to show what the page shows
    slower: int = 1  # how many times slower than asked for the load and the probes were, so that the machine had room


@dataclass(frozen=True, slots=True)
class Announced:
    """What an experiment expects, recorded before its fault begins."""

    at: float
    experiment: str
    title: str
    hypothesis: str
    target: str
    family: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """One request of the observer, sent as a tenant would send it; `error` is empty if the answer was good."""

    at: float
    tenant: str
    kind: Literal["read", "write"]
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """One piece of a tenant's steady work from its begin to its end: a pod that came and went, a watch, a job."""

    at: float
    tenant: str
    kind: str
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """One write of the tenant's writer: which key got which value, and whether the API server acknowledged it until `end`."""

    at: float
    tenant: str
    key: str
    value: int
    end: float
    acknowledged: bool


@dataclass(frozen=True, slots=True)
class Read:
    """A value that the tenant's writer read, begun at `at`; `experiment` names the one after which all keys are read."""

    at: float
    tenant: str
    key: str
    value: int
    experiment: str = ""


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was seen: on the host (with the virtual UID it stands for) or in a plane (where `virtual_uid` is its own UID).

    `at` is when the answer was there. An event of a watch can tell of a pod that has long ended: over a line that loses packets
    it came four seconds late. A pod in a list existed when the list was asked for, at `asked`; events have none.
    """

    at: float
    side: Side
    tenant: str
    uid: str
    virtual_uid: str
    name: str
    deleting: bool = False
    refused: bool = False  # PodScheduled=False: a virtual pod that may not run has no host pod
    asked: float = 0.0


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
class Use:
    """How much is in use and how much there is: GPUs of a node, a tenant's quota, or the pods that hold a device."""

    at: float
    scope: Literal["node", "tenant", "device"]
    name: str
    limit: int
    used: int
    holders: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """How many requests the host's API server has rejected by priority and fairness, by flow schema, since it started."""

    at: float
    schema: str
    count: int


@dataclass(frozen=True, slots=True)
class Quiet:
    """After an experiment: how long the idle target took to converge, and the writes for it in the window that followed."""

    at: float
    tenant: str
    experiment: str
    converged: float
    seconds: float
    writes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Scanned:
    """The last look at all host objects of a tenant: how many there were, how many the host judged again, what is wrong."""

    at: float
    tenant: str
    objects: int
    judged: int
    findings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Searched:
    """A text that was searched for canary secrets: whose it is, where, and of which tenants a canary was in it.

    `control` says whether the search found the harmless mark that it had to find; without one there, it is None.
    """

    at: float
    owner: str
    place: str
    bytes: int
    leaked: Sequence[str]
    control: bool | None = None


@dataclass(frozen=True, slots=True)
class Planted:
    """A canary secret was made in a tenant; the history does not contain it."""

    at: float
    tenant: str


@dataclass(frozen=True, slots=True)
class Span:
    """An experiment, from just before its fault until its target had recovered. The target may be the controller or the host.

    `lifted` is when the fault was undone; 0 if it was not. `may_lose` says that the target's acknowledged writes may be gone,
    `only_measured` that no latency of others is promised during this fault: it is reported, and judged by nothing.
    """

    experiment: str
    target: str
    begin: float
    end: float
    lifted: float = 0.0
    may_lose: bool = False
    only_measured: bool = False


@dataclass(frozen=True, slots=True)
class Aside:
    """A time in which what a fault needs was prepared or cleared away: it disturbs its target, and nothing is measured."""

    at: float
    experiment: str
    target: str
    end: float


@dataclass(frozen=True, slots=True)
class Speed:
    """How many CPU seconds the machine took for the same work, beside an experiment; in the baseline if it names none."""

    at: float
    experiment: str
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An experiment that was asked for and could not be made here, and why."""

    at: float
    experiment: str
    reason: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence that a fault happened, or that it did not."""

    experiment: str
    at: float
    proven: bool
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What the runner itself saw of one experiment: whether the target recovered, and whether its pods kept running."""

    experiment: str
    title: str
    recovered_s: float | None
    pods_went_on: bool
    note: str = ""
    at: float = 0.0


Record = (
    Run | Announced | Probe | Act | Write | Read | PodSeen | PodGone | PartSeen | LeaderSeen | Use | Rejected | Quiet | Scanned
    | Searched | Planted | Span | Aside | Speed | LeftOut | Evidence | Finding
)  # fmt: skip
_TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in Record.__args__}


@dataclass(frozen=True)
class History:
    """All records, in the order of their times."""

    records: tuple[Record, ...]
    tenants: tuple[str, ...]
    end: float = field(default=0.0)

    @staticmethod
    def of(records: Iterable[Record], tenants: Iterable[str]) -> "History":
        ordered = tuple(sorted(records, key=time_of))
        return History(ordered, tuple(tenants), max((_last(record) for record in ordered), default=0.0))

    def all(self, kind: type[R]) -> tuple[R, ...]:
        """The records of one kind, in the order of their times."""
        return self._by_kind.get(kind, ())

    @property
    def spans(self) -> tuple[Span, ...]:
        return self.all(Span)

    @cached_property
    def disturbed(self) -> tuple[Span | Aside, ...]:
        """When an experiment may disturb its target: while it is prepared, in its span, and while it is cleared away."""
        return tuple(record for record in self.records if isinstance(record, Span | Aside))

    @property
    def run(self) -> Run | None:
        """What the run was; None for a history that was cut off before its baseline was over."""
        return next(iter(self.all(Run)), None)

    def probes(self, tenant: str, begin: float, end: float) -> list[Probe]:
        times, probes = self._by_tenant.get(tenant, ([], []))
        return probes[bisect_left(times, begin) : bisect_left(times, end)]

    def restarts(self, tenant: str, begin: float, end: float) -> list[float]:
        """When a container of this tenant was first seen restarted or replaced; the platform's own with an empty name."""
        times = self._restarts.get(tenant, [])
        return times[bisect_left(times, begin) : bisect_left(times, end)]

    @cached_property
    def _restarts(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        last: dict[tuple[str, str], dict[str, int]] = {}  # part -> UID of a pod -> restarts
        for part in self.all(PartSeen):
            pods = last.setdefault((part.tenant, part.part), {})
            if pods and part.restarts > pods.get(part.pod_uid, -1):
                found.setdefault(part.tenant, []).append(part.at)
            pods[part.pod_uid] = part.restarts
        return found

    @cached_property
    def _by_kind(self) -> dict[type[Any], tuple[Any, ...]]:
        found: dict[type[Any], list[Any]] = {}
        for record in self.records:
            found.setdefault(type(record), []).append(record)
        return {kind: tuple(records) for kind, records in found.items()}

    @cached_property
    def _by_tenant(self) -> dict[str, tuple[list[float], list[Probe]]]:
        found: dict[str, tuple[list[float], list[Probe]]] = {}
        for probe in self.all(Probe):
            times, probes = found.setdefault(probe.tenant, ([], []))
            times.append(probe.at)
            probes.append(probe)
        return found


def hits(span: Span | Aside, owner: str) -> bool:
    """Whether an experiment may disturb what belongs to this owner. A fault of the host may disturb whatever runs there."""
    return span.target in {owner, HOST}


def time_of(record: Record) -> float:
    return record.begin if isinstance(record, Span) else record.at


def _last(record: Record) -> float:
    return record.end if isinstance(record, Span | Aside | Write) else record.at


def to_line(record: Record) -> str:
    return json.dumps({"type": type(record).__name__, **asdict(record)})


def from_line(line: str) -> Record:
    fields = json.loads(line)
    record: Record = _TYPES[fields.pop("type")](
        **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    )
    return record


def from_lines(lines: Iterable[str]) -> list[Record]:
    """The records of a file; a last line that its writer has not ended is left out."""
    return [from_line(line) for line in lines if line.endswith("\n")]
