"""Asks a source at most once in so many seconds, however many want its answer.

    callers ──one at a time──> fresh? ── yes ──> the same answer, or the same reason why there is none
                                  └── no ──> ask ──> kept as long, answered or not

A source in trouble is spared as one that answers: its failure is kept as long as an answer. So is the failure of a caller that
gives up while it asks, for the next one would otherwise ask at once. An old answer is never given again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from bulkhead.work.clock import Clock

T = TypeVar("T")


class NoAnswerError(Exception):
    """The source has no answer. The text says why; it is empty if the one that asked gave up."""


class Seldom(Generic[T]):
    """The newest answer of one source."""

    def __init__(self, ask: Callable[[], Awaitable[T]], clock: Clock, *, seconds: float) -> None:
        """`ask` raises NoAnswerError where there is none; any other error reaches the one that asked."""
        self._ask = ask
        self._clock = clock
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._asked_at: float | None = None
        # One item if the source has answered.
        self._answer: tuple[T, ...] = ()
        self._why_not = ""

    async def answer(self) -> T:
        """The answer, at most `seconds` old, or NoAnswerError."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._asked_at is None or now - self._asked_at >= self._seconds:
                # Before the question: it holds also for a caller that gives up meanwhile.
                self._asked_at, self._answer, self._why_not = now, (), ""
                try:
                    self._answer = (await self._ask(),)
                except NoAnswerError as error:
                    self._why_not = str(error)
            if not self._answer:
                raise NoAnswerError(self._why_not)
            return self._answer[0]
