"""The worker loop: whatever a reconciler raises stays with its key, and the key comes back when it is due."""

import asyncio
from collections import Counter

import pytest

from bulkhead.kube.errors import Conflict, Unavailable
from bulkhead.kube.objects import Key
from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.queue import KeyedQueue
from syncer import metrics
from syncer.work import Again, Item
from syncer.worker import Worker
from tests.kit.fakeclock import FakeClock


class _Patrol:
    """A patrol without a round."""

    def __init__(self) -> None:
        self.pending: set[Item] = set()

    def visited(self, item: Item) -> None:
        self.pending.discard(item)


class _Bench:
    """A worker, and reconcilers that raise what a test wants of them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.queue: KeyedQueue[Item] = KeyedQueue(clock=self.clock)
        self.patrol = _Patrol()
        self.seen: Counter[Item] = Counter()
        self.fails: dict[Item, Exception] = {}
        self.writes: set[Item] = set()
        self.after: float | None = None
        backoff: PerKeyBackoff[Item] = PerKeyBackoff(0.1, 20.0, jitter=0.0)
        self.may_work = asyncio.Event()
        self.may_work.set()
        reconcilers = {"Pod": self._reconcile}
        self.worker = Worker(self.queue, backoff, self.patrol, reconcilers, self._granted)  # type: ignore[arg-type]

    async def _granted(self) -> None:
        await self.may_work.wait()

    async def _reconcile(self, item: Item) -> float | None:
        self.seen[item] += 1
        if item in self.writes:
            metrics.host_write(item.kind, "update")
        if item in self.fails:
            raise self.fails[item]
        return self.after

    async def work(self, *items: Item) -> None:
        """Run until the queue has nothing due."""
        for item in items:
            self.queue.add(item)
        running = asyncio.create_task(self.worker.run())
        for _ in range(50):
            await asyncio.sleep(0)
        assert self.queue.idle
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _pod(name: str) -> Item:
    return Item("Pod", Key("space", name))


@pytest.mark.parametrize(
    ("error", "due"),
    [
        (Again(3.0, "the host is busy"), 3.0),
        (Conflict(409, "Conflict", "changed meanwhile"), 0.1),
        (Unavailable(503, "ServiceUnavailable", "not now", retry_after=7.0), 7.0),
        (TimeoutError(), 0.1),
        (KeyError("hostile"), 0.1),
    ],
)
async def test_a_key_that_fails_comes_back_and_no_other_waits_for_it(error: Exception, due: float) -> None:
    bench = _Bench()
    bad, good = _pod("bad"), _pod("good")
    bench.fails[bad] = error
    await bench.work(bad, good)
    assert bench.seen == {bad: 1, good: 1}
    assert bench.queue.delayed == 1
    bench.fails.clear()
    bench.clock.advance(due - 0.01)
    bench.queue.promote()
    await bench.work()
    assert bench.seen[bad] == 1
    bench.clock.advance(0.02)
    bench.queue.promote()
    await bench.work()
    assert bench.seen == {bad: 2, good: 1}


async def test_a_kind_without_a_reconciler_fails_alone() -> None:
    bench = _Bench()
    await bench.work(Item("Unknown", Key("space", "odd")), _pod("good"))
    assert bench.seen == {_pod("good"): 1}
    assert bench.queue.delayed == 1


async def test_only_a_write_that_the_patrol_led_to_is_a_repair() -> None:
    bench = _Bench()
    quiet, news, repaired = _pod("quiet"), _pod("news"), _pod("repaired")
    bench.patrol.pending = {quiet, repaired}
    bench.writes = {news, repaired}
    before = metrics.PATROL_REPAIRS.labels("Pod")._value.get()
    await bench.work(quiet, news, repaired)
    assert metrics.PATROL_REPAIRS.labels("Pod")._value.get() - before == 1
    assert not bench.patrol.pending


async def test_a_key_waits_while_the_process_may_not_work_and_is_reconciled_then() -> None:
    bench, item = _Bench(), _pod("web")
    bench.may_work.clear()
    bench.queue.add(item)
    running = asyncio.create_task(bench.worker.run())
    for _ in range(50):
        await asyncio.sleep(0)
    assert bench.queue.holds(item)
    assert not bench.seen
    bench.may_work.set()
    for _ in range(50):
        await asyncio.sleep(0)
    assert bench.seen == {item: 1}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
