"""How syncers, the ledger and people's tools speak to each other about admission: names on host pods and quotas.

    syncer ──> gate, gang, own priority ──> host pod <── admitted, verdict, reclaim <── ledger (the controller)
                                            ResourceQuota <── standing <──┘

Of these names the host's admission policies let a syncer write the first group alone, and the controller the second alone. What
is read here was written by either and is checked again: what does not fit is read as absent. Pure.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from bulkhead.api.untrusted import mapping, sequence, text

# The scheduling gate of host pods that the ledger admits; only the ledger removes it.
GATE: Final = "bulkhead.dev/ledger"

# By the syncer, on host pods. The gang's name is unique within the virtual namespace.
GANG: Final = "bulkhead.dev/gang"
GANG_SIZE: Final = "bulkhead.dev/gang-size"
GANG_TOPOLOGY: Final = "bulkhead.dev/gang-topology"  # `required:<label key>` or `preferred:<label key>`
OWN_PRIORITY: Final = "bulkhead.dev/own-priority"  # spec.priority of the virtual pod: orders pods of one tenant only
BY_SYNCER: Final = (GANG, GANG_SIZE, GANG_TOPOLOGY, OWN_PRIORITY)

# By the ledger. On host pods: when and where to it was admitted, why it waits, until when it is taken back.
ADMITTED: Final = "ledger.bulkhead.dev/admitted"
VERDICT: Final = "ledger.bulkhead.dev/verdict"
# The one reason of a verdict on a pod that runs.
OVER_QUOTA: Final = "OverQuota"
RECLAIM: Final = "ledger.bulkhead.dev/reclaim"
# On ResourceQuota `tenant-quota`: what the tenant has, holds, lends and borrows, by resource.
STANDING: Final = "ledger.bulkhead.dev/standing"
# On the same: the places of the tenant's first waiting pods in the queue.
QUEUE: Final = "ledger.bulkhead.dev/queue"
# On the same, by the controller: what the tenant was given of each line, which the ledger goes by (`bulkhead.ledger.given`).
GIVEN: Final = "bulkhead.dev/given"
# On the same: since when it holds more than its ceiling of each line, where the cohort takes that back.
OVER_SINCE: Final = "ledger.bulkhead.dev/over-since"
BY_LEDGER: Final = (ADMITTED, VERDICT, RECLAIM)

# Facts on the work namespace (see policyfacts): resources whose pods need the gate, and whether pods of gangs need it.
GATED_RESOURCES: Final = "bulkhead.dev/gated-resources"
GATED_GANGS: Final = "bulkhead.dev/gated-gangs"

MOST_PODS: Final = 4096  # in a gang
# In annotation `QUEUE`. Each pod of the tenant makes the host write the whole quota, so the note stays below 4 KiB.
QUEUED_PODS_NOTED: Final = 48
# In the status of a Cohort.
MOST_LINES_SHOWN: Final = 64
MOST_TENANTS_SHOWN: Final = 64
_LONGEST: Final = 4096
_LARGEST_PLACE: Final = 10_000_000
_LONGEST_KEY: Final = 253
_LABEL_KEY: Final = re.compile(r"([-.a-z0-9]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LONGEST_NAMES: Final = 1024
_MOST_SHAPES: Final = 24  # of one gang in a note
_LONGEST_OF_QUOTA: Final = 64 * 1024
_LINES: Final = 256
_COUNTS: Final = ("nominal", "ceiling", "used", "borrowed", "lent", "borrowable")


@dataclass(frozen=True, slots=True)
class Topology:
    """All pods of a gang in one domain: nodes with the same value of a label."""

    key: str
    required: bool


@dataclass(frozen=True, slots=True)
class AdmittedGang:
    """What a gang was when it was admitted. It stands on each of its pods, and no later pod changes it."""

    # When it was admitted. Pods that name the same moment belong together: a gang of the same name may follow this one.
    since: float
    size: int
    topology: Topology | None = None
    # How many pods it had of each shape, as far as they were noted: a digest of what a pod asks for and where it may go.
    members: tuple[tuple[str, int], ...] = ()
    # How much more than nominal its tenant held with it, by resource.
    borrowed: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Admitted:
    """Annotation `ADMITTED`."""

    at: float
    node: str
    flavor: str = ""
    pinned: bool = False
    # Its own selector names the node: it may go to no other.
    fixed: bool = False
    borrowed: Mapping[str, int] | None = None
    # Devices that it asks for and that have no flavor, where it has one for others.
    unflavored: tuple[str, ...] = ()
    # Of a pod of a gang: the gang, and the shape that this pod had.
    gang: AdmittedGang | None = None
    shape: str = ""
    # It has the name of a gang, but was admitted by itself.
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Annotation `RECLAIM`."""

    by: float
    cause: str
    message: str
    # Of a pod that says that it is a worker of Slurm: whether the controller knew it as one. None: nothing is noted of that.
    worker: bool | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A waiting pod in annotation `QUEUE`."""

    # In its cohort's queue, from 1.
    number: int
    # The latest time at which it starts; None if that is unknown.
    starts_by: float | None = None


def write_topology(topology: Topology) -> str:
    """As in `GANG_TOPOLOGY`."""
    return f"{'required' if topology.required else 'preferred'}:{topology.key}"


def read_topology(written: str) -> Topology | None:
    """`required:<label key>` or `preferred:<label key>`; None for anything else."""
    how, _, key = written.partition(":")
    known = how in {"required", "preferred"} and len(key) <= _LONGEST_KEY and _LABEL_KEY.fullmatch(key)
    return Topology(key, required=how == "required") if known else None


def write_admitted(admitted: Admitted) -> str:
    """The annotation's text."""
    note: dict[str, Any] = {"at": moment(admitted.at), "node": admitted.node}
    if admitted.flavor:
        note["flavor"] = admitted.flavor
    if admitted.pinned:
        note["pinned"] = True
    if admitted.fixed:
        note["fixed"] = True
    if admitted.borrowed:
        note["borrowed"] = dict(sorted(admitted.borrowed.items()))
    if admitted.unflavored:
        note["unflavored"] = list(_that_fit(admitted.unflavored))
    if admitted.gang is not None:
        note["gang"] = _gang_said(admitted.gang, admitted.shape)
    if admitted.alone:
        note["alone"] = True
    return _text(note)


