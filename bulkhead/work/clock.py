"""Time as an argument: what waits or measures takes a Clock, so that tests own the time.

`SystemClock` is the machine's; tests bring one that stands still until they advance it.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Final, Protocol

# Of Linux alone. CLOCK_MONOTONIC, which is behind `time.monotonic`, stands still there while the machine is suspended.
_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """The three things that code may ask of time."""

    def now(self) -> datetime:
        """Wall clock, UTC: for what people and other machines read."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards: for everything that is measured."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class MachineClock(Clock, Protocol):
    """A machine's clock: it also knows how much time has passed while the machine was suspended."""

    def elapsed(self) -> float:
        """Seconds that never run backwards and go on while the machine is suspended: to hold a wall clock against."""
        ...


class SystemClock:
    """The real thing."""

    def now(self) -> datetime:
        """Wall clock, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def elapsed(self) -> float:
        """Monotonic seconds, with those of suspensions where the kernel counts them."""
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
