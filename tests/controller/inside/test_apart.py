"""The loops that look at all planes: what one of them brings about stops none of the looks at the others. Pure."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.inside.access import PlaneAccess
from controller.inside.apifigures import PlaneFigures
from controller.inside.budget import Budget
from controller.inside.etcdaccess import EtcdAccess
from controller.inside.stores import LOOK_PERIOD_SECONDS, Stores
from controller.plane.storestate import Store
from tests.kit.fakeclock import FakeClock

TENANTS = ("a", "hostile", "z")


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def told(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [getattr(record, "tenant", None) for record in caplog.records if record.levelno == logging.ERROR]


async def test_figures_of_all_planes_are_read_but_of_the_one_that_breaks_the_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def look(_: PlaneFigures, tenant: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            await asyncio.sleep(0)
            if tenant == "hostile":
                raise ValueError("could not convert string to float: '1.2.3'")
            await asyncio.sleep(0)
            seen.append(tenant)

    monkeypatch.setattr(PlaneFigures, "_look", look)
    await PlaneFigures(cast(PlaneAccess, None), lambda: TENANTS, FakeClock(), Budget()).look()
    assert seen == ["a", "z"]
    assert told(caplog) == ["hostile"]


async def test_stores_of_all_planes_are_looked_at_again_and_again_but_of_the_one_that_breaks_the_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, seen = FakeClock(), []
    planes = {name: SimpleNamespace(name=name, addresses={"plane-0": "10.0.0.1"}, reported=None) for name in TENANTS}

    async def look(_: Stores, plane: Any) -> Store:
        await asyncio.sleep(0)
        if plane.name == "hostile":
            raise ValueError("could not convert string to float: '1.2.3'")
        await asyncio.sleep(0)
        seen.append(plane.name)
        return Store(wanted=1)

    monkeypatch.setattr(Stores, "_look", look)
    changed: list[str] = []
    stores = Stores(clock, changed.append, access=cast(EtcdAccess, None))
    stores._planes = cast(Any, planes)
    running = asyncio.create_task(stores.run())
    for _ in range(2):
        await settled()
        clock.advance(LOOK_PERIOD_SECONDS)
    await settled()
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])
    assert seen == ["a", "z", "a", "z"]
    assert changed == ["a", "z"], "once: nothing is different the second time"
    assert told(caplog) == ["hostile", "hostile"]