def _gang_said(gang: AdmittedGang, shape: str) -> Mapping[str, Any]:
    note: dict[str, Any] = {"since": moment(gang.since), "size": gang.size, "shape": shape}
    if gang.topology is not None:
        note["topology"] = write_topology(gang.topology)
    # Most pods are of few shapes. A member of one that does not fit here is judged like any other pod when it is made again.
    common = sorted(gang.members, key=lambda item: (-item[1], item[0]))[:_MOST_SHAPES]
    note["members"] = dict(sorted(common))
    if gang.borrowed:
        note["borrowed"] = dict(sorted(gang.borrowed))
    return note


def read_admitted(annotations: Mapping[str, Any]) -> Admitted | None:
    """What the ledger noted when it admitted a pod; None for a pod that never had the gate."""
    found = _read(annotations.get(ADMITTED))
    at = seconds(found.get("at"))
    if at is None:
        return None
    return Admitted(
        at,
        node=text(found.get("node")),
        flavor=text(found.get("flavor")),
        pinned=found.get("pinned") is True,
        fixed=found.get("fixed") is True,
        borrowed=_counted(found.get("borrowed")) or None,
        unflavored=tuple(name for name in sequence(found.get("unflavored")) if isinstance(name, str)),
        gang=_gang_read(mapping(found.get("gang"))),
        shape=text(mapping(found.get("gang")).get("shape")),
        alone=found.get("alone") is True,
    )


def _gang_read(found: Mapping[str, Any]) -> AdmittedGang | None:
    since, size = seconds(found.get("since")), found.get("size")
    if since is None or type(size) is not int or not 1 <= size <= MOST_PODS:
        return None
    members, borrowed = (tuple(sorted(_counted(found.get(field)).items())) for field in ("members", "borrowed"))
    return AdmittedGang(since, size, read_topology(text(found.get("topology"))), members, borrowed)


def _counted(value: Any) -> Mapping[str, int]:
    """Whole numbers above 0, by name."""
    return {name: number for name, number in mapping(value).items() if type(number) is int and number > 0}


def _that_fit(resources: Iterable[str]) -> Iterator[str]:
    """As many names as leave the note short enough to be read."""
    room = _LONGEST_NAMES
    for resource in sorted(resources):
        room -= len(resource) + 3
        if room >= 0:
            yield resource


def write_verdict(reason: str, message: str) -> str:
    """The annotation's text."""
    return _text({"reason": reason, "message": message})


def read_verdict(annotations: Mapping[str, Any]) -> tuple[str, str] | None:
    """Reason and message; None until the ledger has reported."""
    found = _read(annotations.get(VERDICT))
    reason, message = text(found.get("reason")), text(found.get("message"))
    return (reason, message) if reason else None


