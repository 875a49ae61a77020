"""Requests in lines, one line for each requester: who files a thousand keeps nobody else waiting.

    add ──> the requester's line ──> take, the lines in turn ──> worked on ──> done ──┬── again in a while ──> its line
                                                                                     └── out

Of one line one request is worked on at a time, so workers that are more than one always have time for others. Every number is
bounded: what finds no place is refused, and whoever looks at all requests from time to time adds it again.
"""

from collections import OrderedDict
from typing import Final

from bulkhead.work.clock import Clock
from bulkhead.work.queue import KeyedQueue, Lane

MOST_LINES: Final = 2000
MOST_WAITING_IN_LINE: Final = 256
MOST_WAITING: Final = 10_000


class Lines:
    """The lines of one process. Belongs to one event loop."""

    def __init__(self, clock: Clock, *, most_in_line: int = MOST_WAITING_IN_LINE, most: int = MOST_WAITING) -> None:
        self._clock = clock
        self._most_in_line = most_in_line
        self._most = most
        # Requesters whose turn it is, in order; one that is worked for is in no second hand.
        self._turns: KeyedQueue[str] = KeyedQueue(max_keys=MOST_LINES, clock=clock)
        # Of each requester the requests that wait, with the moment from which each may be worked on.
        self._lines: dict[str, OrderedDict[str, float]] = {}
        self._waiting = 0

    def __len__(self) -> int:
        """Requests that wait, of all requesters."""
        return self._waiting

    def add(self, requester: str, name: str, lane: Lane = Lane.FRESH) -> bool:
        """Put a request at the end of its requester's line; False where there is no place."""
        line = self._lines.get(requester, OrderedDict())
        if name in line:
            line[name] = min(line[name], self._clock.monotonic())
        elif len(line) >= self._most_in_line or self._waiting >= self._most:
            return False
        else:
            line[name] = self._clock.monotonic()
            self._waiting += 1
        self._lines[requester] = line
        if self._turns.add(requester, lane):
            return True
        self._leave(requester, name)
        return False

    async def take(self) -> tuple[str, str]:
        """Wait for the next requester's turn; returns it and the first of its requests. Pair it with `done`."""
        while True:
            requester = await self._turns.get()
            now = self._clock.monotonic()
            for name, due in self._lines.get(requester, {}).items():
                if due <= now:
                    self._leave(requester, name)
                    return requester, name
            self._next(requester)

    def done(self, requester: str, name: str, again: float | None = None) -> None:
        """End the work on a request; `again`: it comes back to the end of its line, in so many seconds."""
        if again is not None and self._waiting < self._most:
            line = self._lines.setdefault(requester, OrderedDict())
            if name not in line:
                self._waiting += 1
                line[name] = self._clock.monotonic() + again
        self._next(requester)

    def _next(self, requester: str) -> None:
        """Give back a requester's turn, and stand in line again for what it has left."""
        if line := self._lines.get(requester):
            wait = min(line.values()) - self._clock.monotonic()
            # Before its turn ends: a requester that is known takes no new place.
            if wait <= 0:
                self._turns.add(requester)
            self._turns.done(requester)
            if wait > 0:
                self._turns.add_after(requester, wait)
        else:
            self._turns.done(requester)

    def _leave(self, requester: str, name: str) -> None:
        line = self._lines[requester]
        del line[name]
        self._waiting -= 1
        if not line:
            del self._lines[requester]
