"""The budget of writes: a burst passes at once, the rest at the rate, in order."""

import asyncio
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import PODS
from syncer.write.budget import WriteBudget
from syncer.write.host import HostWriter
from syncer.write.identity import PlaneIdentity
from tests.kit.fakeclock import FakeClock


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


async def test_large_writes_wait_until_the_bytes_of_those_before_are_paid() -> None:
    clock = FakeClock()
    budget = WriteBudget(clock, rate=1000, burst=1000, byte_rate=100, byte_burst=250)
    done: list[int] = []

    async def all_of_them() -> None:
        for number in range(6):
            await budget.take()
            budget.spend(100)
            done.append(number)

    task = asyncio.create_task(all_of_them())
    for _ in range(50):
        await asyncio.sleep(0)
    assert done == [0, 1, 2]  # 50 bytes more than there were
    await advance(clock, 0.45)
    assert done == [0, 1, 2]
    await advance(clock, 0.1)
    assert done == [0, 1, 2, 3]
    await advance(clock, 2.5)
    await task
    assert done == list(range(6))


async def test_what_is_urgent_waits_for_nothing_and_is_paid_all_the_same() -> None:
    clock = FakeClock()
    budget = WriteBudget(clock, rate=10, burst=1, byte_rate=100, byte_burst=1)
    budget.spend(1000)
    await asyncio.wait_for(budget.take(urgent=True), 1)
    late = asyncio.create_task(budget.take())
    await advance(clock, 1)
    assert not late.done()
    await advance(clock, 10)
    await late


async def test_a_write_costs_what_the_host_keeps_of_it() -> None:
    """A patch of a few bytes that leaves a large object is a large write to the host's store."""
    spent: list[int] = []

    class Counted(WriteBudget):
        def spend(self, size: int) -> None:
            spent.append(size)

    class Host:
        async def patch(self, *_: Any, **__: Any) -> Obj:
            return {"metadata": {"name": "a", "annotations": {"x": "y" * 100_000}}}

    writer = HostWriter(cast("Client", Host()), Counted(FakeClock()), cast("PlaneIdentity", None))
    await writer.patch(PODS, Key("work", "a"), {"metadata": {"labels": {"a": "b"}}})
    assert 100_000 < spent[0] < 100_200


async def taken_at_once(budget: WriteBudget, asked: int) -> list[asyncio.Task[None]]:
    """As many writes as are asked for; those that need not wait are done."""
    tasks = [asyncio.create_task(budget.take()) for _ in range(asked)]
    for _ in range(4 * asked):
        await asyncio.sleep(0)
    return tasks


async def test_a_budget_that_was_not_used_grows_no_further_than_its_burst() -> None:
    clock = FakeClock()
    budget = WriteBudget(clock, rate=10, burst=5)
    clock.advance(3600)
    tasks = await taken_at_once(budget, 12)
    assert sum(task.done() for task in tasks) == 5
    await advance(clock, 1)
    await asyncio.gather(*tasks)


async def test_a_write_after_urgent_ones_waits_longer() -> None:
    clock = FakeClock()
    budget = WriteBudget(clock, rate=10, burst=5)
    for _ in range(10):
        await budget.take(urgent=True)
    (after,) = await taken_at_once(budget, 1)
    await advance(clock, 0.5)
    assert not after.done()
    await advance(clock, 0.2)
    assert after.done()


async def test_reads_have_a_bucket_of_their_own_in_their_order() -> None:
    """A tenant that forges statuses has the host asked which pod it has, as often as it forges one."""
    clock = FakeClock()
    budget = WriteBudget(clock, rate=10, burst=5, read_rate=10, read_burst=5)
    done: list[int] = []

    async def read(number: int) -> None:
        await budget.take_read()
        done.append(number)

    tasks = [asyncio.create_task(read(number)) for number in range(12)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert done == [0, 1, 2, 3, 4]
    await asyncio.wait_for(budget.take(), 1)
    await advance(clock, 0.32)
    assert done == list(range(8)), "what is written meanwhile costs no read"
    await advance(clock, 1)
    await asyncio.gather(*tasks)
    assert done == list(range(12))
    clock.advance(3600)
    late = [asyncio.create_task(budget.take_read()) for _ in range(12)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert sum(task.done() for task in late) == 5, "no more than the burst is saved"
    await advance(clock, 1)
    await asyncio.gather(*late)


async def test_every_read_of_the_host_by_its_writer_is_paid_for() -> None:
    reads: list[None] = []

    class Counted(WriteBudget):
        async def take_read(self) -> None:
            reads.append(None)

    host: Obj = {"metadata": {"name": "a", "namespace": "work"}}

    class Host:
        async def get(self, *_: Any) -> Obj:
            return host

    writer = HostWriter(cast("Client", Host()), Counted(FakeClock()), cast("PlaneIdentity", None))
    assert await writer.read(PODS, Key("work", "a")) == host
    assert len(reads) == 1
