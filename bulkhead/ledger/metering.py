"""How long pods and claims hold devices, each second of each counted once: whatever is late, dies or jumps meanwhile.

    host pod ──> held_of ──> Held: whose, of what, since when, running since, ended ──┐
    host claim ──> claimed_of ──> Claimed: whose, of what, since when, for whom ──────┤
    the store says: counted up to here ──> Meter <── see, gone ───────────────────────┘
                                             └── count(to) ──> Tallies by the hour, for `usagebook`; counted up to `to`

An interval is one of a pod's UID and of time. What was counted is what lies before `until`, for all pods alike, so that nobody
has to keep a list of pods that were counted. The ends of intervals are the host's own stamps. A pod of which only the absence
is known, as after a gap, ended when it was last counted. A claim may be given devices, lose them, and get others: each time is
an interval of its own, and none reaches back before `until`. Times are whole milliseconds since 1970, sums are
device-milliseconds, so nothing is ever rounded. Pure; time is passed in.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from bulkhead.api import accelerators, labels, ledger, names
from bulkhead.api.conditions import condition_of
from bulkhead.api.podphase import has_ended, placed_on
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.ledger.claimed import Claimed
from bulkhead.ledger.model import Amounts, Line

HOUR: Final = 3_600_000
# Of a jump of the clock: what is believed at once, and after how long the rest is.
_DRIFT: Final = 2_000
_BELIEVED_AFTER: Final = 600_000
_MOST_DEVICES: Final = 64
_LONGEST_NAME: Final = 253
_OWNERS: Final = 65_536
_NEVER: Final = 1 << 62
# Of one claim, users of a minute; more than that are those that it has now.
_MOST_USERS: Final = 1024
Lines: TypeAlias = Mapping[str, Mapping[str, Line]]  # by tenant and device class: the line of the quota that a device counts in
Resting: TypeAlias = Collection[tuple[str, str]]  # workers without a job: tenant and UID in its plane
_NO_LINES: Final[Lines] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Held:
    """A pod of a tenant that holds devices, or held them; or has claims, which hold them."""

    uid: str
    tenant: str
    # Of the virtual pod. Its owner is what controls it, or itself: `Job/train`.
    namespace: str
    name: str
    owner: str
    devices: Amounts
    # Of all devices but some.
    flavor: str
    unflavored: tuple[str, ...]
    # Of the devices, what its tenant borrowed when it was admitted.
    borrowed: Amounts
    since: int
    running: int | None
    # It has ended, and when, where anybody said so.
    over: bool
    ended: int | None
    # In its tenant's plane.
    virtual_uid: str = ""


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
    # Held, and nothing ran: admitted, bound or reserved and not started, or a worker of Slurm without a job.
    idle: int
    # Of both, what was borrowed.
    borrowed: int


def held_of(pod: Mapping[str, Any]) -> Held | None:
    """What a host pod holds; None for one that is no tenant's, or that holds nothing yet."""
    meta, spec, status = (mapping(pod.get(part)) for part in ("metadata", "spec", "status"))
    uid, tenant = text(meta.get("uid")), names.tenant_of_work(text(meta.get("namespace")))
    if not uid or not tenant:
        return None
    devices = accelerators.requested(pod, sorted(accelerators.extended(pod))[:_MOST_DEVICES])
    claims = spec.get("resourceClaims")
    since = _since(pod) if devices or claims else None
    if since is None:
        return None
    noted = mapping(meta.get("annotations"))
    admitted = ledger.read_admitted(noted)
    name = (text(noted.get(labels.VIRTUAL_NAME)) or text(meta.get("name")))[:_LONGEST_NAME]
    borrowed = {} if admitted is None else admitted.borrowed or {}
    over = has_ended(pod)
    started, finished = _stamps(status, "startedAt", _holders(spec, devices)), _stamps(status, "finishedAt")
    return Held(
        uid,
        tenant,
        namespace=text(noted.get(labels.VIRTUAL_NAMESPACE))[:_LONGEST_NAME],
        name=name,
        owner=_owner(noted) or f"Pod/{name}",
        devices=devices,
        flavor="" if admitted is None else admitted.flavor,
        unflavored=() if admitted is None else tuple(each for each in admitted.unflavored if each in devices),
        borrowed={resource: min(number, devices[resource]) for resource, number in borrowed.items() if resource in devices},
        since=since,
        running=min(started, default=None),
        over=over,
        ended=_end(status, finished) if over else None,
        virtual_uid=text(noted.get(labels.VIRTUAL_UID))[:_LONGEST_NAME],
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


def _holders(spec: Mapping[str, Any], devices: Amounts) -> frozenset[str] | None:
    """The containers that a pod's devices are for, init containers among them; None where none says that it is one of them.

    The phase says nothing of that: a pod is Pending while its init containers work, and while any other image is pulled.
    """
    found = set()
    for each in (*mappings(spec.get("initContainers")), *mappings(spec.get("containers"))):
        asked = mapping(each.get("resources"))
        if asked.get("claims") or any(name in mapping(asked.get(part)) for part in ("limits", "requests") for name in devices):
            found.add(text(each.get("name")))
    return frozenset(found) or None


def _stamps(status: Mapping[str, Any], field: str, of: Collection[str] | None = None) -> list[int]:
    """What the kubelet says of when containers started, or finished; of all of them, or of some."""
    listed = (*mappings(status.get("initContainerStatuses")), *mappings(status.get("containerStatuses")))
    some = (each for each in listed if of is None or text(each.get("name")) in of)
    states = (mapping(each.get(part)) for each in some for part in ("state", "lastState"))
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


@dataclass(slots=True)
class _KnownClaim:
    """A claim, for as long as it has what it was given."""

    claimed: Claimed
    counted: int
    # Pods that it was reserved for since it was last counted.
    users: set[str] = field(default_factory=set)
    end: int = _NEVER


class Meter:
    """Counts, from when the store says that it was counted to."""

    def __init__(self, until: int) -> None:
        self.until = until
        self._known: dict[str, _Known] = {}
        self._claims: dict[str, _KnownClaim] = {}
        # What claims had that have lost it, until that is counted.
        self._left: dict[str, list[_KnownClaim]] = {}

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

    def see_claim(self, claimed: Claimed, at: int | None) -> None:
        """A claim as it is now. Where nobody says when it was given what it has, it was `at`, if it was seen to be given it."""
        known = self._claims.get(claimed.uid)
        if known is None:
            earlier = max((each.end for each in self._left.get(claimed.uid, ())), default=0)
            known = self._claims[claimed.uid] = _KnownClaim(claimed, max(self.until, earlier, self._given(claimed, at)))
        known.claimed = claimed
        known.users = set(claimed.users).union(() if len(known.users) > _MOST_USERS else known.users)

    def claim_gone(self, uid: str, at: int | None) -> None:
        """A claim has nothing any more: since then, or, where nobody saw that, since it was last counted."""
        known = self._claims.pop(uid, None)
        if known is not None:
            known.end = max(known.counted, self.until if at is None else at)
            if known.counted < known.end:
                self._left.setdefault(uid, []).append(known)

    def no_claims(self) -> None:
        """Nobody knows of any claim what it has: it is counted again from when it is seen again."""
        for uid in tuple(self._claims):
            self.claim_gone(uid, None)

    def count(self, to: int, resting: Resting = (), lines: Lines = _NO_LINES) -> Iterator[Tally]:
        """All that is not counted yet, up to then."""
        yield from self._count_claims(to, resting, lines)
        for uid, known in tuple(self._known.items()):
            end = min(to, known.end)
            if known.counted < end:
                yield from _tallies(known.held, known.counted, end, rests=_rests(known.held, resting))
                known.counted = end
            if known.gone and known.end <= to:
                del self._known[uid]
        self.until = max(self.until, to)

    def _given(self, claimed: Claimed, at: int | None) -> int:
        """Since when a claim has what it has; where nobody says so, since the first of its pods was bound."""
        bound = (pod.held.since for pod in self._pods_of(claimed, claimed.users))
        said = claimed.given if claimed.given is not None else at
        return max(claimed.created, min(bound, default=0)) if said is None else said

    def _count_claims(self, to: int, resting: Resting, lines: Lines) -> Iterator[Tally]:
        for known in (*self._claims.values(), *(each for left in self._left.values() for each in left)):
            end = min(to, known.end)
            if known.counted < end:
                pods = self._pods_of(known.claimed, known.users)
                yield from _of_claim(known, end, pods, resting, lines.get(known.claimed.tenant, {}))
                known.counted = end
                # Who has left is done with once it is counted to its end.
                known.users = {*known.claimed.users, *(pod.held.uid for pod in pods if pod.end > to)}
        kept = ((uid, [each for each in left if each.end > to]) for uid, left in self._left.items())
        self._left = {uid: left for uid, left in kept if left}

    def _pods_of(self, claimed: Claimed, users: Iterable[str]) -> list[_Known]:
        known = (self._known.get(uid) for uid in users)
        return [pod for pod in known if pod is not None and pod.held.tenant == claimed.tenant]


def _rests(held: Held, resting: Resting) -> bool:
    """Whether a pod is a worker without a job. Others may have its name, in another namespace or after it."""
    return (held.tenant, held.virtual_uid) in resting


def _tallies(held: Held, start: int, end: int, *, rests: bool) -> Iterator[Tally]:
    running = end if held.running is None or rests else held.running
    for hour, begin, stop in _hours(start, end):
        idle = min(max(running, begin), stop) - begin
        for resource, devices in held.devices.items():
            flavor = "" if resource in held.unflavored else held.flavor
            account = Account(held.tenant, held.namespace, held.owner, resource, flavor)
            borrowed = held.borrowed.get(resource, 0) * (stop - begin)
            yield Tally(hour, account, devices * (stop - begin - idle), devices * idle, borrowed)


def _of_claim(
    known: _KnownClaim, end: int, pods: Collection[_Known], resting: Resting, lines: Mapping[str, Line]
) -> Iterator[Tally]:
    """What a claim had up to then: used while any of its pods ran. None borrows."""
    claimed = known.claimed
    owners = {pod.held.owner for pod in pods}
    # What several use that have nothing to do with each other is nobody's but its own.
    owner = owners.pop() if len(owners) == 1 else f"ResourceClaim/{claimed.name}"[:_LONGEST_NAME]
    devices: Counter[Line] = Counter()
    for device_class, number in claimed.devices.items():
        devices[lines.get(device_class, ("", device_class))] += number
    runs = [(pod.held.running, pod.end) for pod in pods if pod.held.running is not None and not _rests(pod.held, resting)]
    for hour, begin, stop in _hours(known.counted, end):
        used = _covered(begin, stop, runs)
        for (flavor, resource), number in devices.items():
            account = Account(claimed.tenant, claimed.namespace, owner, resource, flavor)
            yield Tally(hour, account, number * used, number * (stop - begin - used), 0)


def _covered(start: int, end: int, spans: Iterable[tuple[int, int]]) -> int:
    """How much of that time lies in any of the spans."""
    found = 0
    for begin, stop in sorted(spans):
        found += max(0, min(stop, end) - max(begin, start))
        start = max(start, min(stop, end))
    return found


def _hours(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Each hour of that time, and which part of it."""
    while start < end:
        hour = start // HOUR
        stop = min(end, (hour + 1) * HOUR)
        yield hour, start, stop
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
