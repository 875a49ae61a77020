"""What planes may take of the controller's memory: one of them, and all together."""

import asyncio

import pytest

from bulkhead.kube.errors import TooLarge
from controller.planebudget import Budget


async def test_a_plane_takes_its_own_bound_and_no_more() -> None:
    budget = Budget(total=1000, each=100)
    async with budget.turn("a", 5) as turn:
        turn.charge(60)
        with pytest.raises(TooLarge, match="more than 100 bytes"):
            turn.charge(41)
        async with budget.turn("a", 5) as second:
            with pytest.raises(TooLarge, match="more than 100 bytes"):
                second.charge(41)
        turn.release(60)
        turn.charge(100)
    assert budget.held == 0


async def test_together_the_largest_goes_and_the_small_ones_are_served() -> None:
    budget = Budget(total=300, each=200)
    full, ended = asyncio.Event(), asyncio.Event()

    async def greedy() -> None:
        async with budget.turn("greedy", 5) as turn:
            turn.charge(200)
            full.set()
            await ended.wait()

    task = asyncio.create_task(greedy())
    await full.wait()
    async with budget.turn("modest", 5) as turn:
        turn.charge(90)
        assert budget.held == 290
        turn.charge(20)
        assert budget.held == 110
        with pytest.raises(TooLarge, match="took the most"):
            await task
        # Its own loss did not free the room twice.
        assert budget.held == 110
    assert (budget.held, budget.most) == (0, 290)


async def test_whoever_would_be_the_largest_is_told_so_itself() -> None:
    budget = Budget(total=300, each=300)
    async with budget.turn("a", 5) as one, budget.turn("b", 5) as other:
        one.charge(100)
        with pytest.raises(TooLarge, match="this plane's most of them"):
            other.charge(250)
        other.charge(150)
        assert budget.held == 250


async def test_past_its_deadline_a_turn_is_over() -> None:
    budget = Budget()

    async def waiting() -> None:
        async with budget.turn("a", 0.01) as turn:
            turn.charge(5)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await waiting()
    assert budget.held == 0
