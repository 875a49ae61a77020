"""`bulkhead usage`: for how long tenants held devices, as the controller stored it, and since then as pods and claims say.

pages on the host ──> of each number the newest ──> up to some moment ──┐
pods, claims    ──> what they held since that moment ──> the same Meter ─┴─> sums by tenant, namespace or owner
"""

import argparse
import asyncio
import contextlib
import csv
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from bulkhead.api import labels, names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import Obj
from bulkhead.metering import usagebook
from bulkhead.metering.claimed import claimed_of
from bulkhead.metering.held import held_of
from bulkhead.metering.meter import HOUR, Lines, Meter, UsageKey
from bulkhead.metering.usagebook import Page, Sums, UnreadableError
from workstation.cli import connection
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document, plain, table
from workstation.cli.quotas.hostview import Reading, allowed, collected, device_lines

_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "tenant": ("tenant",),
    "namespace": ("tenant", "namespace"),
    "owner": ("tenant", "namespace", "owner"),
}
_FLAVOR: Final = ("resource", "flavor")
# Pages of more than a year, should somebody ask for it.
_MOST_PAGES: Final = 4000
_TRIES: Final = 3


def print_usage(options: argparse.Namespace) -> int:
    """`bulkhead usage [TENANT] [--since 7d] [--by tenant|namespace|owner] [-o table|json|csv]`."""
    now = round(time.time() * 1000)
    since = (now - round(options.since * 1000)) // HOUR * HOUR
    pages, open_rows, until = asyncio.run(_collect(options, since, now))
    rows = [row for page in pages for row in page.rows()] + open_rows
    if options.tenant:
        rows = [row for row in rows if row[1].tenant == options.tenant]
    fields = (*_GROUPS[options.by], *_FLAVOR)
    empty = UsageKey("", "", "", "", "")
    found = usagebook.summed(
        rows, since, lambda account: empty._replace(**{field: getattr(account, field) for field in fields})
    )
    listed = sorted(found.items(), key=lambda item: (item[0].tenant, -item[1].used - item[1].idle, item[0]))
    _print(listed, fields, options.output, since=since, until=until)
    return Exit.DONE


async def _collect(
    options: argparse.Namespace, since: int, now: int
) -> tuple[list[Page], list[tuple[int, UsageKey, Sums]], int]:
    """The stored pages, what was not stored yet, and up to when that is."""
    async with connection.host_client(options) as client:
        if options.tenant:
            await _check_tenant(client, options)
        reading = Reading()
        async with reading.told(), allowed():
            pages = await _whole(client, options.namespace, since, reading)
            if not pages:
                raise CliError(
                    f"nothing was metered yet: there are no pages in namespace {options.namespace}",
                    next_step="the controller meters from when it first leads; name its namespace with -n if it is another",
                )
            meter = Meter(max(page.until for page in pages))
            for held in await collected(client, kinds.PODS, held_of, reading, label_selector=labels.MIRRORED):
                meter.see(held, listed=True)
            lines = await _see_claims(client, meter, reading)
    found = meter.count(now, lines=lines)
    rows = [(each.hour, each.account, usagebook.sums_of(each)) for each in found]
    return pages, rows, now


async def _see_claims(client: Client, meter: Meter, reading: Reading) -> Lines:
    """Claims for devices; returns what each of them counts as. Where no tenant may have one, none is read."""
    lines = await device_lines(client, reading)
    if lines:
        with contextlib.suppress(NotFound):
            for claimed in await collected(client, kinds.RESOURCE_CLAIMS, claimed_of, reading, label_selector=labels.MIRRORED):
                meter.see_claim(claimed, None)
    return lines


async def _check_tenant(client: Client, options: argparse.Namespace) -> None:
    """A name that is no tenant's is a typing error, unless it was one's that is gone."""
    try:
        names.check_tenant_name(options.tenant)
    except names.InvalidTenantNameError as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    try:
        await client.get(kinds.TENANTS, options.tenant)
    except NotFound as error:
        if error.reason != "NotFound":
            raise connection.not_installed() from error
        sys.stderr.write(f"warning: there is no tenant {options.tenant} now; what it used while there was one is counted\n")


