"""Counts how long pods and claims hold devices. Each second counts once, even over gaps, restarts and clock jumps.

    host pod ──> held_of ──> Held: tenant, devices, since when, running since, end ───┐
    host claim ──> claimed_of ──> Claimed: tenant, devices, since when, its pods ─────┤
    the store says: counted up to here ──> Meter <── see, gone ───────────────────────┘
                                             └── count(to) ──> Tallies by the hour, for `usagebook`; counted up to `to`

An interval belongs to one UID. Everything before `until` is counted, for all pods alike, so no list of counted pods is needed.
Intervals begin and end at timestamps of the host. If only the absence of a pod is known, as after a gap, it ended when it was
last counted. A claim may get devices, lose them, and get others: each of these times is an interval of its own, and none begins
before `until`. Times are whole milliseconds since 1970, sums are device-milliseconds, so nothing is ever rounded. Pure; time is
passed in.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from bulkhead.api.quotalines import Line
from bulkhead.metering.claimed import Claimed
from bulkhead.metering.held import LONGEST_NAME, Held

HOUR: Final = 3_600_000
_NEVER: Final = 1 << 62
# The most users that are remembered of one claim for a minute; beyond that only its present users count.
_MOST_USERS: Final = 1024
Lines: TypeAlias = Mapping[str, Mapping[str, Line]]  # by tenant and device class: the line of the quota that a device counts in
Resting: TypeAlias = Collection[tuple[str, str]]  # workers without a job: tenant and UID in its plane
_NO_LINES: Final[Lines] = MappingProxyType({})


class UsageKey(NamedTuple):
    """The key of one sum: usage with the same key is added up."""

    tenant: str
    namespace: str
    owner: str
    resource: str
    flavor: str


class Tally(NamedTuple):
    """Device-milliseconds of one account in one hour (hours since 1970)."""

    hour: int
    account: UsageKey
    used: int
    # Held while nothing ran: admitted, bound or reserved but not started, or a Slurm worker without a job.
    idle: int
    # The borrowed part of both.
    borrowed: int
    # Not held: free, but reserved for a waiting workload of the account.
    reserved: int = 0
    # Held while the utilisation of the devices was measured, and the part of that in which they were at work.
    measured: int = 0
    busy: int = 0


@dataclass(slots=True)
class _Known:
    """A pod, until the host no longer has it."""

    held: Held
    counted: int
    end: int = _NEVER
    gone: bool = False


@dataclass(slots=True)
class _KnownClaim:
    """A claim, until it loses its devices."""

    claimed: Claimed
    counted: int
    # Pods for which it was reserved since it was last counted.
    users: set[str] = field(default_factory=set)
    end: int = _NEVER


class Meter:
    """Counts from the moment up to which the store has counted."""

    def __init__(self, until: int) -> None:
        self.until = until
        self._known: dict[str, _Known] = {}
        self._claims: dict[str, _KnownClaim] = {}
        # Claims that have lost their devices, until that time is counted.
        self._left: dict[str, list[_KnownClaim]] = {}

    def see(self, held: Held, *, listed: bool = False) -> None:
        """Take a pod as it is now. If `listed`, it is from the first list and may be counted already; otherwise it is new."""
        known = self._known.get(held.uid)
        if known is None:
            known = self._known[held.uid] = _Known(held, max(self.until, held.since) if listed else held.since)
        # The first times count: containers that restart have later timestamps.
        running = held.running if known.held.running is None else known.held.running
        known.held = replace(held, since=known.held.since, running=running)
        if held.over and known.end == _NEVER:
            known.end = max(known.counted, self.until if held.ended is None else held.ended)

    def gone(self, uid: str, at: int | None) -> None:
        """A pod no longer exists, since `at`, or, if that was not observed, since it was last counted."""
        known = self._known.get(uid)
        if known is not None:
            known.gone = True
            known.end = min(known.end, max(known.counted, self.until if at is None else at))

    def see_claim(self, claimed: Claimed, at: int | None) -> None:
        """Take a claim as it is now. `at` is when its devices were observed; it counts if the host does not report the time."""
        known = self._claims.get(claimed.uid)
        if known is None:
            earlier = max((left.end for left in self._left.get(claimed.uid, ())), default=0)
            known = self._claims[claimed.uid] = _KnownClaim(claimed, max(self.until, earlier, self._given(claimed, at)))
        known.claimed = claimed
        known.users = set(claimed.users).union(() if len(known.users) > _MOST_USERS else known.users)

    def claim_gone(self, uid: str, at: int | None) -> None:
        """A claim no longer has devices, since `at`, or, if that was not observed, since it was last counted."""
        known = self._claims.pop(uid, None)
        if known is not None:
            known.end = max(known.counted, self.until if at is None else at)
            if known.counted < known.end:
                self._left.setdefault(uid, []).append(known)

    def no_claims(self) -> None:
        """The claims are unknown: each counts again from the moment when it is observed again."""
        for uid in tuple(self._claims):
            self.claim_gone(uid, None)

    def account_of(self, uid: str) -> UsageKey | None:
        """The account of a pod with devices of one resource; None for another, since nothing tells whose load it is."""
        known = self._known.get(uid)
        if known is None or len(known.held.devices) != 1:
            return None
        held = known.held
        (resource,) = held.devices
        flavor = "" if resource in held.unflavored else held.flavor
        return UsageKey(held.tenant, held.namespace, held.owner, resource, flavor)

    def count(self, to: int, resting: Resting = (), lines: Lines = _NO_LINES) -> Iterator[Tally]:
        """Everything up to `to` that is not counted yet."""
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
        """Since when a claim has its devices; if the host does not report that, since the first of its pods was bound."""
        bound = (pod.held.since for pod in self._pods_of(claimed, claimed.users))
        stated = claimed.given if claimed.given is not None else at
        return max(claimed.created, min(bound, default=0)) if stated is None else stated

    def _count_claims(self, to: int, resting: Resting, lines: Lines) -> Iterator[Tally]:
        for known in (*self._claims.values(), *(known for left in self._left.values() for known in left)):
            end = min(to, known.end)
            if known.counted < end:
                pods = self._pods_of(known.claimed, known.users)
                yield from _of_claim(known, end, pods, resting, lines.get(known.claimed.tenant, {}))
                known.counted = end
                # A pod that is gone is forgotten once it is counted to its end.
                known.users = {*known.claimed.users, *(pod.held.uid for pod in pods if pod.end > to)}
        kept = ((uid, [known for known in left if known.end > to]) for uid, left in self._left.items())
        self._left = {uid: left for uid, left in kept if left}

    def _pods_of(self, claimed: Claimed, users: Iterable[str]) -> list[_Known]:
        known = (self._known.get(uid) for uid in users)
        return [pod for pod in known if pod is not None and pod.held.tenant == claimed.tenant]


def _rests(held: Held, resting: Resting) -> bool:
    """Whether a pod is a worker without a job, by UID: other pods may have its name, in another namespace or later."""
    return (held.tenant, held.virtual_uid) in resting


def _tallies(held: Held, start: int, end: int, *, rests: bool) -> Iterator[Tally]:
    running = end if held.running is None or rests else held.running
    for hour, begin, stop in hours(start, end):
        idle = min(max(running, begin), stop) - begin
        for resource, devices in held.devices.items():
            flavor = "" if resource in held.unflavored else held.flavor
            account = UsageKey(held.tenant, held.namespace, held.owner, resource, flavor)
            borrowed = held.borrowed.get(resource, 0) * (stop - begin)
            yield Tally(hour, account, devices * (stop - begin - idle), devices * idle, borrowed)


def _of_claim(
    known: _KnownClaim, end: int, pods: Collection[_Known], resting: Resting, lines: Mapping[str, Line]
) -> Iterator[Tally]:
    """A claim's sums up to `end`: its devices are used while any of its pods runs. Claims never borrow."""
    claimed = known.claimed
    owners = {pod.held.owner for pod in pods}
    # A claim that pods of several owners use counts as its own owner.
    owner = owners.pop() if len(owners) == 1 else f"ResourceClaim/{claimed.name}"[:LONGEST_NAME]
    devices: Counter[Line] = Counter()
    for device_class, number in claimed.devices.items():
        devices[lines.get(device_class, ("", device_class))] += number
    runs = [(pod.held.running, pod.end) for pod in pods if pod.held.running is not None and not _rests(pod.held, resting)]
    for hour, begin, stop in hours(known.counted, end):
        used = _covered(begin, stop, runs)
        for (flavor, resource), number in devices.items():
            account = UsageKey(claimed.tenant, claimed.namespace, owner, resource, flavor)
            yield Tally(hour, account, number * used, number * (stop - begin - used), 0)


def _covered(start: int, end: int, spans: Iterable[tuple[int, int]]) -> int:
    """How much of the time from `start` to `end` is inside any of the spans."""
    found = 0
    for begin, stop in sorted(spans):
        found += max(0, min(stop, end) - max(begin, start))
        start = max(start, min(stop, end))
    return found


def hours(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Each hour between `start` and `end`, with the beginning and end of its part."""
    while start < end:
        hour = start // HOUR
        stop = min(end, (hour + 1) * HOUR)
        yield hour, start, stop
        start = stop
