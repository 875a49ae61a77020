"""What a tenant is told of its own device-hours, on a real API server: once, of itself alone, whatever its pages are."""

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bulkhead.api import ledger, names, ownusage
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.metering import usagebook
from bulkhead.metering.meter import HOUR, UsageKey
from bulkhead.metering.usagebook import Page, Sums
from controller.metering.shown import Shown
from tests.kit.fakeclock import FakeClock

pytestmark = pytest.mark.apiserver
GPU = "nvidia.com/gpu"
# The tenants of these tests are made today. What is counted ends tomorrow at noon.
_TOMORROW = (datetime.now(UTC) + timedelta(days=1)).replace(hour=12, minute=0, second=0, microsecond=0)
NOON = round(_TOMORROW.timestamp() * 1000)
TOMORROW, TODAY = _TOMORROW.date().isoformat(), (_TOMORROW - timedelta(days=1)).date().isoformat()


class Host:
    """Two tenants with quotas, and a namespace with pages."""

    def __init__(self, client: Client) -> None:
        self.client = client
        mark = secrets.token_hex(4)
        self.red, self.blue, self.system = f"red{mark}", f"blue{mark}", f"system-{mark}"
        self.page = Page(3, NOON)
        self.shown = Shown(client, self.system, FakeClock(), lambda: self.page)

    def rows(self, page: Page, ago: int, **used: int) -> Page:
        """Add seconds of each tenant, some hours ago."""
        for tenant, amount in used.items():
            key = UsageKey(getattr(self, tenant), "ml", "Job/train", GPU, "")
            page.hours.setdefault(NOON // HOUR - ago, {})[key] = Sums(used=1000 * amount)
        return page

    async def closed(self, page: Page) -> None:
        body = usagebook.config_map(page, usagebook.write(page), closed=True)
        await self.client.create(kinds.CONFIG_MAPS, body, self.system)

    async def quota(self, tenant: str) -> dict[str, Any]:
        return await self.client.get(kinds.RESOURCE_QUOTAS, names.POD_QUOTA, names.work_namespace(tenant))

    async def told(self, tenant: str) -> list[tuple[str, int]]:
        found = ownusage.read((await self.quota(tenant))["metadata"].get("annotations", {}).get(ownusage.ANNOTATION))
        return [] if found is None else [(row.day, row.used) for row in found.rows]


@pytest.fixture
async def host(host_client: Client) -> Host:
    made = Host(host_client)
    await host_client.create(kinds.NAMESPACES, {"metadata": {"name": made.system}})
    for tenant in (made.red, made.blue):
        space = names.work_namespace(tenant)
        await host_client.create(kinds.NAMESPACES, {"metadata": {"name": space}})
        noted = {ledger.QUEUE: "kept"}
        await host_client.create(
            kinds.RESOURCE_QUOTAS, {"metadata": {"name": names.POD_QUOTA, "annotations": noted}, "spec": {}}, space
        )
    return made


async def test_a_tenant_is_told_of_closed_pages_and_the_open_one_and_of_nothing_else(host: Host) -> None:
    await host.closed(host.rows(Page(1, NOON - 24 * HOUR), 30, red=7200, blue=60))
    host.rows(host.page, 1, red=40)
    await host.shown.round()
    assert await host.told(host.red) == [(TOMORROW, 40), (TODAY, 7200)]
    assert await host.told(host.blue) == [(TODAY, 60)]
    # What others wrote on the quota stays.
    assert (await host.quota(host.red))["metadata"]["annotations"][ledger.QUEUE] == "kept"


async def test_a_tenant_is_told_nothing_of_a_former_one_of_its_name(host: Host) -> None:
    """Usage is metered by name, and another team may have had the name until today."""
    await host.closed(host.rows(Page(1, NOON - 24 * HOUR), 50, red=7200))
    await host.closed(host.rows(Page(2, NOON - 24 * HOUR), 30, red=600, blue=60))
    host.rows(host.page, 1, red=40)
    await host.shown.round()
    assert await host.told(host.red) == [(TOMORROW, 40)]
    assert await host.told(host.blue) == [(TODAY, 60)]


async def test_a_round_without_news_writes_nothing(host: Host) -> None:
    host.rows(host.page, 1, red=40)
    await host.shown.round()
    before = {tenant: (await host.quota(tenant))["metadata"]["resourceVersion"] for tenant in (host.red, host.blue)}
    host.page.until += 300_000
    await host.shown.round()
    # The process that leads next starts from nothing.
    await Shown(host.client, host.system, FakeClock(), lambda: host.page).round()
    assert before == {tenant: (await host.quota(tenant))["metadata"]["resourceVersion"] for tenant in (host.red, host.blue)}
    host.rows(host.page, 0, red=9)
    await host.shown.round()
    assert await host.told(host.red) == [(TOMORROW, 49)]


async def test_a_damaged_page_and_a_damaged_note_do_not_keep_the_rest_away(host: Host) -> None:
    body = usagebook.config_map(Page(1, NOON - HOUR), b"no page", closed=True)
    await host.client.create(kinds.CONFIG_MAPS, body, host.system)
    await host.closed(host.rows(Page(2, NOON - HOUR), 2, red=5))
    spoilt = {"metadata": {"annotations": {ownusage.ANNOTATION: "[" * 5000}}}
    await host.client.patch(kinds.RESOURCE_QUOTAS, names.POD_QUOTA, spoilt, names.work_namespace(host.red))
    await host.shown.round()
    assert await host.told(host.red) == [(TOMORROW, 5)]
    # Before a process has counted, it says nothing.
    host.page = Page(0, 0)
    await host.shown.round()
    assert await host.told(host.red) == [(TOMORROW, 5)]


async def test_a_page_beside_its_sums_is_told_once(host: Host) -> None:
    page = host.rows(Page(1, NOON - 24 * HOUR), 30, red=7200)
    await host.closed(page)
    sums = usagebook.without_names(usagebook.config_map(page, usagebook.write(page), closed=True))
    await host.client.create(kinds.CONFIG_MAPS, sums, host.system)
    host.rows(host.page, 1, red=40)
    await host.shown.round()
    assert await host.told(host.red) == [(TOMORROW, 40), (TODAY, 7200)]