async def _whole(client: Client, namespace: str, since: int, reading: Reading) -> list[Page]:
    """The pages of that time, one after another: read again where one was closed, and the next begun, between two reads."""
    for _ in range(_TRIES):
        pages = usagebook.newest(await _pages(client, namespace, since, reading))
        numbers = [page.number for page in pages]
        if not numbers or len(numbers) == numbers[-1] - numbers[0] + 1:
            return pages
    sys.stderr.write("warning: pages of usage are missing between others: what they held is not counted\n")
    return pages


async def _pages(client: Client, namespace: str, since: int, reading: Reading) -> list[Page]:
    """Pages that reach into the time that is asked for, and the open one."""
    listed = await client.list_metadata(kinds.CONFIG_MAPS, namespace, label_selector=labels.USAGE)
    recent = [str(each["metadata"]["name"]) for each in listed.items if _until(each) >= since]
    if len(recent) > _MOST_PAGES:
        raise CliError(f"{len(recent)} pages of usage", next_step="ask for less with --since", code=Exit.USAGE)
    pages: list[Page] = []
    for number, name in enumerate(recent, 1):
        reading.text = f"reading usage: {number} of {len(recent)} pages"
        try:
            pages.append(usagebook.page_of(await client.get(kinds.CONFIG_MAPS, name, namespace)))
        except NotFound:
            # The open page was closed, or an old one has gone, in this moment.
            continue
        except UnreadableError as error:
            sys.stderr.write(f"warning: ConfigMap {namespace}/{plain(name)}: {error}; it is left out\n")
    return pages


def _until(config_map: Obj) -> int:
    noted = str((config_map["metadata"].get("annotations") or {}).get(labels.USAGE_UNTIL) or "")
    return int(noted) if noted.isdecimal() and len(noted) < 20 else 1 << 62


def _print(rows: Iterable[tuple[UsageKey, Sums]], fields: tuple[str, ...], form: str, *, since: int, until: int) -> None:
    if form == "json":
        items = [{field: getattr(account, field) for field in fields} | _seconds(sums) for account, sums in rows]
        document({"since": _moment(since), "until": _moment(until), "items": items}, "json")
        return
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow((*fields, *_seconds(Sums())))
        writer.writerows(_cells(rows, fields))
        return
    headers = [*(field.upper() for field in fields), "HOURS", "USED", "IDLE", "BORROWED", "RESERVED"]
    shown = [(*(getattr(account, field) for field in fields), *_hours(sums)) for account, sums in rows]
    if not shown:
        sys.stderr.write("no tenant held a device in that time, or had one reserved\n")
        return
    table(headers, shown)
    sys.stderr.write(f"device-hours from {_moment(since)} to {_moment(until)}\n")


def _cells(rows: Iterable[tuple[UsageKey, Sums]], fields: tuple[str, ...]) -> Iterator[list[str]]:
    for account, sums in rows:
        # A cell that begins like a formula would be one in a spreadsheet, and a tenant names its objects.
        said = (plain(getattr(account, field)) for field in fields)
        yield [*(f"'{each}" if each[:1] in {"=", "+", "-", "@"} else each for each in said), *map(str, _seconds(sums).values())]


def _seconds(sums: Sums) -> dict[str, float]:
    total = sums.used + sums.idle
    parts = {"seconds": total, "usedSeconds": sums.used, "idleSeconds": sums.idle, "borrowedSeconds": sums.borrowed}
    parts["reservedSeconds"] = sums.reserved
    return {name: amount / 1000 for name, amount in parts.items()}


def _hours(sums: Sums) -> list[str]:
    return [f"{amount / HOUR:.2f}" for amount in (sums.used + sums.idle, *sums)]


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
