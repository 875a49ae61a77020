"""The budget of writes: a burst passes at once, the rest at the rate, in order."""

import asyncio

import pytest

from bulkhead.work.clock import FakeClock
from syncer.budget import WriteBudget


async def advance(clock: FakeClock, seconds: float) -> None:
    """Let time pass in small steps, so that each sleeper wakes where it would."""
    for _ in range(round(seconds * 100)):
        clock.advance(0.01)
        for _ in range(4):
            await asyncio.sleep(0)


async def test_item_90_a_burst_passes_and_the_rest_waits_for_its_turn() -> None:
    clock = FakeClock()
    budget = WriteBudget(clock, rate=10, burst=5)
    done: list[int] = []

    async def write(number: int) -> None:
        await budget.take()
        done.append(number)

    tasks = [asyncio.create_task(write(number)) for number in range(12)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert done == [0, 1, 2, 3, 4]
    await advance(clock, 0.32)
    assert done == list(range(8))
    await advance(clock, 1)
    await asyncio.gather(*tasks)
    assert done == list(range(12))


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="write budget"):
        WriteBudget(FakeClock(), rate=0)
