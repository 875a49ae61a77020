"""What may go wrong, and when: armed one by one for a later call, or drawn at a rate from a seeded source.

A call fails before it takes effect (nothing happened), or after it (it happened, but the answer is lost). A watch ends, breaks,
lies.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

F = TypeVar("F", bound=Enum)


class CallFault(Enum):
    """What becomes of one call."""

    REFUSED = "refused"  # no connection
    THROTTLED = "throttled"  # 429 with Retry-After
    BROKEN_SERVER = "500"  # before anything happened
    AWAY = "503"
    HANGS = "hangs"  # nothing happens, no answer
    LOST = "lost"  # it happened, the connection broke
    LATE = "late"  # it happened, no answer within the deadline
    GARBLED = "garbled"  # it happened, but the answer is not JSON
    SLOW = "slow"  # it happens, seconds later


class WatchFault(Enum):
    """What becomes of one event of a watch."""

    CLOSE = "close"  # an orderly end
    BREAK = "break"  # the connection breaks in the middle of an object
    CUT = "cut"  # an orderly end in the middle of an object
    DOUBLE = "double"  # the event comes twice
    REPLAY = "replay"  # the last events come again, in order
    DROP = "drop"  # the event never comes
    ERROR = "error"  # an ERROR event, 500
    GONE = "gone"  # an ERROR event, 410
    STALL = "stall"  # nothing comes for a while


# A watch that leaves out events does not behave like an API server: until the next list only safety is checked.
HONEST = tuple(fault for fault in WatchFault if fault is not WatchFault.DROP)


@dataclass(slots=True)
class _Armed:
    """A fault that waits for its call."""

    left: int
    fault: CallFault | WatchFault
    writes: bool


@dataclass(slots=True)
class Faults:
    """The faults of one side, host or plane."""

    rng: random.Random
    call_rate: float = 0.0
    watch_rate: float = 0.0
    calls: tuple[CallFault, ...] = tuple(CallFault)
    watches: tuple[WatchFault, ...] = HONEST
    away: bool = False  # the server does not answer at all
    empty: frozenset[str] = frozenset()  # plurals whose lists come back empty, with a version of now
    stale: int = 0  # lists are answered by a replica that is so many versions behind
    lag: dict[str, float] = field(default_factory=dict)  # plural -> seconds that its watches are behind
    happened: Counter[str] = field(default_factory=Counter)
    _armed: list[_Armed] = field(default_factory=list)

    def arm(self, fault: CallFault | WatchFault, after: int = 0, *, writes: bool = False) -> None:
        """Let a fault happen after so many calls (writes alone if asked), or events."""
        self._armed.append(_Armed(after, fault, writes))

    def quiet(self) -> None:
        """No more of them."""
        self._armed.clear()
        self.call_rate = self.watch_rate = 0.0
        self.away = False
        self.stale = 0
        self.empty = frozenset()
        self.lag.clear()

    def for_call(self, *, write: bool) -> CallFault | None:
        """What happens to the call that is made now."""
        fault = self._due(CallFault, write=write)
        if self.away:
            fault = CallFault.REFUSED
        elif fault is None and self.call_rate and self.rng.random() < self.call_rate:
            fault = self.rng.choice(self.calls)
        if fault is not None:
            self.happened[f"call {fault.value}"] += 1
        return fault

    def for_event(self) -> WatchFault | None:
        """What happens to the event that is sent now."""
        fault = self._due(WatchFault, write=False)
        if fault is None and self.watch_rate and self.rng.random() < self.watch_rate:
            fault = self.rng.choice(self.watches)
        if fault is not None:
            self.happened[f"watch {fault.value}"] += 1
        return fault

    def _due(self, kind: type[F], *, write: bool) -> F | None:
        found: F | None = None
        for armed in list(self._armed):
            if not isinstance(armed.fault, kind) or (armed.writes and not write):
                continue
            if armed.left > 0:
                armed.left -= 1
            elif found is None:
                found = armed.fault
                self._armed.remove(armed)
        return found
