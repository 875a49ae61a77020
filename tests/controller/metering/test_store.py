"""Pages of usage on a real API server: two writers, a page that is there already, old ones, one that cannot be read."""

import pytest

from bulkhead.api import names
from bulkhead.kube import resources as kinds
from bulkhead.metering.meter import HOUR
from controller.metering.store import OvertakenError, UsageStore
from tests.controller.metering.bed import MeteredHost

pytestmark = pytest.mark.apiserver


async def test_of_two_writers_one_starts_again(host: MeteredHost) -> None:
    one, other = (UsageStore(host.client, host.system, name) for name in ("one", "other"))
    page = await one.open(5 * HOUR)
    await one.save(page)
    theirs = await other.open(6 * HOUR)
    assert (theirs.number, theirs.until) == (1, 5 * HOUR)
    theirs.until = 6 * HOUR
    await other.save(theirs)
    with pytest.raises(OvertakenError):
        await one.save(page)
    assert (await one.open(7 * HOUR)).until == 6 * HOUR


async def test_a_page_that_is_there_already_is_written_over_only_by_more(host: MeteredHost) -> None:
    """A controller that was stopped before it closed, and did not know that another had gone on."""
    late, leader = (UsageStore(host.client, host.system, name) for name in ("late", "leader"))
    page = await late.open(HOUR)
    stored = await late.save(page)
    theirs = await leader.open(HOUR)
    theirs.until = 2 * HOUR
    await leader.close(theirs, await leader.save(theirs))
    with pytest.raises(OvertakenError):
        await late.close(page, stored)
    assert [(page.number, page.until) for page in await host.pages()] == [(1, 2 * HOUR), (2, 2 * HOUR)]


async def test_old_pages_go_by_age_and_what_cannot_be_read_stops_nothing(host: MeteredHost) -> None:
    store = UsageStore(host.client, host.system, "w")
    page = await store.open(HOUR)
    page = await store.close(page, await store.save(page))
    page.until = 390 * 24 * HOUR
    page = await store.close(page, await store.save(page))
    await store.tidy(420 * 24 * HOUR)
    assert [page.number for page in await host.pages()] == [2, 3]
    await host.client.patch(kinds.CONFIG_MAPS, names.USAGE_OPEN, {"binaryData": {"page": "AAAA"}}, host.system)
    assert (await store.open(401 * 24 * HOUR)).number == 3
    await host.client.delete(kinds.CONFIG_MAPS, names.USAGE_OPEN, host.system)
    again = await store.open(395 * 24 * HOUR)
    assert (again.number, again.until) == (3, 390 * 24 * HOUR)
