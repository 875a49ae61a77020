"""The open page of metering, damaged by hand on a real API server: reported, repaired, and nothing knowable is lost."""

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.metering import usagebook
from bulkhead.metering.meter import HOUR, Tally, UsageKey
from bulkhead.metering.usagebook import Page
from controller.metering import metrics
from controller.metering.store import UsageStore
from tests.controller.metering.bed import GPU, MeteredHost
from tests.kit.background import background
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]


def page_saying(**changes: Any) -> Callable[[Page], Obj]:
    """The page with some fields replaced, written instead of it."""

    def damaged(page: Page) -> Obj:
        said = json.loads(zlib.decompress(usagebook.write(page))) | changes
        return binary(zlib.compress(json.dumps(said).encode()))

    return damaged


def binary(stored: bytes) -> Obj:
    return {"binaryData": {"page": base64.b64encode(stored).decode()}}


ROW = [500_000, "red", "ml", "Pod/x", GPU, ""]
DAMAGES: dict[str, Callable[[Page], Obj]] = {
    "no page at all": lambda _: {"binaryData": None},
    "not compressed": lambda _: binary(b"not a page"),
    "not JSON": lambda _: binary(zlib.compress(b"{")),
    "cut off": lambda page: binary(usagebook.write(page)[:-9]),
    "another form": page_saying(form=2),
    "rows of the wrong type": page_saying(rows={}),
    "a row that is too short": page_saying(rows=[[1]]),
    "negative numbers": page_saying(rows=[[*ROW, 5, -5, 0]]),
    "a negative time": page_saying(until=-5),
    "huge numbers": page_saying(rows=[[*ROW, 1 << 70, 0, 0]]),
    "an hour that no calendar has": page_saying(rows=[[1 << 60, *ROW[1:], 1, 1, 1]]),
    "a number far ahead": page_saying(number=10**9),
    "a number that no name has": page_saying(number=10**40),
    "an older page": page_saying(number=1),
    "filled with other keys": lambda _: binary(b"no page") | {"data": {"mine": "x" * 1_048_550}},
    "no page, and it cannot change": lambda _: binary(b"no page") | {"immutable": True},
}
# What leaves the page readable: nothing is lost either, and it is written on.
MEDDLING: dict[str, Obj] = {
    "foreign keys": {"data": {"mine": "x"}, "binaryData": {"other": "AAAA"}},
    "a page that cannot change": {"immutable": True},
    "other labels and notes": {"metadata": {"labels": {labels.USAGE: "mine"}, "annotations": {labels.USAGE_UNTIL: "x"}}},
}


async def meddle(host: MeteredHost, patch: Obj) -> None:
    await host.client.patch(kinds.CONFIG_MAPS, names.USAGE_OPEN, patch, host.system)


async def the_open_page(host: MeteredHost) -> Page:
    return usagebook.page_of(await host.client.get(kinds.CONFIG_MAPS, names.USAGE_OPEN, host.system))


async def closed_pages(host: MeteredHost) -> list[tuple[str, str]]:
    listed = await host.client.list(kinds.CONFIG_MAPS, host.system, label_selector=f"{labels.USAGE}=closed")
    return [(config_map["metadata"]["name"], config_map["metadata"]["resourceVersion"]) for config_map in listed.items]


def mended() -> float:
    return float(metrics.pages.labels("repaired")._value.get())


async def two_closed_pages(host: MeteredHost) -> None:
    """Up to ten minutes ago, as though another controller had counted."""
    store, now = UsageStore(host.client, host.system, "before"), round(host.moment() * 1000)
    page = await store.open(now - 2 * HOUR)
    for end in (now - HOUR, now - 600_000):
        page.add(Tally(end // HOUR - 1, UsageKey(host.tenant, "ml", f"Pod/old-{page.number}", GPU, ""), 7000, 0, 0))
        page.until = end
        page = await store.close(page, await store.save(page))
    assert page.number == 3


@pytest.mark.parametrize("name", DAMAGES)
async def test_a_damaged_page_restarts_from_what_is_still_held(host: MeteredHost, name: str) -> None:
    """Found by a controller that begins: what ended meanwhile is lost, what is still there counts from its own beginning."""
    await two_closed_pages(host)
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a", 2)
        await host.run("b")
        await host.seen(usage, 2)
        await host.pass_time(120)
        await host.sums_are(**{"old-1": (7, 0), "old-2": (7, 0), "a": (200, 20), "b": (100, 10)})
    await host.delete("b")
    before, told = await closed_pages(host), mended()
    await meddle(host, DAMAGES[name](await the_open_page(host)))
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 1)
        assert mended() > told
        assert (await the_open_page(host)).number == 3
        await host.pass_time(60)
        await host.sums_are(**{"old-1": (7, 0), "old-2": (7, 0), "a": (2 * 160, 20)})
    assert await closed_pages(host) == before


@pytest.mark.parametrize("name", [*DAMAGES, *MEDDLING])
async def test_a_controller_that_counts_writes_over_a_foreign_change_and_loses_nothing(host: MeteredHost, name: str) -> None:
    await two_closed_pages(host)
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a", 2)
        await host.run("b")
        await host.seen(usage, 2)
        await host.pass_time(120)
        await host.delete("b")
        await _gone(host, usage)
        before = await closed_pages(host)
        change = DAMAGES[name](await the_open_page(host)) if name in DAMAGES else MEDDLING[name]
        await meddle(host, change)
        await host.pass_time(120)
        await host.sums_are(**{"old-1": (7, 0), "old-2": (7, 0), "a": (2 * 220, 20), "b": (110, 10)})
    assert await closed_pages(host) == before
    stored = await host.client.get(kinds.CONFIG_MAPS, names.USAGE_OPEN, host.system)
    assert stored["metadata"]["labels"] == {labels.USAGE: "open"}
    assert not stored.get("immutable")


async def test_a_closed_page_that_lost_its_notes_is_not_taken_for_an_old_one(host: MeteredHost) -> None:
    await two_closed_pages(host)
    now, day = round(host.moment() * 1000), 24 * HOUR
    (first, _), _ = sorted(await closed_pages(host))
    await host.client.patch(kinds.CONFIG_MAPS, first, {"metadata": {"annotations": {labels.USAGE_UNTIL: None}}}, host.system)
    store = UsageStore(host.client, host.system, "after")
    await store.tidy(now)
    assert first in {name for name, _ in await closed_pages(host)}
    # The control: one that says that it is too old goes.
    await store.tidy(now + 401 * day)
    assert [name for name, _ in await closed_pages(host)] == [first]


async def _gone(host: MeteredHost, usage: Any) -> None:
    async def so() -> bool:
        return any(known.gone for known in usage._meter._known.values())

    await until(so, "the end to be seen")
