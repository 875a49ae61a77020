"""How long pods hold devices, so that each second of each pod is counted once: whatever is late, dies or jumps meanwhile.

    host pod ──> held_of ──> Held: whose, of what, since when, running since, ended ──┐
    the store says: counted up to here ──> Meter <── see, gone ──────────────────────┘
                                             └── count(to) ──> Tallies by the hour, for `usagebook`; counted up to `to`

An interval is one of a pod's UID and of time. What was counted is what lies before `until`, for all pods alike, so that nobody
has to keep a list of pods that were counted. The ends of intervals are the host's own stamps. A pod of which only the absence
is known, as after a gap, ended when it was last counted. Times are whole milliseconds since 1970, sums are device-milliseconds,
so nothing is ever rounded. Pure; time is passed in.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from bulkhead.api import accelerators, labels, ledger, names
from bulkhead.api.conditions import condition_of
from bulkhead.api.podphase import has_ended, placed_on
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.ledger.model import Amounts

HOUR: Final = 3_600_000
# Of a jump of the clock: what is believed at once, and after how long the rest is.
_DRIFT: Final = 2_000
_BELIEVED_AFTER: Final = 600_000
_MOST_DEVICES: Final = 64
_LONGEST_NAME: Final = 253
_OWNERS: Final = 65_536
_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Held:
    """A pod of a tenant that holds devices, or held them."""

    uid: str
    tenant: str
    # Of the virtual pod. Its owner is what controls it, or itself: `Job/train`.
    namespace: str
    name: str
    owner: str
    devices: Amounts
    flavor: str
    # Of the devices, what its tenant borrowed when it was admitted.
    borrowed: Amounts
    since: int
    running: int | None
    # It has ended, and when, where anybody said so.
    over: bool
    ended: int | None


class Account(NamedTuple):
    """What is summed up by itself."""

    tenant: str
    namespace: str
    owner: str
    resource: str
    flavor: str


class Tally(NamedTuple):
    """Device-milliseconds of one account in one hour (since 1970)."""

    hour: int
    account: Account
    used: int
    # Held, and nothing ran: admitted or bound and not started, or a worker of Slurm without a job.
    idle: int
    # Of both, what was borrowed.
    borrowed: int


def held_of(pod: Mapping[str, Any]) -> Held | None:
    """What a host pod holds; None for one that is no tenant's, or that holds nothing yet."""
    meta, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    uid, tenant = text(meta.get("uid")), names.tenant_of_work(text(meta.get("namespace")))
    if not uid or not tenant:
        return None
    devices = accelerators.requested(pod, sorted(accelerators.extended(pod))[:_MOST_DEVICES])
    since = _since(pod) if devices else None
    if since is None:
        return None
    noted = mapping(meta.get("annotations"))
    admitted = ledger.read_admitted(noted)
    name = text(noted.get(labels.VIRTUAL_NAME)) or text(meta.get("name"))
    borrowed = {} if admitted is None else admitted.borrowed or {}
    over = has_ended(pod)
    started, finished = _stamps(status, "startedAt"), _stamps(status, "finishedAt")
    return Held(
        uid,
        tenant,
        namespace=text(noted.get(labels.VIRTUAL_NAMESPACE)),
        name=name,
        owner=_owner(noted) or f"Pod/{name}",
        devices=devices,
        flavor="" if admitted is None else admitted.flavor,
        borrowed={resource: min(number, devices[resource]) for resource, number in borrowed.items() if resource in devices},
        since=since,
        running=min(started) if started and text(status.get("phase")) != "Pending" else None,
        over=over,
        ended=_end(status, finished) if over else None,
    )


def _since(pod: Mapping[str, Any]) -> int | None:
    """From when on nobody else had its devices: its admission, or where it had no gate the moment in which it was bound."""
    spec, meta = mapping(pod.get("spec")), mapping(pod.get("metadata"))
    if any(each.get("name") == ledger.GATE for each in mappings(spec.get("schedulingGates"))):
        return None
    admitted = ledger.read_admitted(mapping(meta.get("annotations")))
    if admitted is not None:
        return _milliseconds(admitted.at)
    if not placed_on(pod):
        return None
    bound = condition_of(pod, "PodScheduled")
    stamps = (
        bound.get("lastTransitionTime") if bound.get("status") == "True" else None,
        mapping(pod.get("status")).get("startTime"),
        meta.get("creationTimestamp"),
    )
    return next((_milliseconds(at) for at in map(ledger.seconds, stamps) if at is not None), None)


