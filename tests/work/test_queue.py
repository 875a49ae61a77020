"""The queue's contract: a model of it, run against the real one by Hypothesis, and its edges by hand."""

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bulkhead.work.queue import KeyedQueue, Lane, QueueClosed
from tests.kit.fakeclock import FakeClock

KEYS = st.sampled_from("abcdef")
LANES = st.sampled_from(Lane)
BOUND = 5


class QueueLaws(RuleBasedStateMachine):
    """Nothing is lost, no two workers have one key at once, an add during work comes again."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.queue: KeyedQueue[str] = KeyedQueue(max_keys=BOUND, clock=self.clock)
        # The model: which keys a worker must still take, when the delayed ones are due, which are in work.
        self.dirty: set[str] = set()
        self.due: dict[str, float] = {}
        self.working: set[str] = set()

    def teardown(self) -> None:
        self.loop.close()

    def run(self, call):
        async def once():
            return call()

        return self.loop.run_until_complete(once())

    @rule(key=KEYS, lane=LANES)
    def add(self, key, lane):
        known = key in self.dirty or key in self.working
        taken = self.run(lambda: self.queue.add(key, lane))
        assert taken or not known
        assert taken or len(self.queue) + self.queue.delayed >= BOUND
        if taken:
            self.dirty.add(key)

    @rule(key=KEYS, seconds=st.integers(1, 5), lane=LANES)
    def add_after(self, key, seconds, lane):
        if self.run(lambda: self.queue.add_after(key, seconds, lane)):
            when = self.clock.monotonic() + seconds
            self.due[key] = min(when, self.due.get(key, when))
        else:
            assert key not in self.due

    @rule(seconds=st.integers(1, 3))
    def time_passes(self, seconds):
        self.clock.advance(seconds)
        self.run(self.queue.promote)
        for key in [key for key, when in self.due.items() if when <= self.clock.monotonic()]:
            del self.due[key]
            self.dirty.add(key)

    @precondition(lambda self: self.dirty - self.working)
    @rule()
    def get(self):
        key = self.loop.run_until_complete(asyncio.wait_for(self.queue.get(), 5))
        assert key in self.dirty
        assert key not in self.working
        self.dirty.discard(key)
        self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data):
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.run(lambda: self.queue.done(key))
        self.working.discard(key)

    @invariant()
    def nothing_is_lost(self):
        assert len(self.queue) == len(self.dirty - self.working)
        assert self.queue.processing == len(self.working)
        assert self.queue.delayed == len(self.due)
        assert {key for key in "abcdef" if self.queue.holds(key)} == self.dirty | self.working | set(self.due)

    @invariant()
    def the_bound_holds(self):
        # Keys that come again after work held their place all along: they are the only ones above the bound.
        assert len(self.queue) + self.queue.delayed <= BOUND + len("abcdef")


QueueLaws.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestQueueLaws = QueueLaws.TestCase


async def drain(queue: KeyedQueue[str], count: int) -> list[str]:
    keys = []
    for _ in range(count):
        key = await queue.get()
        keys.append(key)
        queue.done(key)
    return keys


async def test_fresh_goes_first_and_backfill_is_not_starved() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    for number in range(20):
        queue.add(f"old{number}", Lane.BACKFILL)
    for number in range(20):
        queue.add(f"new{number}")
    order = await drain(queue, 40)
    assert order[0] == "new0"
    assert [key for key in order[:16] if key.startswith("old")] == ["old0", "old1"]
    assert sorted(order) == sorted([f"old{n}" for n in range(20)] + [f"new{n}" for n in range(20)])


async def test_news_lift_a_key_out_of_backfill() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    for key in "abc":
        queue.add(key, Lane.BACKFILL)
    queue.add("c")
    assert [*queue._lanes[Lane.FRESH]] == ["c"]
    assert (await drain(queue, 3))[0] == "c"


async def test_a_full_queue_refuses_and_counts() -> None:
    queue: KeyedQueue[str] = KeyedQueue(max_keys=2)
    assert [queue.add(key) for key in "aabc"] == [True, True, True, False]
    assert not queue.add_after("d", 1)
    assert (queue.refused, len(queue)) == (2, 2)


async def test_delays_by_the_real_clock() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_after("later", 0.05)
    queue.add_after("later", 600)
    queue.add_after("sooner", 600)
    queue.add_after("sooner", 0.01)
    assert await asyncio.wait_for(drain(queue, 2), 30) == ["sooner", "later"]
    assert queue.delayed == 0
    queue.close()


async def test_many_workers_one_key_at_a_time() -> None:
    queue: KeyedQueue[int] = KeyedQueue()
    working: set[int] = set()
    worked: list[int] = []

    async def work() -> None:
        while True:
            try:
                key = await queue.get()
            except QueueClosed:
                return
            assert key not in working
            working.add(key)
            await asyncio.sleep(0)
            if len(worked) < 200:
                queue.add((key * 7 + 1) % 10)
                queue.add(key)
            worked.append(key)
            working.discard(key)
            queue.done(key)

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(work())
        for key in range(10):
            queue.add(key)
        while not queue.idle or len(worked) < 200:  # noqa: ASYNC110 -- two things end it
            await asyncio.sleep(0)
        queue.close()
    assert set(worked) == set(range(10))


async def test_a_cancelled_worker_passes_its_wake_up_on() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 30) == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_closing() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    waiting = asyncio.create_task(KeyedQueue[str]().get())
    queue.add("a")
    queue.add_after("b", 100)
    queue.close()
    assert not queue.add("c")
    assert not queue.add_after("c", 1)
    assert await queue.get() == "a"
    queue.done("a")
    with pytest.raises(QueueClosed):
        await queue.get()
    waiting.cancel()


async def test_waits_are_measured() -> None:
    clock = FakeClock()
    queue: KeyedQueue[str] = KeyedQueue(clock=clock)
    queue.add("a")
    clock.advance(3)
    queue.add("b", Lane.BACKFILL)
    clock.advance(2)
    await queue.get()
    assert queue.waited == 5
    clock.advance(4)
    assert queue.longest_running() == 4
    await queue.get()
    assert queue.waited == 6


def test_done_without_get_is_a_bug() -> None:
    with pytest.raises(ValueError, match="done without get"):
        KeyedQueue[str]().done("a")
