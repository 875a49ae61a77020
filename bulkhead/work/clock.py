"""Time as an argument: what waits or measures takes a Clock, so that tests own the time.

`SystemClock` is the machine's; tests bring one that stands still until they advance it.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


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


class SystemClock:
    """The real thing."""

    def now(self) -> datetime:
        """Wall clock, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
