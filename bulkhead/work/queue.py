"""A queue of keys, not of events: what is dirty is worked on, once, by one worker at a time.

The contract is that of client-go's workqueue. A key that is added while it is worked on comes again after `done`; adding it
twice before is once. Two lanes: `fresh` for news, `backfill` for lists and patrols, so that a relist of thousands never
starves a user who waits; every eighth key comes from backfill even so. Never two workers on one key, never a lost key:
a full queue refuses a new key by returning False and counts it, and the caller's patrol finds the object later.

    add ──> dirty, lane ──> get ──> processing ──> done ──┬── added meanwhile ──> lane
    add_after ──> delayed ── due ──> dirty, lane          └── else ──> forgotten

No await stands between a check and its change, so there is no lock.
"""

import asyncio
import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

from bulkhead.work.clock import Clock, SystemClock

K = TypeVar("K", bound=Hashable)
_BACKFILL_SHARE = 8


class Lane(Enum):
    """How soon a key should be worked on."""

    FRESH = "fresh"
    BACKFILL = "backfill"


class QueueClosed(Exception):  # noqa: N818 -- reads as a state
    """The queue was closed and is empty: the worker may go."""


class KeyedQueue(Generic[K]):
    """The queue. Belongs to one event loop."""

    def __init__(self, *, max_keys: int = 100_000, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._max_keys = max_keys
        # Keys that wait, in order, with the time they came.
        self._lanes: dict[Lane, OrderedDict[K, float]] = {Lane.FRESH: OrderedDict(), Lane.BACKFILL: OrderedDict()}
        # Keys that were added again while they are worked on.
        self._again: dict[K, Lane] = {}
        self._processing: dict[K, float] = {}
        self._due: dict[K, tuple[float, Lane]] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._sequence = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._turn = 0
        self._closed = False
        self.added = 0
        self.refused = 0
        # How long the key that `get` gave last had waited.
        self.waited = 0.0

    def __len__(self) -> int:
        """Keys that wait now; those in work and those delayed are not counted."""
        return sum(len(lane) for lane in self._lanes.values())

    @property
    def delayed(self) -> int:
        """Keys that wait for their time."""
        return len(self._due)

    @property
    def processing(self) -> int:
        """Keys in work."""
        return len(self._processing)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is in work; delayed keys do not count."""
        return not len(self) and not self._processing

    def holds(self, key: K) -> bool:
        """Whether a key waits, also for its time, or is in work."""
        return key in self._processing or key in self._due or any(key in lane for lane in self._lanes.values())

    def longest_running(self) -> float:
        """Seconds that the longest key in work is worked on."""
        now = self._clock.monotonic()
        return max((now - since for since in self._processing.values()), default=0.0)

    # -- adding

    def add(self, key: K, lane: Lane = Lane.FRESH) -> bool:
        """Mark a key dirty. False when the queue is closed, or full and the key is new."""
        if self._closed:
            return False
        if key in self._processing:
            # A key that is known already takes no new place, so the bound does not refuse it.
            if self._again.get(key) is not Lane.FRESH:
                self._again[key] = lane
            self.added += 1
            return True
        return self._enqueue(key, lane)

    def add_after(self, key: K, seconds: float, lane: Lane = Lane.FRESH) -> bool:
        """Mark a key dirty in so many seconds; of several times the earliest counts."""
        if seconds <= 0:
            return self.add(key, lane)
        if self._closed:
            return False
        when = self._clock.monotonic() + seconds
        held = self._due.get(key)
        if held is None and self._full():
            self.refused += 1
            return False
        if held is not None and held[0] <= when:
            return True
        self._due[key] = (when, lane)
        heapq.heappush(self._timers, (when, next(self._sequence), key))
        self._set_alarm()
        return True

    def promote(self) -> None:
        """Move the keys whose time has come; runs by itself, and by hand under a fake clock."""
        now = self._clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            when, _, key = heapq.heappop(self._timers)
            held = self._due.get(key)
            if held is None or held[0] != when:
                # Superseded by an earlier time.
                continue
            del self._due[key]
            if key in self._processing:
                self.add(key, held[1])
            else:
                # It has held a place since `add_after`: the bound was checked then.
                self._enqueue(key, held[1], bounded=False)
        self._set_alarm()

    def _full(self) -> bool:
        return len(self) + len(self._due) >= self._max_keys

    def _enqueue(self, key: K, lane: Lane, *, bounded: bool = True) -> bool:
        for held in Lane:
            if key in self._lanes[held]:
                if held is Lane.BACKFILL and lane is Lane.FRESH:
                    self._lanes[Lane.FRESH][key] = self._lanes[held].pop(key)
                self.added += 1
                return True
        if bounded and self._full():
            self.refused += 1
            return False
        self._lanes[lane][key] = self._clock.monotonic()
        self.added += 1
        self._wake()
        return True

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._timers and self._stale(self._timers[0]):
            heapq.heappop(self._timers)
        if self._timers and not self._closed:
            delay = max(0.0, self._timers[0][0] - self._clock.monotonic())
            self._alarm = asyncio.get_running_loop().call_later(delay, self.promote)

    def _stale(self, timer: tuple[float, int, K]) -> bool:
        held = self._due.get(timer[2])
        return held is None or held[0] != timer[0]

    # -- working

    async def get(self) -> K:
        """Wait for the next key and take it into work; pair it with `done`."""
        while not len(self):
            if self._closed:
                raise QueueClosed
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    # We were woken and cancelled at once: pass the wake-up on, or a key lies there unseen.
                    self._wake()
                elif waiter in self._waiters:
                    self._waiters.remove(waiter)
                raise
        return self._take()

    def done(self, key: K) -> None:
        """End the work on a key; it comes again if it was added meanwhile."""
        if self._processing.pop(key, None) is None:
            raise ValueError(f"done without get: {key!r}")
        lane = self._again.pop(key, None)
        if lane is not None:
            # Past the bound on purpose: this key held its place all along.
            self._lanes[lane][key] = self._clock.monotonic()
            self._wake()

    def close(self) -> None:
        """Take no more keys; workers get what waits, then QueueClosed."""
        self._closed = True
        self._due.clear()
        self._timers.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def _take(self) -> K:
        fresh, backfill = self._lanes[Lane.FRESH], self._lanes[Lane.BACKFILL]
        self._turn = (self._turn + 1) % _BACKFILL_SHARE
        lane = backfill if backfill and (not fresh or self._turn == 0) else fresh
        key, since = lane.popitem(last=False)
        now = self._processing[key] = self._clock.monotonic()
        self.waited = now - since
        return key

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
