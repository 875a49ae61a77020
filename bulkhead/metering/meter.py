"""Counts how long pods and claims hold devices: each second of each of them once, also over gaps, restarts and clock jumps.

    host pod ──> held_of ──> Held: tenant, devices, since when, running since, end ───┐
    host claim ──> claimed_of ──> Claimed: tenant, devices, since when, its pods ─────┤
    the store says: counted up to here ──> Meter <── see, gone ───────────────────────┘
                                             └── count(to) ──> Tallies by the hour, for `usagebook`; counted up to `to`

An interval is one of a pod's UID and of time. What was counted is what lies before `until`, for all pods alike, so that no list
of counted pods is needed. The ends of intervals are the host's own stamps. A pod of which only the absence
is known, as after a gap, ended when it was last counted. A claim may be given devices, lose them, and get others: each time is
an interval of its own, and none reaches back before `until`. Times are whole milliseconds since 1970, sums are
device-milliseconds, so nothing is ever rounded. Pure; time is passed in.
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
# Of one claim, users of a minute; more than that are those that it has now.
_MOST_USERS: Final = 1024
Lines: TypeAlias = Mapping[str, Mapping[str, Line]]  # by tenant and device class: the line of the quota that a device counts in
Resting: TypeAlias = Collection[tuple[str, str]]  # workers without a job: tenant and UID in its plane
_NO_LINES: Final[Lines] = MappingProxyType({})


class UsageKey(NamedTuple):
    """What is summed up by itself."""

    tenant: str
    namespace: str
    owner: str
    resource: str
    flavor: str


class Tally(NamedTuple):
    """Device-milliseconds of one account in one hour (since 1970)."""

    hour: int
    account: UsageKey
    used: int
    # Held, and nothing ran: admitted, bound or reserved and not started, or a worker of Slurm without a job.
    idle: int
    # Of both, what was borrowed.
    borrowed: int
    # Not held: free, and reserved for a workload of the account's that waits.
    reserved: int = 0


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
        # Since when it is held and running does not change: containers that start again have later stamps.
        running = held.running if known.held.running is None else known.held.running
        known.held = replace(held, since=known.held.since, running=running)
        if held.over and known.end == _NEVER:
            known.end = max(known.counted, self.until if held.ended is None else held.ended)

    def gone(self, uid: str, at: int | None) -> None:
        """A pod is no longer there: since then, or, if that was not seen, since it was last counted."""
        known = self._known.get(uid)
        if known is not None:
            known.gone = True
            known.end = min(known.end, max(known.counted, self.until if at is None else at))

    def see_claim(self, claimed: Claimed, at: int | None) -> None:
        """A claim as it is now. `at` is when it was seen to get its devices; it counts if the host does not say it."""
        known = self._claims.get(claimed.uid)
        if known is None:
            earlier = max((left.end for left in self._left.get(claimed.uid, ())), default=0)
            known = self._claims[claimed.uid] = _KnownClaim(claimed, max(self.until, earlier, self._given(claimed, at)))
        known.claimed = claimed
        known.users = set(claimed.users).union(() if len(known.users) > _MOST_USERS else known.users)

    def claim_gone(self, uid: str, at: int | None) -> None:
        """A claim has nothing any more: since then, or, if that was not seen, since it was last counted."""
        known = self._claims.pop(uid, None)
        if known is not None:
            known.end = max(known.counted, self.until if at is None else at)
            if known.counted < known.end:
                self._left.setdefault(uid, []).append(known)

    def no_claims(self) -> None:
        """It is unknown what claims have: each is counted again from when it is seen again."""
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
        """Since when a claim has what it has; if the host does not say so, since the first of its pods was bound."""
        bound = (pod.held.since for pod in self._pods_of(claimed, claimed.users))
        said = claimed.given if claimed.given is not None else at
        return max(claimed.created, min(bound, default=0)) if said is None else said

    def _count_claims(self, to: int, resting: Resting, lines: Lines) -> Iterator[Tally]:
        for known in (*self._claims.values(), *(known for left in self._left.values() for known in left)):
            end = min(to, known.end)
            if known.counted < end:
                pods = self._pods_of(known.claimed, known.users)
                yield from _of_claim(known, end, pods, resting, lines.get(known.claimed.tenant, {}))
                known.counted = end
                # Who has left is done with once it is counted to its end.
                known.users = {*known.claimed.users, *(pod.held.uid for pod in pods if pod.end > to)}
        kept = ((uid, [known for known in left if known.end > to]) for uid, left in self._left.items())
        self._left = {uid: left for uid, left in kept if left}

    def _pods_of(self, claimed: Claimed, users: Iterable[str]) -> list[_Known]:
        known = (self._known.get(uid) for uid in users)
        return [pod for pod in known if pod is not None and pod.held.tenant == claimed.tenant]


def _rests(held: Held, resting: Resting) -> bool:
    """Whether a pod is a worker without a job. Others may have its name, in another namespace or after it."""
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
    """What a claim had up to then: used while any of its pods ran. None borrows."""
    claimed = known.claimed
    owners = {pod.held.owner for pod in pods}
    # A claim that several unrelated owners use counts as its own.
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
    """How much of that time lies in any of the spans."""
    found = 0
    for begin, stop in sorted(spans):
        found += max(0, min(stop, end) - max(begin, start))
        start = max(start, min(stop, end))
    return found


def hours(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Each hour of that time, and which part of it."""
    while start < end:
        hour = start // HOUR
        stop = min(end, (hour + 1) * HOUR)
        yield hour, start, stop
        start = stop
