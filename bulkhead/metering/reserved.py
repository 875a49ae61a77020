"""Counts how long free devices were reserved for waiting workloads: each second of each device once.

    ReservedRoom of the present decision ──> ReservedMeter.see(rooms, at) ──> added to the hours since the last call
                                                        └── count() ──> Tallies by the hour

The host's API does not show since when room is reserved, so this process counts only decisions that it received. The
reservations of one decision count until the next decision, which confirms or releases them. A decision that comes too late
confirms nothing, because the process may have been stopped while another one led. After a restart, counting begins with the
first decision. So no second is counted twice, and unknown seconds are not charged to any tenant. Pure; time is passed in.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from bulkhead.api.quotalines import ReservedRoom
from bulkhead.metering.meter import Tally, UsageKey, hours

OTHERS: Final = "*"
# The longest time, in milliseconds, for which one decision counts: the ledger decides at least every half minute.
_LONGEST_BETWEEN_DECISIONS: Final = 120_000
# The most sums, each for one hour and key, that are kept until they are counted; beyond that only the tenant is kept.
_MOST_SUMS: Final = 4096


class ReservedMeter:
    """Counts reservations while one process leads."""

    def __init__(self) -> None:
        self._reserved: Counter[UsageKey] = Counter()
        self._since = 0
        # Device-milliseconds that are not counted yet, by hour.
        self._sums: dict[tuple[int, UsageKey], int] = {}

    def see(self, rooms: Iterable[ReservedRoom], at: int) -> None:
        """Take the reservations from `at` on (milliseconds since 1970); those of the last call count until `at`."""
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
        """Everything known that is not counted yet."""
        sums, self._sums = self._sums, {}
        for (hour, key), amount in sums.items():
            yield Tally(hour, key, used=0, idle=0, borrowed=0, reserved=amount)

    def _add(self, hour: int, key: UsageKey, amount: int) -> None:
        if (hour, key) not in self._sums and len(self._sums) >= _MOST_SUMS:
            key = key._replace(namespace=OTHERS, owner=OTHERS)
        self._sums[hour, key] = self._sums.get((hour, key), 0) + amount