def _stamps(status: Mapping[str, Any], field: str) -> list[int]:
    """What the kubelet says of when containers started, or finished."""
    states = (mapping(each.get(part)) for each in mappings(status.get("containerStatuses")) for part in ("state", "lastState"))
    said = (mapping(state.get(how)).get(field) for state in states for how in ("running", "terminated"))
    return [_milliseconds(at) for at in map(ledger.seconds, said) if at is not None]


def _end(status: Mapping[str, Any], finished: list[int]) -> int | None:
    """When a pod that is over ended: with its last container, or with the last that was said of a pod that ran none."""
    said = (ledger.seconds(each.get("lastTransitionTime")) for each in mappings(status.get("conditions")))
    return max(finished or [_milliseconds(at) for at in said if at is not None], default=None)


def _owner(noted: Mapping[str, Any]) -> str:
    """What controls the virtual pod, as the syncer noted it."""
    said = noted.get(labels.VIRTUAL_OWNERS)
    try:
        listed = json.loads(said) if isinstance(said, str) and len(said) <= _OWNERS else []
    except (ValueError, RecursionError):
        return ""
    found = (each for each in mappings(listed) if each.get("controller") is True)
    return next((f"{text(each.get('kind'))}/{text(each.get('name'))}"[:_LONGEST_NAME] for each in found), "")


def _milliseconds(at: float) -> int:
    return round(at * 1000)


@dataclass(slots=True)
class _Known:
    """A pod, for as long as the host has it."""

    held: Held
    counted: int
    end: int = _NEVER
    gone: bool = False


class Meter:
    """Counts, from when the store says that it was counted to."""

    def __init__(self, until: int) -> None:
        self.until = until
        self._known: dict[str, _Known] = {}

    def see(self, held: Held, *, listed: bool = False) -> None:
        """A pod as it is now. One of the first list may have been counted before; one that appeared since has not been."""
        known = self._known.get(held.uid)
        if known is None:
            known = self._known[held.uid] = _Known(held, max(self.until, held.since) if listed else held.since)
        # Since when it is held and running does not change: containers that start anew have later stamps.
        running = held.running if known.held.running is None else known.held.running
        known.held = replace(held, since=known.held.since, running=running)
        if held.over and known.end == _NEVER:
            known.end = max(known.counted, self.until if held.ended is None else held.ended)

    def gone(self, uid: str, at: int | None) -> None:
        """A pod is no longer there: since then, or, where nobody saw it go, since it was last counted."""
        known = self._known.get(uid)
        if known is not None:
            known.gone = True
            known.end = min(known.end, max(known.counted, self.until if at is None else at))

    def count(self, to: int, resting: Collection[tuple[str, str]] = ()) -> Iterator[Tally]:
        """All that is not counted yet, up to then. `resting` are workers without a job: tenant and virtual name."""
        for uid, known in tuple(self._known.items()):
            end = min(to, known.end)
            if known.counted < end:
                rests = bool(resting) and (known.held.tenant, known.held.name) in resting
                yield from _tallies(known.held, known.counted, end, rests=rests)
                known.counted = end
            if known.gone and known.end <= to:
                del self._known[uid]
        self.until = max(self.until, to)


def _tallies(held: Held, start: int, end: int, *, rests: bool) -> Iterator[Tally]:
    running = end if held.running is None or rests else held.running
    while start < end:
        hour = start // HOUR
        stop = min(end, (hour + 1) * HOUR)
        idle = min(max(running, start), stop) - start
        for resource, devices in held.devices.items():
            account = Account(held.tenant, held.namespace, held.owner, resource, held.flavor)
            borrowed = held.borrowed.get(resource, 0) * (stop - start)
            yield Tally(hour, account, devices * (stop - start - idle), devices * idle, borrowed)
        start = stop


class Steady:
    """The time, of a clock that may jump: it never runs backwards, and a jump is believed once it has lasted."""

    def __init__(self, wall: int, monotonic: int) -> None:
        self._at = wall
        self._monotonic = monotonic
        self._off_since: int | None = None

    def now(self, wall: int, monotonic: int) -> int:
        """The time, by both clocks of the machine."""
        went = self._at + max(0, monotonic - self._monotonic)
        self._monotonic = max(monotonic, self._monotonic)
        if abs(wall - went) <= _DRIFT:
            self._off_since = None
        elif self._off_since is None:
            self._off_since = self._monotonic
        elif self._monotonic - self._off_since >= _BELIEVED_AFTER:
            # Backwards it cannot run: it stands until the other has come to it.
            went = max(wall, self._at)
            if went == wall:
                self._off_since = None
        self._at = went
        return went
