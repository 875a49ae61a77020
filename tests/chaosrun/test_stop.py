"""`chaos stop` while a run begins. No server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import pytest

from workstation.chaos import journal, stop
from workstation.chaos.record import Record
from workstation.chaos.run import Ground

RUN: Final = "chaos-0a1b2c"


async def test_a_run_that_has_no_record_yet_is_asked_once_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the lease and undoes the run before it; asked but once, it would then break tenants for up to 45 minutes."""
    asked = asyncio.Event()
    listed: list[list[Record]] = [[], []]

    async def remains(*_: object) -> tuple[list[Record], list[str]]:
        return (listed.pop() if listed else [Record(RUN)]), []

    async def holder_of(*_: object) -> str:
        return RUN

    async def ask_to_end(_: object, __: object, run: str) -> None:
        assert run == RUN
        asked.set()

    @contextlib.asynccontextmanager
    async def leased(*_: object, **__: object) -> AsyncIterator[None]:
        await asked.wait()
        yield

    async def sweep(_: object) -> tuple[list[str], list[str]]:
        return [], []

    for function in (remains, holder_of, ask_to_end, leased):
        monkeypatch.setattr(journal, function.__name__, function)
    monkeypatch.setattr(stop, "sweep", sweep)
    monkeypatch.setattr(stop, "_ASK_SECONDS", 0.01)
    ground = Ground(cast("Any", None), cast("Any", None), "bulkhead-system", lambda _: None)
    async with asyncio.timeout(5):
        assert await stop.stop(ground, now=False) == stop.Ended((RUN,), ())
