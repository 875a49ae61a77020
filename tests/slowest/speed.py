"""How fast this machine computes while a run lasts, since a shared one can be three times slower at one hour than at the next.

    every thirty seconds: CPU time of half a million additions ── the median of all, the least and the most

It counts CPU time of the thread, so other processes of this machine do not show as far as they only take turns. What shows
has no counter: other users of the same core, other virtual machines, the clock rate. Two runs that differ in this figure
are not comparable by their seconds, neither by the clock nor of CPU.
"""

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

PERIOD_SECONDS: Final = 30.0
# Some 20 ms of CPU: nothing beside a run, and much more than a thread's switch.
_ADDITIONS: Final = 500_000
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Speed:
    """Milliseconds of CPU that a million additions took, at each look."""

    looks: Sequence[float] = field(default_factory=tuple)


def measured() -> float:
    """Milliseconds of CPU for a million additions now."""
    begun = time.thread_time()
    total = 0
    for number in range(_ADDITIONS):
        total += number
    return (time.thread_time() - begun) * 1000 * _MILLION / _ADDITIONS


def sentence(speed: Speed) -> str:
    """Text for a run's summary."""
    looks = speed.looks
    return (
        f"speed of the machine: {statistics.median(looks):.0f} ms of CPU for a million additions in Python "
        f"({len(looks)} looks, {min(looks):.0f} to {max(looks):.0f})"
    )


class Looks:
    """Looks from `start` to `stop`, in a thread."""

    def __init__(self, measure: Callable[[], float] = measured) -> None:
        self._measure = measure
        self._found: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="speed", daemon=True)

    def start(self) -> Self:
        """Begin with a first look."""
        self._thread.start()
        return self

    def _run(self) -> None:
        while True:
            self._found.append(round(self._measure(), 1))
            if self._over.wait(PERIOD_SECONDS):
                return

    def stop(self) -> Speed:
        """All that was seen; at least one look, once it has been started."""
        self._over.set()
        self._thread.join()
        return Speed(tuple(self._found))
