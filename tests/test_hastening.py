"""A test that waits for a syncer's rest does not wait for delays, and still fails where something is pending."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.work.queue import KeyedQueue
from tests.kit.background import background
from tests.kit.hastening import hasten
from tests.kit.syncerbed import SyncerBed

HOUR = 3600.0


async def test_a_delayed_key_is_due_now_and_stays_one_key() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_after("later", HOUR)
    hasten(queue)
    assert await asyncio.wait_for(queue.get(), 5) == "later"
    assert queue.delayed == 0
    # Delayed again while it is in work, it comes again after its work, as any key does.
    queue.add_after("later", HOUR)
    hasten(queue)
    queue.done("later")
    assert await asyncio.wait_for(queue.get(), 5) == "later"
    queue.done("later")
    assert queue.idle


@contextlib.asynccontextmanager
async def bed_whose_keys(again: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SyncerBed]:
    """A bed without servers. Its one key is due in an hour, and then as `again` says: after so many seconds, or never (0)."""
    queue: KeyedQueue[str] = KeyedQueue()
    bed = SyncerBed.__new__(SyncerBed)
    bed.session = SimpleNamespace(queue=queue)  # type: ignore[assignment]

    async def patrolled(_: SyncerBed) -> None:
        queue.add_after("key", HOUR)

    async def work() -> None:
        while True:
            key = await queue.get()
            later = await again()
            if later:
                queue.add_after(key, later)
            queue.done(key)

    monkeypatch.setattr(SyncerBed, "patrolled", patrolled)
    async with background(work()):
        yield bed


async def test_quiet_waits_for_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [HOUR, HOUR, 0.0]

    async def again() -> float:
        return left.pop(0)

    async with bed_whose_keys(again, monkeypatch) as bed:
        await bed.quiet(30)
    assert left == []


async def test_what_does_not_come_to_rest_is_not_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ever() -> float:
        return HOUR

    async with bed_whose_keys(ever, monkeypatch) as bed:
        with pytest.raises(AssertionError, match="nothing to do"):
            await bed.quiet(0.5)


async def test_what_is_still_in_work_is_not_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs() -> float:
        await asyncio.Event().wait()
        return 0.0

    async with bed_whose_keys(hangs, monkeypatch) as bed:
        with pytest.raises(AssertionError, match="nothing to do"):
            await bed.quiet(0.5)
