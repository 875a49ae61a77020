"""Turns of what is kept right on the host: none before all was listed, one after each change, and whenever one is due."""

import asyncio
from collections.abc import Awaitable, Callable

from bulkhead.kube.informer import Informer
from bulkhead.kube.resources import NODES, PODS
from controller.host.recount import Recount
from tests.kit.fakeclock import FakeClock
from tests.kit.leading import leading

Eventually = Callable[[Callable[[], object]], Awaitable[None]]


class Listed(Informer):
    """An informer whose first list the test reads."""

    async def run(self) -> None:
        await asyncio.Event().wait()

    def read(self) -> None:
        self._synced.set()


class Turns:
    """Counts its turns, and says when the next is due."""

    def __init__(self, clock: FakeClock) -> None:
        self.recount = Recount("turns", clock, pause=1.0)
        self.informers = [Listed(None, each) for each in (PODS, NODES)]  # type: ignore[arg-type]  # no server is asked
        self.number = 0
        self.due: float | None = None

    async def run(self) -> None:
        await self.recount.run(self.informers, self._turn)

    async def _turn(self) -> float | None:
        self.number += 1
        return self.due


async def test_turns_begin_when_all_is_listed_and_follow_changes_with_a_pause(eventually: Eventually) -> None:
    clock = FakeClock()
    async with leading(Turns(clock)) as turns:
        turns.informers[0].read()
        await asyncio.sleep(0.01)
        assert turns.number == 0
        turns.informers[1].read()
        await eventually(lambda: turns.number == 1)
        turns.recount.changed()
        turns.recount.changed()
        await eventually(lambda: clock.sleepers)
        assert turns.number == 1
        clock.advance(1.0)
        await eventually(lambda: turns.number == 2)
        # Both changes were of one turn, and nothing more is due.
        await asyncio.sleep(0.01)
        assert (turns.number, clock.sleepers) == (2, 0)


async def test_a_turn_that_is_due_comes_without_a_change(eventually: Eventually) -> None:
    clock = FakeClock()
    turns = Turns(clock)
    turns.due = 0
    for each in turns.informers:
        each.read()
    async with leading(turns):
        await eventually(lambda: clock.sleepers)
        clock.advance(1.0)
        await eventually(lambda: turns.number == 2)
