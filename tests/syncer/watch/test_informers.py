"""What the syncer waits for before it works: what there is, and no news of it."""

import asyncio
from types import SimpleNamespace
from typing import Any

from syncer.watch.informers import SILENT_SECONDS, Caches


class Copy:
    """An informer, as far as readiness asks."""

    def __init__(self, *, synced: bool, silent: float = 0.0) -> None:
        self.has_synced = synced
        self._silent = silent

    def silence(self) -> float:
        return self._silent

    async def synced(self) -> None:
        if not self.has_synced:
            await asyncio.Event().wait()


async def test_events_hold_up_no_start_however_many_the_host_has() -> None:
    host = {"Pod": Copy(synced=True), "Event": Copy(synced=False, silent=float("inf"))}
    caches: Any = SimpleNamespace(virtual={"Pod": Copy(synced=True)}, host=host)
    async with asyncio.timeout(5):
        await Caches.synced(caches)
    assert Caches.unready(caches) == []


def test_what_was_not_listed_or_is_silent_is_named() -> None:
    host = {"Pod": Copy(synced=True, silent=SILENT_SECONDS + 1)}
    caches: Any = SimpleNamespace(virtual={"Service": Copy(synced=False)}, host=host)
    assert Caches.unready(caches) == ["virtual Service", "host Pod"]
