"""How long to wait before trying again: exponential, spread, forgetful after health.

Never sleeps itself. `PerKeyBackoff` keeps one row per failing key, bounded, so one key's failures never slow another.
"""

import random
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from bulkhead.work.remembered import Remembered

K = TypeVar("K", bound=Hashable)
_MAX_EXPONENT = 32


class Backoff:
    """One row of delays."""

    def __init__(
        self,
        initial: float = 0.8,
        maximum: float = 30.0,
        *,
        factor: float = 2.0,
        jitter: float = 0.5,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        if not (0 < initial <= maximum and factor >= 1 and 0 <= jitter <= 1):
            raise ValueError(f"backoff: initial {initial}, maximum {maximum}, factor {factor}, jitter {jitter}")
        self._initial = initial
        self._maximum = maximum
        self._factor = factor
        self._jitter = jitter
        self._uniform = uniform
        self.failures = 0

    def next(self) -> float:
        """Count a failure and return the seconds to wait: `jitter` of the delay is taken off at most."""
        delay = delay_after(self.failures, self._initial, self._maximum, self._factor)
        self.failures += 1
        return delay * self._uniform(1 - self._jitter, 1)

    def reset(self) -> None:
        """Start over: it works again."""
        self.failures = 0


class PerKeyBackoff(Generic[K]):
    """A row of delays for each key."""

    def __init__(
        self,
        initial: float = 0.005,
        maximum: float = 60.0,
        *,
        factor: float = 2.0,
        jitter: float = 1.0,
        max_keys: int = 100_000,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._make = partial(Backoff, initial, maximum, factor=factor, jitter=jitter, uniform=uniform)
        self._rows: Remembered[K, Backoff] = Remembered(max_keys)

    def __len__(self) -> int:
        return len(self._rows)

    def next(self, key: K) -> float:
        """Count a failure of the key and return the seconds to wait."""
        row = self._rows.get(key) or self._make()
        # The longest untouched row may go for it: that key only starts over.
        self._rows[key] = row
        return row.next()

    def failures(self, key: K) -> int:
        """How often the key failed in a row."""
        row = self._rows.get(key)
        return row.failures if row else 0

    def failing(self) -> tuple[K, ...]:
        """The keys that failed last time, the longest untouched first."""
        return tuple(self._rows)

    def forget(self, key: K) -> None:
        """The key succeeded, or is gone."""
        self._rows.pop(key, None)


def delay_after(failures: int, initial: float, maximum: float, factor: float) -> float:
    """Seconds to wait after so many failures, before any spreading."""
    return float(min(maximum, initial * factor ** min(failures, _MAX_EXPONENT)))
