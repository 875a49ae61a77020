"""The shape of what the controller keeps right on the host for all tenants at once: a turn whenever something changed.

    informers ──> each listed once ──> turn ──> a change, or as long as the turn says ──> pause ──> turn ──> …

Each turn counts from all that is watched and writes the differences. So neither a controller that dies, nor a second one that
still believes that it leads, nor what an outsider writes leaves anything that the next turn does not put right.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

from bulkhead.kube.informer import Informer
from bulkhead.work.clock import Clock


class Recount:
    """Takes the turns."""

    def __init__(self, name: str, clock: Clock, *, pause: float) -> None:
        self._name = name
        self._clock = clock
        self._pause = pause
        self._changed = asyncio.Event()

    def changed(self, what: object = None) -> None:
        """Something is no longer as the last turn found it: for informers, which say what."""
        del what
        self._changed.set()

    async def run(self, informers: Iterable[Informer], turn: Callable[[], Awaitable[float | None]]) -> None:
        """Run the informers and take turns until cancelled; a turn returns after how many seconds the next is due, if any."""
        informers = tuple(informers)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run(), name=f"{self._name}: {informer.resource}")
            # A part of the objects would be a wrong count.
            for informer in informers:
                await informer.synced()
            while True:
                self._changed.clear()
                due = await turn()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(due):
                        await self._changed.wait()
                await self._clock.sleep(self._pause)
