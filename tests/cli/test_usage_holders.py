"""Whose usage a row of `bulkhead usage` is, where several tenants had a name one after the other."""

import csv
import io
import json
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.kube.client import Client
from bulkhead.metering.meter import HOUR, Tally, UsageKey
from bulkhead.metering.usagebook import Page, Sums
from workstation.cli.arguments import Host
from workstation.cli.console import details
from workstation.cli.console.live import Live
from workstation.cli.quotas import usage
from workstation.cli.quotas.usage import UsageRequest

GPU = "nvidia.com/gpu"
FORMER, PRESENT = "11111111-former", "22222222-present"


def tally(hours_ago: int, used: float, tenant: str = "red", now: int = 0, **more: Any) -> Tally:
    return Tally(
        now // HOUR - hours_ago, UsageKey(tenant, "ml", "Job/a", GPU, ""), round(used * HOUR), idle=0, borrowed=0, **more
    )


def page(number: int, now: int, holder: str, *tallies: Tally) -> Page:
    made = Page(number, now, "w")
    for one in tallies:
        made.add(one, holder)
    return made


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[Page]:
    """What the host has stored; nothing is held since then."""
    pages: list[Page] = []

    async def collect(*_: Any) -> tuple[list[Page], list[tuple[int, UsageKey, Sums]]]:
        return pages, []

    async def of_request(_: UsageRequest, since: int, now: int) -> tuple[Any, ...]:
        return pages, [], now, None

    monkeypatch.setattr(usage, "collect", collect)
    monkeypatch.setattr(usage, "_collect", of_request)
    return pages


def shown(capsys: pytest.CaptureFixture[str], **asked: Any) -> tuple[str, str]:
    given: dict[str, Any] = {"by": "tenant", "form": "table", **asked}
    request = UsageRequest(Host(), "red", 7 * 86_400, namespace="bulkhead-system", **given)
    assert usage.print_usage(request) == 0
    told = capsys.readouterr()
    return told.out, told.err


def now_ms() -> int:
    return round(time.time() * 1000)


def test_two_tenants_of_one_name_have_rows_of_their_own(stored: list[Page], capsys: pytest.CaptureFixture[str]) -> None:
    now = now_ms()
    stored += [page(1, now, FORMER, tally(5, 4, now=now)), page(2, now, PRESENT, tally(2, 1, now=now))]
    out, err = shown(capsys)
    assert [line.split() for line in out.splitlines()] == [
        ["TENANT", "RESOURCE", "FLAVOR", "HOURS", "USED", "IDLE", "BORROWED", "RESERVED", "BUSY", "UID"],
        ["red", GPU, "-", "4.00", "4.00", "0.00", "0.00", "0.00", "-", FORMER],
        ["red", GPU, "-", "1.00", "1.00", "0.00", "0.00", "0.00", "-", PRESENT],
    ]
    assert "the UID tells them apart: red\n" in err
    items = json.loads(shown(capsys, form="json", by="owner")[0])["items"]
    assert [(item["tenantUid"], item["owner"], item["seconds"]) for item in items] == [
        (FORMER, "Job/a", 4 * 3600), (PRESENT, "Job/a", 3600)
    ]  # fmt: skip
    rows = list(csv.reader(io.StringIO(shown(capsys, form="csv")[0])))
    assert (rows[0][0], rows[0][-1], [row[-1] for row in rows[1:]]) == ("tenant", "tenantUid", [FORMER, PRESENT])


def test_what_an_older_release_counted_is_that_of_the_only_tenant_known(
    stored: list[Page], capsys: pytest.CaptureFixture[str]
) -> None:
    now = now_ms()
    long_ago = page(1, now, FORMER, tally(24 * 30, 9, now=now))
    stored += [long_ago, page(2, now, "", tally(5, 4, now=now)), page(3, now, PRESENT, tally(2, 1, now=now))]
    out, err = shown(capsys)
    assert [line.split()[-3:] for line in out.splitlines()[1:]] == [["0.00", "0.00", "-"]]
    assert ("5.00" in out, "UID" in out, "UID" in err) == (True, False, False)


def test_devices_that_a_former_tenant_held_are_not_idle_ones_of_the_present(
    stored: list[Page], capsys: pytest.CaptureFixture[str]
) -> None:
    now = now_ms()
    measured = {"measured": 4 * HOUR, "busy": 0}
    stored += [
        page(1, now, FORMER, *(tally(ago, 4, now=now, **measured) for ago in (3, 2, 1))),
        page(2, now, PRESENT, *(tally(ago, 1, now=now, measured=HOUR, busy=0) for ago in (1, 0))),
    ]
    (item,) = json.loads(shown(capsys, form="json", idle=True)[0])["items"]
    assert (item["devices"], item["hours"]) == (1.0, 1)


async def test_the_page_of_a_tenant_shows_nothing_of_a_former_one(stored: list[Page]) -> None:
    now = now_ms()
    stored += [
        page(1, now, FORMER, tally(48, 4, now=now)),
        page(2, now, PRESENT, tally(0, 1, now=now), tally(0, 2, "blue", now)),
    ]
    found = details.Details(cast(Client, None), cast(Live, SimpleNamespace(controllers=None)))
    assert [row["used"] for row in (await found.usage({"name": "red"}))["rows"]] == [1.0]
    assert [row["used"] for row in (await found.usage({}))["rows"]] == [4.0, 3.0]


async def test_the_page_reads_usage_where_the_controller_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def collect(_: Client, namespace: str, *__: Any) -> tuple[list[Page], list[Any]]:
        asked.append(namespace)
        return [], []

    monkeypatch.setattr(usage, "collect", collect)
    for controllers in ([{"metadata": {"namespace": "gpu-cloud"}}], [], None):
        live = SimpleNamespace(controllers=controllers)
        await details.Details(cast(Client, None), cast(Live, live)).usage({})
    assert asked == ["gpu-cloud", "bulkhead-system", "bulkhead-system"]
