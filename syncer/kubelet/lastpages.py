"""The last page of each virtual node's metrics, for five seconds: a caller that asks again meanwhile gets the same text.

Of each kind of page one is made at a time, so that many callers of a page wait for one text instead of making it each.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from bulkhead.work.clock import Clock
from syncer.http1 import BadRequestError
from syncer.kubelet.routes import NODE_PAGES, NodePage

KEPT_SECONDS: Final = 5.0
KEPT_BYTES: Final = 8 << 20
_WAIT_SECONDS: Final = 15.0

MakePage = Callable[[NodePage, str], Awaitable[bytes]]


class LastPages:
    """Asks `make` for a page that is not kept; what it raises is not kept."""

    def __init__(self, make: MakePage, clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._one: dict[NodePage, asyncio.Lock] = {about: asyncio.Lock() for about in NODE_PAGES}
        # With the time of each, the oldest first.
        self._kept: OrderedDict[tuple[NodePage, str], tuple[float, bytes]] = OrderedDict()
        self._bytes = 0

    async def page(self, about: NodePage, node: str) -> bytes:
        """The page, or BadRequestError."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS), self._one[about]:
                self._forget(self._clock.monotonic() - KEPT_SECONDS)
                kept = self._kept.get((about, node))
                return kept[1] if kept else self._keep(about, node, await self._make(about, node))
        except TimeoutError as error:
            raise BadRequestError(503, "metrics: too many pages are asked for at once; ask less often") from error

    def _keep(self, about: NodePage, node: str, text: bytes) -> bytes:
        self._kept[about, node] = (self._clock.monotonic(), text)
        self._bytes += len(text)
        return text

    def _forget(self, before: float) -> None:
        while self._kept:
            key, (at, text) = next(iter(self._kept.items()))
            if at > before and self._bytes <= KEPT_BYTES:
                return
            self._bytes -= len(text)
            del self._kept[key]
