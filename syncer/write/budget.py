"""The budget of requests to the host API: token buckets of writes, of their bytes, and of reads.

A tenant can make its objects change as fast as it likes; the host sees no more than this. Waiters are served in order. What a
write costs in bytes is what the host's store keeps of it, the whole object, however small the patch; that is known when it is
done, so bytes are paid afterwards and the next write waits until there is something left.

Reads past the caches have a bucket of their own: statuses that a tenant forges have the host asked which pod it really has.
"""

import asyncio
from typing import Final

from bulkhead.work.clock import Clock
from syncer import metrics

# A pod is two writes. Less than this and the budget, not the host, decides how fast a tenant starts a job of a hundred pods.
RATE: Final = 150.0
BURST: Final = 300.0
# The host keeps every version for five minutes and more: at this rate one tenant fills less than a tenth of a store of 2 GiB.
# The burst is a job of a thousand ordinary pods.
BYTE_RATE: Final = 512.0 * 1024
BYTE_BURST: Final = 16.0 * 1024 * 1024
# Of one object each. As many pods as end at once are read once each.
READ_RATE: Final = 100.0
READ_BURST: Final = 1000.0


class WriteBudget:
    """`await budget.take()` before each write, `budget.spend(size)` after it; `await budget.take_read()` before each read."""

    def __init__(
        self,
        clock: Clock,
        *,
        rate: float = RATE,
        burst: float = BURST,
        byte_rate: float = BYTE_RATE,
        byte_burst: float = BYTE_BURST,
        read_rate: float = READ_RATE,
        read_burst: float = READ_BURST,
    ) -> None:
        if min(rate, byte_rate) <= 0 or min(burst, byte_burst) < 1:
            raise ValueError(f"write budget: rates {rate}, {byte_rate} and bursts {burst}, {byte_burst} must be positive")
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._byte_rate = byte_rate
        self._byte_burst = byte_burst
        self._tokens = burst
        self._bytes = byte_burst
        self._filled = clock.monotonic()
        self._turn = asyncio.Lock()
        self._read_rate = read_rate
        self._read_burst = read_burst
        self._reads = read_burst

    async def take(self, *, urgent: bool = False) -> None:
        """Wait until one write is allowed. An urgent write does not wait; later ones wait longer for it."""
        if urgent:
            self._refill()
            self._tokens -= 1.0
            return
        async with self._turn:
            self._refill()
            # A bucket of bytes may owe: as long as anything is left in it, one more write may go.
            wait = max((1.0 - self._tokens) / self._rate, (1.0 - self._bytes) / self._byte_rate)
            if wait > 0:
                metrics.BUDGET_WAIT.inc(wait)
                await self._clock.sleep(wait)
                self._refill()
            self._tokens -= 1.0

    async def take_read(self) -> None:
        """Wait until one read is allowed. Readers wait in their order, since each takes its own before it waits."""
        self._refill()
        self._reads -= 1.0
        wait = -self._reads / self._read_rate
        if wait > 0:
            metrics.BUDGET_WAIT.inc(wait)
            await self._clock.sleep(wait)

    def spend(self, size: int) -> None:
        """Pay for the bytes of a write that is done."""
        self._refill()
        self._bytes -= size
        metrics.HOST_BYTES.inc(size)

    def _refill(self) -> None:
        now = self._clock.monotonic()
        passed = now - self._filled
        self._tokens = min(self._burst, self._tokens + passed * self._rate)
        self._bytes = min(self._byte_burst, self._bytes + passed * self._byte_rate)
        self._reads = min(self._read_burst, self._reads + passed * self._read_rate)
        self._filled = now