def write_reclaim(reclaimed: Reclaimed) -> str:
    """The annotation's text."""
    note: dict[str, Any] = {"by": moment(reclaimed.by), "cause": reclaimed.cause, "message": reclaimed.message}
    return _text(note if reclaimed.worker is None else note | {"worker": reclaimed.worker})


def read_reclaim(annotations: Mapping[str, Any]) -> Reclaimed | None:
    """Until when a pod is taken back, and why; None for one that is not."""
    found = _read(annotations.get(RECLAIM))
    by = seconds(found.get("by"))
    if by is None:
        return None
    worker = found.get("worker")
    return Reclaimed(by, text(found.get("cause")), text(found.get("message")), worker if isinstance(worker, bool) else None)


def line_name(flavor: str, resource: str) -> str:
    """How a line is called in texts and annotations: `nvidia.com/gpu`, or `nvidia.com/gpu@h100`."""
    return f"{resource}@{flavor}" if flavor else resource


def line_named(name: str) -> tuple[str, str]:
    """Flavor and resource of such a name."""
    resource, _, flavor = name.partition("@")
    return flavor, resource


def write_standing(lines: Mapping[tuple[str, str], Mapping[str, int]]) -> str:
    """The text of annotation `STANDING`: by flavor and resource what `_COUNTS` names, in base units."""
    note = {line_name(*line): {key: counts[key] for key in _COUNTS} for line, counts in lines.items()}
    return _text(dict(sorted(note.items())))


def read_standing(annotations: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, int]]:
    """All counts of the ledger for each line; empty until the ledger has reported."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for name, counts in list(read_object(annotations.get(STANDING)).items())[:_LINES]:
        read = {key: mapping(counts).get(key) for key in _COUNTS}
        numbers = {key: value for key, value in read.items() if type(value) is int and value >= 0}
        if len(numbers) == len(_COUNTS):
            found[line_named(name)] = numbers
    return found


def write_over_since(since: Mapping[tuple[str, str], float]) -> str:
    """The text of annotation `OVER_SINCE`: by flavor and resource the time."""
    return _text({line_name(*line): moment(at) for line, at in sorted(since.items())})


def read_over_since(value: Any, lines: Iterable[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """The times by line; empty if nothing is noted. An older ledger noted one time, which counts for all of the `lines`."""
    one = seconds(value)
    if one is not None:
        return dict.fromkeys(lines, one)
    noted = list(read_object(value).items())[:_LINES]
    return {line_named(name): at for name, text in noted if (at := seconds(text)) is not None}


def write_queue(queue: Mapping[str, Place]) -> str:
    """The text of annotation `QUEUE`: by pod UID the place, and by when the pod starts if that is known."""
    return _text(
        {
            uid: [place.number] if place.starts_by is None else [place.number, moment(place.starts_by)]
            for uid, place in list(queue.items())[:QUEUED_PODS_NOTED]
        }
    )


def read_queue(annotations: Mapping[str, Any]) -> dict[str, Place]:
    """The places of the tenant's first waiting pods, by the UID of the host pod."""
    found: dict[str, Place] = {}
    for uid, noted in list(_read(annotations.get(QUEUE)).items())[:QUEUED_PODS_NOTED]:
        number, starts = (*sequence(noted)[:2], None, None)[:2]
        if type(number) is int and 0 < number <= _LARGEST_PLACE:
            found[uid] = Place(number, seconds(starts))
    return found


def read_object(value: Any) -> Mapping[str, Any]:
    """The object in an annotation of a quota; empty if the annotation is not an object."""
    return _read(value, _LONGEST_OF_QUOTA)


def moment(at: float) -> str:
    """A time as Kubernetes writes it, in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(value: Any) -> float | None:
    """A time that an API server or this module wrote, as seconds since 1970."""
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        read = datetime.fromisoformat(value)
        # In UTC it has to be a time too, or `moment` could not write it.
        return read.astimezone(UTC).timestamp() if read.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _text(note: Mapping[str, Any]) -> str:
    return json.dumps(note, separators=(",", ":"))


def _read(value: Any, most: int = _LONGEST) -> Mapping[str, Any]:
    if not isinstance(value, str) or len(value) > most:
        return {}
    try:
        # It takes no half of a surrogate pair, which could not be written again.
        return mapping(msgspec.json.decode(value))
    except (ValueError, RecursionError):
        return {}
