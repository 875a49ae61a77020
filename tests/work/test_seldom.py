"""How often a source is asked, whether it answers, refuses or lets its callers wait."""

import asyncio

import pytest

from bulkhead.work.seldom import NoAnswerError, Seldom
from tests.kit.fakeclock import FakeClock

SECONDS = 5.0


class Source:
    def __init__(self) -> None:
        self.asked = 0
        self.trouble: Exception | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.clock = FakeClock()
        self.seldom = Seldom(self._ask, self.clock, seconds=SECONDS)

    async def _ask(self) -> int:
        self.asked += 1
        await self.may_answer.wait()
        if self.trouble is not None:
            raise self.trouble
        return self.asked


async def test_many_callers_ask_once_until_the_answer_is_old() -> None:
    source = Source()
    assert await asyncio.gather(*(source.seldom.answer() for _ in range(20))) == [1] * 20
    source.clock.advance(SECONDS - 0.1)
    assert await source.seldom.answer() == 1
    source.clock.advance(0.1)
    assert await asyncio.gather(*(source.seldom.answer() for _ in range(20))) == [2] * 20


async def test_a_source_that_has_no_answer_is_asked_as_seldom_and_gives_nothing_old() -> None:
    source = Source()
    await source.seldom.answer()
    source.clock.advance(SECONDS)
    source.trouble = NoAnswerError("away")
    for _ in range(20):
        with pytest.raises(NoAnswerError, match="away"):
            await source.seldom.answer()
    assert source.asked == 2
    source.trouble = None
    source.clock.advance(SECONDS)
    assert await source.seldom.answer() == 3


async def test_a_caller_that_gives_up_does_not_let_the_next_one_ask() -> None:
    source = Source()
    source.may_answer.clear()
    left = asyncio.create_task(source.seldom.answer())
    others = [asyncio.create_task(source.seldom.answer()) for _ in range(20)]
    await asyncio.sleep(0)
    left.cancel()
    found = await asyncio.gather(left, *others, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert {(type(error), str(error)) for error in found[1:]} == {(NoAnswerError, "")}
    assert source.asked == 1
    source.may_answer.set()
    source.clock.advance(SECONDS)
    assert await source.seldom.answer() == 2


async def test_a_bug_reaches_the_one_that_asked_and_is_no_reason_to_ask_again() -> None:
    source = Source()
    source.trouble = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError):
        await source.seldom.answer()
    for _ in range(3):
        with pytest.raises(NoAnswerError):
            await source.seldom.answer()
    assert source.asked == 1


async def test_an_answer_of_nothing_is_an_answer() -> None:
    clock = FakeClock()

    async def nothing() -> None:
        return None

    seldom = Seldom(nothing, clock, seconds=SECONDS)
    await seldom.answer()
    await seldom.answer()
