"""A supervised task under a fake clock."""

import asyncio
import contextlib
from functools import partial

import pytest

from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import SystemClock
from bulkhead.work.supervise import apart, ended, supervise
from tests.kit.fakeclock import FakeClock


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_it_restarts_with_growing_delays_and_ends_with_the_task(caplog: pytest.LogCaptureFixture) -> None:
    clock, starts, failures = FakeClock(), [], []

    async def task() -> None:
        starts.append(clock.monotonic())
        if len(starts) < 4:
            raise RuntimeError("boom")

    running = asyncio.create_task(
        supervise("t", task, backoff=Backoff(1, 8, jitter=0), clock=clock, on_failure=failures.append)
    )
    for delay in (1, 2, 4):
        await settle()
        assert clock.sleepers == 1
        clock.advance(delay)
    await asyncio.wait_for(running, 30)
    assert starts == [0, 1, 3, 7]
    assert [str(error) for error in failures] == ["boom"] * 3
    assert caplog.text.count("task failed") == 3


async def test_health_makes_the_delays_start_over() -> None:
    clock, starts = FakeClock(), []

    async def task() -> None:
        starts.append(clock.monotonic())
        await clock.sleep(200)
        raise RuntimeError("boom")

    running = asyncio.create_task(supervise("t", task, backoff=Backoff(1, 8, jitter=0), clock=clock))
    for _ in range(3):
        await settle()
        clock.advance(200)
        await settle()
        clock.advance(1)
    await settle()
    assert starts == [0, 201, 402, 603]
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_cancellation_goes_through() -> None:
    running = asyncio.create_task(supervise("t", lambda: asyncio.sleep(3600), clock=FakeClock()))
    await settle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_the_system_clock_runs() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before
    assert clock.now().utcoffset() is not None


async def test_the_fake_clock_wakes_in_order() -> None:
    clock, woken = FakeClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (3, 1, 2, 0)]
    await settle()
    clock.advance(2)
    await settle()
    assert woken == [0, 1, 2]
    clock.advance(1)
    await asyncio.gather(*tasks)
    assert woken == [0, 1, 2, 3]


async def test_a_task_has_ended_when_it_was_ended_and_one_that_is_not_there_needs_nothing() -> None:
    over = []

    async def slow_to_go() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            over.append(True)

    task = asyncio.create_task(slow_to_go())
    await asyncio.sleep(0)
    await ended(task)
    assert (task.done(), over) == (True, [True])
    await ended(None)


async def test_pieces_of_work_are_kept_apart(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    async def work(name: str) -> None:
        await asyncio.sleep(0)
        if name == "bad":
            raise ValueError("odd")
        await asyncio.sleep(0)
        done.append(name)

    async with asyncio.TaskGroup() as group:
        for name in ("a", "bad", "z"):
            group.create_task(apart("a piece", partial(work, name), tenant=name))
    assert done == ["a", "z"]
    (record,) = caplog.records
    assert (record.getMessage(), record.__dict__["tenant"]) == ("a piece failed", "bad")
    assert record.exc_info


async def test_the_end_of_all_pieces_ends_each() -> None:
    """Cancellation goes through, also before a piece has begun."""
    task = asyncio.create_task(apart("a piece", asyncio.Event().wait))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    task = asyncio.create_task(apart("a piece", asyncio.Event().wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
