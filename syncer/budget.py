"""The budget of writes to the host API: a token bucket that every host write passes.

A tenant can make its objects change as fast as it likes; the host sees no more than this. Waiters are served in order.
"""

import asyncio
from typing import Final

from bulkhead.work.clock import Clock
from syncer import metrics

# A pod is two writes. Less than this and the budget, not the host, decides how fast a tenant starts a job of a hundred pods.
RATE: Final = 150.0
BURST: Final = 300.0


class WriteBudget:
    """`await budget.take()` before each write."""

    def __init__(self, clock: Clock, *, rate: float = RATE, burst: float = BURST) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"write budget: rate {rate} and burst {burst} must be positive")
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._filled = clock.monotonic()
        self._turn = asyncio.Lock()

    async def take(self) -> None:
        """Wait until one write is allowed."""
        async with self._turn:
            self._refill()
            missing = 1.0 - self._tokens
            if missing > 0:
                wait = missing / self._rate
                metrics.BUDGET_WAIT.inc(wait)
                await self._clock.sleep(wait)
                self._refill()
            self._tokens -= 1.0

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate)
        self._filled = now
