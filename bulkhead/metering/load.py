"""Counts how much of the time that pods held devices the devices were at work.

    each pod's devices and their utilisation ──> LoadMeter.see(loads, at) ──> since the last call, by hour and pod
                                                        └── count(accounts) ──> Tallies by the hour

What one measurement shows counts until the next, but for two minutes at most: what was not measured since is not known, and
counts neither as work nor as idleness. A restart loses what was not stored, and invents nothing. Pure; time is passed in.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from bulkhead.metering.meter import Tally, UsageKey, hours

_LONGEST_BETWEEN_MEASUREMENTS: Final = 120_000
_MOST_SUMS: Final = 65_536
MOST_DEVICES: Final = 64

Accounts: TypeAlias = Callable[[str], UsageKey | None]  # of a host pod by its UID


class Load(NamedTuple):
    """How many of a pod's devices are measured, and the sum of their utilisation, each from 0 to 1."""

    devices: int
    busy: float

    @classmethod
    def of(cls, devices: int, busy: float) -> "Load":
        """A load within its bounds: a source may report more than a device can do."""
        devices = min(max(devices, 0), MOST_DEVICES)
        return cls(devices, 0.0 if math.isnan(busy) else min(max(busy, 0.0), float(devices)))


class LoadMeter:
    """Counts loads while one process leads."""

    def __init__(self) -> None:
        self._loads: Mapping[str, Load] = {}
        self._since = 0
        # Measured and busy device-milliseconds that are not counted yet.
        self._sums: dict[tuple[int, str], tuple[int, int]] = {}

    def see(self, loads: Mapping[str, Load], at: int) -> None:
        """Take the loads by the pods' UIDs from `at` on (milliseconds since 1970); those of the last call count until `at`."""
        if 0 < at - self._since <= _LONGEST_BETWEEN_MEASUREMENTS:
            for hour, begin, stop in hours(self._since, at) if self._loads else ():
                for uid, load in self._loads.items():
                    self._add((hour, uid), load, stop - begin)
        self._since = max(self._since, at)
        self._loads = loads

    def count(self, accounts: Accounts) -> Iterator[Tally]:
        """Everything that is not counted yet; of pods without an account nothing."""
        sums, self._sums = self._sums, {}
        for (hour, uid), (measured, busy) in sums.items():
            account = accounts(uid)
            if account is not None:
                yield Tally(hour, account, used=0, idle=0, borrowed=0, measured=measured, busy=busy)

    def _add(self, key: tuple[int, str], load: Load, milliseconds: int) -> None:
        if key in self._sums or len(self._sums) < _MOST_SUMS:
            measured, busy = self._sums.get(key, (0, 0))
            most = load.devices * milliseconds
            self._sums[key] = (measured + most, busy + min(round(load.busy * milliseconds), most))
