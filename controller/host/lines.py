"""Requests in lines, one line for each requester, so that a requester with a thousand requests delays no other one.

    add ──> the requester's line ──> take, the lines in turn ──> worked on ──> done ──┬── again in a while ──> its line
                                                                                     └── out

Only one request of a line is worked on at a time, so with several workers others are always served. Every number is bounded: a
request that finds no place is refused, and a patrol that looks at all requests from time to time adds it again.
"""

from collections import OrderedDict
from typing import Final

from bulkhead.work.clock import Clock
from bulkhead.work.queue import KeyedQueue, Lane

MOST_LINES: Final = 2000
MOST_WAITING_IN_LINE: Final = 256
MOST_WAITING: Final = 10_000


class Lines:
    """The lines of one process. It belongs to one event loop."""

    def __init__(self, clock: Clock, *, most_in_line: int = MOST_WAITING_IN_LINE, most: int = MOST_WAITING) -> None:
        self._clock = clock
        self._most_in_line = most_in_line
        self._most = most
        # Requesters in the order of their turns; a requester that is being served is not handed out again.
        self._turns: KeyedQueue[str] = KeyedQueue(max_keys=MOST_LINES, clock=clock)
        # The waiting requests of each requester, with the time from which each may be worked on.
        self._lines: dict[str, OrderedDict[str, float]] = {}
        self._waiting = 0

    def __len__(self) -> int:
        """The number of waiting requests of all requesters."""
        return self._waiting

    def add(self, requester: str, name: str, lane: Lane = Lane.FRESH) -> bool:
        """Put a request at the end of its requester's line; False if there is no place."""
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
        """Wait for the next requester's turn; returns it and its first request. Pair each call with `done`."""
        while True:
            requester = await self._turns.get()
            now = self._clock.monotonic()
            for name, due in self._lines.get(requester, {}).items():
                if due <= now:
                    self._leave(requester, name)
                    return requester, name
            self._next(requester)

    def done(self, requester: str, name: str, again: float | None = None) -> None:
        """End the work on a request. `again`: the request returns to the end of its line after so many seconds."""
        if again is not None and self._waiting < self._most:
            line = self._lines.setdefault(requester, OrderedDict())
            if name not in line:
                self._waiting += 1
                line[name] = self._clock.monotonic() + again
        self._next(requester)

    def _next(self, requester: str) -> None:
        """End a requester's turn; if it has more requests, it queues again."""
        if line := self._lines.get(requester):
            wait = min(line.values()) - self._clock.monotonic()
            # Before its turn ends: a known requester takes no new place.
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
