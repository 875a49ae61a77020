"""For how long free devices were reserved for waiting workloads: each second of each device once.

    ReservedRoom, as admission says it now ──> ReservedMeter.see(rooms, at) ──> held against the hours since the last call
                                                           └── count() ──> Tallies by the hour

The host's API does not say since when room is reserved, so this process counts only what it was told: what one decision
reserves counts until the next decision, which confirms or releases it. A decision that comes too late confirms nothing,
because the process may have been stopped while another one led. After a restart, counting begins with the first decision. So
a second is never counted twice, and seconds of which nothing is known are not charged to any tenant. Pure; time is passed in.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from bulkhead.api.quotalines import ReservedRoom
from bulkhead.metering.meter import Tally, UsageKey, hours

OTHERS: Final = "*"
# The longest time, in milliseconds, for which one decision counts: the ledger decides at least every half minute.
_LONGEST_BETWEEN_DECISIONS: Final = 120_000
# The most sums, of an hour and a key each, that are kept until they are counted; what is beyond keeps its tenant alone.
_MOST_SUMS: Final = 4096


class ReservedMeter:
    """Counts what is reserved, for as long as one process leads."""

    def __init__(self) -> None:
        self._reserved: Counter[UsageKey] = Counter()
        self._since = 0
        # Device-milliseconds that are not counted yet, by hour.
        self._sums: dict[tuple[int, UsageKey], int] = {}

    def see(self, rooms: Iterable[ReservedRoom], at: int) -> None:
        """What is reserved from `at` on, in milliseconds since 1970; until now it was what the last call said."""
        if at - self._since <= _LONGEST_BETWEEN_DECISIONS:
            for hour, begin, stop in hours(self._since, at) if self._reserved else ():
                for key, devices in self._reserved.items():
                    self._add(hour, key, devices * (stop - begin))
        self._since = max(self._since, at)
        self._reserved = Counter()
        for room in rooms:
            for (flavor, resource), devices in room.devices.items():
                self._reserved[UsageKey(room.tenant, room.namespace, room.owner, resource, flavor)] += devices

    def count(self) -> Iterator[Tally]:
        """All that is known and not counted yet."""
        sums, self._sums = self._sums, {}
        for (hour, key), amount in sums.items():
            yield Tally(hour, key, used=0, idle=0, borrowed=0, reserved=amount)

    def _add(self, hour: int, key: UsageKey, amount: int) -> None:
        if (hour, key) not in self._sums and len(self._sums) >= _MOST_SUMS:
            key = key._replace(namespace=OTHERS, owner=OTHERS)
        self._sums[hour, key] = self._sums.get((hour, key), 0) + amount
