"""`bulkhead usage` against a real API server: pages that a controller stored, and pods and claims that hold something since."""

import csv
import io
import json
import time
from collections.abc import AsyncIterator

import pytest

from bulkhead.api import deviceclaims, labels, ledger, names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.metering import usagebook
from bulkhead.metering.meter import HOUR, Tally, UsageKey
from bulkhead.metering.usagebook import Page
from tests.kit.commandline import Cli

pytestmark = [pytest.mark.apiserver, pytest.mark.commands]
GPU = "nvidia.com/gpu"


class Stored:
    """Pages in a namespace of their own."""

    def __init__(self, client: Client, space: str) -> None:
        self.client = client
        self.space = space
        self.now = round(time.time() * 1000)

    async def page(self, number: int, *tallies: Tally, until: int, closed: bool) -> None:
        page = Page(number, until, "w")
        for tally in tallies:
            page.add(tally)
        await self.client.create(
            kinds.CONFIG_MAPS, usagebook.config_map(page, usagebook.write(page), closed=closed), self.space
        )

    def tally(self, hours_ago: int, used: float, tenant: str, owner: str = "Job/a", **more: float) -> Tally:
        hour = self.now // HOUR - hours_ago
        account = UsageKey(tenant, "ml", owner, GPU, "")
        kinds_of_time = ("idle", "borrowed", "reserved", "measured", "busy")
        amounts = {kind: round(more.get(kind, 0) * HOUR) for kind in kinds_of_time}
        return Tally(hour, account, round(used * HOUR), **amounts)


@pytest.fixture
async def stored(cli: Cli, host_client: Client, name: str) -> AsyncIterator[Stored]:
    for space in (f"usage-{name}", names.work_namespace(name)):
        await host_client.create(kinds.NAMESPACES, {"metadata": {"name": space}})
    await host_client.apply(kinds.TENANTS, {"metadata": {"name": name}, "spec": {"class": "standard"}})
    yield Stored(host_client, f"usage-{name}")
    for pod in (await host_client.list(kinds.PODS, names.work_namespace(name))).items:
        await host_client.delete(kinds.PODS, pod["metadata"]["name"], names.work_namespace(name), grace_seconds=0)
    await host_client.delete(kinds.TENANTS, name)


async def test_pages_are_summed_and_each_number_counts_once(cli: Cli, stored: Stored, name: str) -> None:
    old, new = stored.tally(300, 5, name), stored.tally(2, 1.5, name, idle=0.5, borrowed=1, reserved=2)
    other = stored.tally(1, 3, name, "=Job/b")
    await stored.page(1, old, until=stored.now - 290 * HOUR, closed=True)
    await stored.page(2, new, until=stored.now - HOUR, closed=True)
    # The controller died between closing a page and beginning the next one.
    await stored.page(2, new, other, until=stored.now, closed=False)
    where = ("-n", stored.space)
    done = await cli("usage", name, *where)
    assert done.code == 0, done.err
    assert [line.split() for line in done.out.splitlines()] == [
        ["TENANT", "RESOURCE", "FLAVOR", "HOURS", "USED", "IDLE", "BORROWED", "RESERVED", "BUSY"],
        [name, GPU, "-", "5.00", "4.50", "0.50", "1.00", "2.00", "-"],
    ]
    rows = json.loads((await cli("usage", name, *where, "--since", "30d", "--by", "owner", "-o", "json")).out)["items"]
    assert [(row["namespace"], row["owner"], row["seconds"], row["reservedSeconds"]) for row in rows] == [
        ("ml", "Job/a", 7 * 3600, 2 * 3600), ("ml", "=Job/b", 3 * 3600, 0)
    ]  # fmt: skip
    found = list(csv.DictReader(io.StringIO((await cli("usage", *where, "--by", "owner", "-o", "csv")).out)))
    assert [(row["owner"], row["usedSeconds"]) for row in found if row["tenant"] == name] == [
        ("'=Job/b", "10800.0"), ("Job/a", "5400.0")
    ]  # fmt: skip


