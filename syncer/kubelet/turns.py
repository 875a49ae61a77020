"""Documents of metrics are made one at a time, and at the most for a fifth of the time.

A page is text about thousands of containers, made on the event loop that mirrors pods. A tenant that asks for one after the
other would keep its own syncer from its work.

    page, list, page, ... ──> one is made ──> four times as long nothing ──> the next is made
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from bulkhead.work.clock import Clock
from syncer.http1 import BadRequestError

T = TypeVar("T")

REST: Final = 4.0
_WAIT_SECONDS: Final = 10.0


class Turns:
    """The turns of all callers of a syncer, in their order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._one = asyncio.Lock()
        self._free_at = clock.monotonic()

    async def make(self, render: Callable[[], T]) -> T:
        """What `render` makes, once it is this caller's turn; BadRequestError (503) if that does not come in ten seconds."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS), self._one:
                await self._clock.sleep(max(0.0, self._free_at - self._clock.monotonic()))
                began = self._clock.monotonic()
                try:
                    return render()
                finally:
                    ended = self._clock.monotonic()
                    self._free_at = ended + (ended - began) * REST
        except TimeoutError as error:
            raise BadRequestError(503, "metrics: too much is asked for at once; ask less often") from error
