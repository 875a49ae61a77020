"""An event loop in which waiting costs nothing: when no task can run, time jumps to the next timer.

Everything that asks the loop (`asyncio.sleep`, `asyncio.timeout`, `call_later`, `loop.time`) lives on the same virtual time, so
the code under test needs no seam for it. A loop that waits without any timer left is deadlocked, and raises `DeadlockError`.
"""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

_T = TypeVar("_T")
_RESOLUTION = 1e-6
START = datetime(2026, 1, 1, tzinfo=UTC)


class DeadlockError(AssertionError):
    """All tasks wait, and none of them will be woken."""


class _Selector(selectors.SelectSelector):
    """Never waits: what would be waited is added to the time instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found:
            return found
        if timeout is None:
            raise DeadlockError("nothing runs and no timer is set")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; see the module."""

    def __init__(self) -> None:
        self._instant = _Selector()
        super().__init__(self._instant)
        self._clock_resolution = _RESOLUTION

    def time(self) -> float:
        return self._instant.now


class LoopClock:
    """The syncer's Clock on the loop's time; its wall clock may be wrong by `skew` seconds."""

    def __init__(self) -> None:
        self.skew = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic() + self.skew)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def elapsed(self) -> float:
        return self.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def stamp(seconds: float) -> str:
    """A Kubernetes timestamp for a time of the loop."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def run(main: Callable[[], Awaitable[_T]]) -> _T:
    """Run a coroutine function from beginning to end on a loop of its own."""

    async def whole() -> _T:
        return await main()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(whole())