async def test_what_pods_hold_since_the_last_page_is_counted(cli: Cli, stored: Stored, name: str) -> None:
    await stored.page(1, until=stored.now - 2 * HOUR, closed=False)
    work = names.work_namespace(name)
    noted = {labels.VIRTUAL_NAMESPACE: "ml", labels.VIRTUAL_NAME: "p"}
    noted[ledger.ADMITTED] = ledger.write_admitted(ledger.Admitted(stored.now / 1000 - 3 * 3600, "n1", borrowed={GPU: 1}))
    container = {"name": "c", "image": "x", "resources": {"limits": {GPU: 2}}}
    meta = {"name": "p", "labels": {labels.SYNCED: "syncer"}, "annotations": noted}
    await stored.client.create(kinds.PODS, {"metadata": meta, "spec": {"containers": [container]}}, work)
    said = json.loads((await cli("usage", name, "-n", stored.space, "--by", "namespace", "-o", "json")).out)
    (row,) = said["items"]
    assert (row["tenant"], row["namespace"], row["usedSeconds"]) == (name, "ml", 0)
    assert 4 * 3600 <= row["idleSeconds"] < 4 * 3600 + 240
    assert row["borrowedSeconds"] == pytest.approx(row["idleSeconds"] / 2)


async def test_what_claims_hold_since_the_last_page_is_counted_where_the_tenant_may_have_any(
    cli: Cli, stored: Stored, name: str
) -> None:
    await stored.page(1, until=stored.now - 2 * HOUR, closed=False)
    work, classes = names.work_namespace(name), ("gpu.example.com", "imex.example.com")
    noted = {labels.VIRTUAL_NAMESPACE: "ml", labels.VIRTUAL_NAME: "mine"}
    meta = {"name": "mine", "labels": {labels.SYNCED: "syncer"}, "annotations": noted}
    requests = [{"name": f"r{at}", "exactly": {"deviceClassName": device_class}} for at, device_class in enumerate(classes)]
    claim = {"metadata": meta, "spec": {"devices": {"requests": requests}}}
    await stored.client.create(kinds.RESOURCE_CLAIMS, claim, work)
    given = [{"request": request["name"], "driver": "d", "pool": "n1", "device": request["name"]} for request in requests]
    # By a host that says nothing of when; so it was then, or since the claim was made.
    status = {"status": {"allocation": {"devices": {"results": given}}}}
    await stored.client.patch(kinds.RESOURCE_CLAIMS, "mine", status, work, subresource="status")

    async def rows() -> list[tuple[str, str, str, str]]:
        said = json.loads((await cli("usage", name, "-n", stored.space, "--by", "owner", "-o", "json")).out)["items"]
        assert all(0 < row["idleSeconds"] < 240 and row["usedSeconds"] == row["borrowedSeconds"] == 0 for row in said)
        return [(row["namespace"], row["owner"], row["resource"], row["flavor"]) for row in said]

    # Claims are looked for where a quota of any tenant counts them, of one that another file left as well.
    for left in (await stored.client.list(kinds.RESOURCE_QUOTAS, field_selector=f"metadata.name={names.OBJECT_QUOTA}")).items:
        await stored.client.delete(kinds.RESOURCE_QUOTAS, names.OBJECT_QUOTA, left["metadata"]["namespace"])
    assert await rows() == []
    lines = json.dumps({classes[0]: f"{GPU}@h100"})
    hard = {deviceclaims.quota_name(device_class): "4" for device_class in classes}
    quota = {"metadata": {"name": names.OBJECT_QUOTA, "annotations": {deviceclaims.LINES: lines}}, "spec": {"hard": hard}}
    await stored.client.create(kinds.RESOURCE_QUOTAS, quota, work)
    owner = "ResourceClaim/mine"
    assert sorted(await rows()) == [("ml", owner, classes[1], ""), ("ml", owner, GPU, "h100")]


async def test_without_pages_the_next_step_is_told_and_what_cannot_be_read_is_left_out(
    cli: Cli, stored: Stored, name: str
) -> None:
    nothing = await cli("usage", "-n", stored.space)
    assert (nothing.code, "there is no stored usage" in nothing.err) == (1, True)
    await stored.page(3, stored.tally(1, 1, name), until=stored.now, closed=False)
    damaged = {
        "metadata": {"name": "bulkhead-usage-20260101-2", "labels": {labels.USAGE: "closed"}},
        "binaryData": {"page": "AA=="},
    }
    await stored.client.create(kinds.CONFIG_MAPS, damaged, stored.space)
    done = await cli("usage", name, "-n", stored.space)
    assert (done.code, "is left out" in done.err, "1.00" in done.out) == (0, True, True)
    gone = await cli("usage", "gone", "-n", stored.space)
    assert (gone.code, "tenant gone does not exist now" in gone.err) == (0, True)


