"""The loop of everything that the controller keeps up to date on the host for all tenants at once: a turn after each change.

    informers ──> each listed once ──> turn ──> a change, or the seconds that the turn returned ──> pause ──> turn ──> …

Each turn computes from all watched objects and writes the differences. So the next turn corrects whatever a crashed controller,
a second one that still considers itself the leader, or any other client has left.
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
        """Something has changed since the last turn; informers pass the change."""
        del what
        self._changed.set()

    async def run(self, informers: Iterable[Informer], turn: Callable[[], Awaitable[float | None]]) -> None:
        """Run the informers and take turns until cancelled. A turn returns the seconds until the next one, if one is due."""
        informers = tuple(informers)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run(), name=f"{self._name}: {informer.resource}")
            # A partial list would give a wrong count.
            for informer in informers:
                await informer.synced()
            while True:
                self._changed.clear()
                due = await turn()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(due):
                        await self._changed.wait()
                await self._clock.sleep(self._pause)