@pytest.mark.parametrize("wrong", [("--since", "5x"), ("--by", "pod"), ("-o", "xml"), ("Not_a_name",)])
async def test_wrong_words_are_refused(cli: Cli, wrong: tuple[str, ...]) -> None:
    assert (await cli("usage", *wrong)).code == 2


async def test_idle_names_who_holds_devices_that_are_not_at_work(cli: Cli, stored: Stored, name: str) -> None:
    """Of three jobs one is idle, one is busy, and one was not measured."""
    where = ("-n", stored.space, "--idle")
    page = [stored.tally(ago, 4, name, owner) for ago in (0, 1, 2) for owner in ("Job/idle", "Job/busy", "Job/dark")]
    await stored.page(1, *page, until=stored.now - 3 * HOUR, closed=True)
    done = await cli("usage", name, *where)
    assert done.code == 1
    assert "no utilisation is measured" in done.err
    assert "gpuMetrics.enabled" in done.err

    load = [
        *(stored.tally(ago, 0, name, "Job/idle", measured=4, busy=0.04) for ago in (0, 1, 2)),
        *(stored.tally(ago, 0, name, "Job/busy", measured=4, busy=3.5) for ago in (0, 1, 2)),
    ]
    await stored.page(2, *load, until=stored.now, closed=False)
    done = await cli("usage", name, *where)
    assert done.code == 0, done.err
    assert [line.split() for line in done.out.splitlines()][1:] == [
        [name, "ml", "Job/idle", GPU, "-", "4.0", "1.0%", "2"],
    ]
    assert f"{name}/ml/Job/dark" in done.err
    found = json.loads((await cli("usage", name, *where, "-o", "json")).out)
    assert [(item["owner"], item["hours"], item["utilisation"]) for item in found["items"]] == [("Job/idle", 2, 0.01)]
    assert [item["owner"] for item in found["unmeasured"]] == ["Job/dark"]
    assert (await cli("usage", name, *where, "-o", "csv")).code == 2
    # Used by process and by utilisation stand side by side.
    rows = json.loads((await cli("usage", name, "-n", stored.space, "--by", "owner", "-o", "json")).out)["items"]
    busy = {row["owner"]: (row["usedSeconds"], row["measuredSeconds"], row["busySeconds"]) for row in rows}
    assert busy["Job/busy"] == (12 * 3600, 12 * 3600, 10.5 * 3600)
    assert busy["Job/dark"] == (12 * 3600, 0, 0)


async def test_a_bill_as_focus_has_the_prices_of_the_config_map(cli: Cli, stored: Stored, name: str) -> None:
    await stored.page(1, stored.tally(2, 2, name, "=Job/a", idle=1), until=stored.now, closed=False)
    ask = ("usage", name, "-n", stored.space, "-o", "focus")
    done = await cli(*ask)
    (row,) = csv.DictReader(io.StringIO(done.out))
    assert (row["BilledCost"], row["SubAccountId"], row["ResourceName"]) == ("0.000000", name, "'=Job/a")
    assert f"there is no ConfigMap {stored.space}/bulkhead-prices" in done.err

    prices = {"currency": "EUR", "prices": '- {resource: nvidia.com/gpu, perHour: "2.50"}\n'}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bulkhead-prices"}, "data": prices}
    await stored.client.create(kinds.CONFIG_MAPS, body, stored.space)
    (row,) = csv.DictReader(io.StringIO((await cli(*ask, "--billing-account", "lab")).out))
    assert (row["BilledCost"], row["BillingCurrency"], row["BillingAccountId"]) == ("7.500000", "EUR", "lab")

    await stored.client.patch(
        kinds.CONFIG_MAPS, "bulkhead-prices", {"data": {"prices": "- {resource: x, perHour: -1}"}}, stored.space
    )
    done = await cli(*ask)
    assert done.code == 1
    assert "entry 1: perHour must be a number from 0" in done.err
