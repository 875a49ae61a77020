"""`bulkhead usage`: for how long tenants held devices, from what the controller stored and from pods and claims since then.

stored pages on the host ──> the newest number of each series ──> up to some time ──┐
pods, claims ──> what they held since that time ──> the same Meter ─────────────────┴─> sums by tenant, namespace or owner
"""

import argparse
import contextlib
import csv
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from bulkhead.api import labels
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.metering import usagebook
from bulkhead.metering.claimed import claimed_of
from bulkhead.metering.focus import Billed
from bulkhead.metering.held import held_of
from bulkhead.metering.idling import idling
from bulkhead.metering.meter import HOUR, Lines, Meter, UsageKey
from bulkhead.metering.prices import Prices
from bulkhead.metering.usagebook import Page, Sums, UnreadableError
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Form, Host, add_host, add_output, add_tenant, form_of, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document, plain, table
from workstation.cli.parsing import RAW, Parser
from workstation.cli.quotas import own
from workstation.cli.quotas.hostview import Reading, allowed, collected, device_lines
from workstation.cli.quotas.usageforms import billed, of_present, print_focus, print_idle, read_prices, told_apart

_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "tenant": ("tenant",),
    "namespace": ("tenant", "namespace"),
    "owner": ("tenant", "namespace", "owner"),
}
_FLAVOR: Final = ("resource", "flavor")
# Pages of more than a year, in case a user asks for it.
_MAX_PAGES: Final = 4000
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class UsageRequest:
    """`usage [TENANT]`; without a tenant all of them."""

    host: Host
    tenant: str | None
    since_seconds: float
    by: Literal["tenant", "namespace", "owner"]
    # The namespace in which the controller runs.
    namespace: str
    form: Form
    idle: bool = False
    account: str = "bulkhead"


def add_arguments(parser: Parser) -> None:
    """`usage [TENANT]`."""
    parser.description = (
        "Device-hours of each tenant, resource and flavor: used while a container ran, idle while devices were held and\n"
        "nothing ran on them, and the borrowed part of both. They are counted up to now. For pods that are gone, up to a\n"
        "minute may be missing until the controller stores it, which it does every minute.\n"
        "Reserved devices are free, but wait for a workload of the tenant, so that others may not use them. They are not part\n"
        "of the held hours, and are shown as the controller last stored them.\n"
        "Busy is the held time multiplied by the devices' utilisation, where that is measured (chart value gpuMetrics)."
    )
    parser.epilog = (
        "examples:\n"
        "  bulkhead usage                                   all tenants, the last seven days\n"
        "  bulkhead usage red --since 24h --by owner        the jobs of red\n"
        "  bulkhead usage                                   with a tenant's kubeconfig: its own, by day, two weeks at most\n"
        "  bulkhead usage --since 30d --by namespace -o csv > november.csv\n"
        "  bulkhead usage --idle                            who holds devices below 5 % for an hour\n"
        "  bulkhead usage --since 30d -o focus > bill.csv   a bill as FOCUS 1.0, with prices of ConfigMap bulkhead-prices\n"
        "  bulkhead usage -o json | jq '.items[] | select(.idleSeconds > .usedSeconds)'\n\n"
        "An owner is the controller of a pod in the tenant's plane, such as Job/train. The row * sums up what was too much to\n"
        "keep by name. Of two tenants that had a name one after the other, each has rows of its own, with the UID of its work\n"
        "namespace."
        " Times are whole hours, from the hour that --since falls into. The controller keeps 400 days.\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    add_tenant(parser, optional=True)
    parser.add_argument(
        "--since", metavar="TIME", type=values.since, default=7 * values.DAY, help="how far to go back: 12h, 7d; default 7d"
    )
    parser.add_argument("--by", choices=["tenant", "namespace", "owner"], default="tenant", help="what to sum up by")
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=values.object_name,
        default="bulkhead-system",
        help="namespace of the controller",
    )
    parser.add_argument("--idle", action="store_true", help="owners whose devices were below 5 %% for the last whole hour")
    parser.add_argument(
        "--billing-account", metavar="NAME", type=values.object_name, default="bulkhead", help="account that -o focus bills"
    )
    add_output(
        parser, "table", "json", "yaml", "csv", "focus", more="; json, yaml and csv use seconds; focus is FOCUS 1.0 as CSV"
    )
    parser.does(_request, print_usage)


def _request(options: argparse.Namespace) -> UsageRequest:
    return UsageRequest(
        host=host_of(options),
        tenant=options.tenant,
        since_seconds=options.since,
        by=options.by,
        namespace=options.namespace,
        form=form_of(options),
        idle=options.idle,
        account=options.billing_account,
    )


def print_usage(request: UsageRequest) -> int:
    """`bulkhead usage [TENANT] [--since 7d] [--by tenant|namespace|owner] [--idle] [-o table|json|yaml|csv|focus]`."""
    if request.idle and request.form not in {"table", "json", "yaml"}:
        raise CliError(f"--idle has no output format {request.form}", next_step="give -o table, json or yaml", code=Exit.USAGE)
    now = round(time.time() * 1000)
    since = (now - round(request.since_seconds * 1000)) // HOUR * HOUR
    if eventloop.run(_own(request, since)):
        return Exit.DONE
    pages, open_rows, until, priced = eventloop.run(_collect(request, since, now))
    usage = billed(pages, open_rows, request.tenant)
    if request.form == "focus":
        print_focus(usage, since=since, until=until, listed=priced, account=request.account)
        return Exit.DONE
    rows = told_apart(usage, since)
    if request.idle:
        recent = of_present(rows)
        print_idle(idling(recent, now), request.form, measured=any(sums.measured for _, _, sums in recent))
        return Exit.DONE
    fields = (*_GROUPS[request.by], *_FLAVOR)
    _print(_summed(rows, since, fields), fields, request.form, since=since, until=until)
    return Exit.DONE


def _summed(rows: Iterable[Billed], since: int, fields: tuple[str, ...]) -> list[tuple[UsageKey, str, Sums]]:
    """The sums by these fields and by the UID of the tenant, those with the most hours first."""
    by_uid: dict[str, list[tuple[int, UsageKey, Sums]]] = {}
    for hour, account, sums, uid in rows:
        by_uid.setdefault(uid, []).append((hour, account, sums))
    empty = UsageKey("", "", "", "", "")
    listed = [
        (key, uid, sums)
        for uid, held in by_uid.items()
        for key, sums in usagebook.summed(
            held, since, lambda account: empty._replace(**{field: getattr(account, field) for field in fields})
        ).items()
    ]
    return sorted(listed, key=lambda row: (row[0].tenant, -row[2].used - row[2].idle, row[0], row[1]))


async def _own(request: UsageRequest, since: int) -> bool:
    """Print what a plane says of its own tenant; False on a host, which has no such object."""
    if request.tenant or request.idle or request.form not in {"table", "json", "yaml"}:
        return False
    async with connection.host_client(request.host) as client:
        return await own.usage(client, request.form, since / 1000)


async def _collect(
    request: UsageRequest, since: int, now: int
) -> tuple[list[Page], list[tuple[int, UsageKey, Sums]], int, Prices]:
    """The stored pages, what is not stored yet, up to which time the result counts, and the prices if they are needed."""
    async with connection.host_client(request.host) as client:
        if request.tenant:
            await _check_tenant(client, request.tenant)
        reading = Reading()
        async with reading.told():
            pages, rows = await collect(client, request.namespace, since, now, reading)
            async with allowed():
                listed = await read_prices(client, request.namespace) if request.form == "focus" else Prices()
    return pages, rows, now, listed


async def collect(
    client: Client, namespace: str, since: int, now: int, reading: Reading
) -> tuple[list[Page], list[tuple[int, UsageKey, Sums]]]:
    """The stored pages from `since` on, and what is not stored yet, up to `now`; both in milliseconds since 1970."""
    async with allowed():
        pages = await _whole(client, namespace, since, reading)
        if not pages:
            await _check_host(client)
            raise CliError(
                f"there is no stored usage in namespace {namespace}",
                next_step="the controller stores usage once it leads; if it runs in another namespace, give that with -n",
            )
        meter = Meter(max(page.until for page in pages))
        for held in await collected(client, kinds.PODS, held_of, reading, label_selector=labels.MIRRORED):
            meter.see(held, listed=True)
        lines = await _see_claims(client, meter, reading)
    found = meter.count(now, lines=lines)
    return pages, [(series.hour, series.account, usagebook.sums_of(series)) for series in found]


async def _see_claims(client: Client, meter: Meter, reading: Reading) -> Lines:
    """Claims for devices; returns what each device class counts as. Nothing is read if no tenant may have claims."""
    lines = await device_lines(client, reading)
    if lines:
        with contextlib.suppress(NotFound):
            for claimed in await collected(client, kinds.RESOURCE_CLAIMS, claimed_of, reading, label_selector=labels.MIRRORED):
                meter.see_claim(claimed, None)
    return lines


async def _check_host(client: Client) -> None:
    """Refuse a cluster that is not a host: in a tenant's own there is nothing to lead, and no usage to store."""
    try:
        async with contextlib.aclosing(client.pages(kinds.TENANTS, limit=1, metadata_only=True)) as listed:
            await anext(listed)
    except NotFound as error:
        raise connection.not_installed() from error


async def _check_tenant(client: Client, tenant: str) -> None:
    """Refuse the name of a tenant that does not exist, unless usage of a former tenant of that name is stored."""
    try:
        await client.get(kinds.TENANTS, tenant)
    except NotFound as error:
        if error.reason != "NotFound":
            raise connection.not_installed() from error
        sys.stderr.write(f"warning: tenant {tenant} does not exist now; this counts what it used before\n")


async def _whole(client: Client, namespace: str, since: int, reading: Reading) -> list[Page]:
    """The pages of that time, in order; they are read again if a page was closed and the next one begun between two reads."""
    for _ in range(_TRIES):
        pages = usagebook.newest(await _pages(client, namespace, since, reading))
        numbers = [page.number for page in pages]
        if not numbers or len(numbers) == numbers[-1] - numbers[0] + 1:
            return pages
    sys.stderr.write("warning: some stored pages are missing, and their usage is not counted\n")
    return pages


async def _pages(client: Client, namespace: str, since: int, reading: Reading) -> list[Page]:
    """Pages that overlap the requested time, and the open one."""
    listed = await client.list_metadata(kinds.CONFIG_MAPS, namespace, label_selector=labels.USAGE)
    recent = [str(page["metadata"]["name"]) for page in listed.items if usagebook.reaches(page) >= since]
    if len(recent) > _MAX_PAGES:
        raise CliError(
            f"too much usage is stored since then: {len(recent)} pages", next_step="give a shorter --since", code=Exit.USAGE
        )
    pages: list[Page] = []
    for number, name in enumerate(recent, 1):
        reading.text = f"reading usage: {number} of {len(recent)} pages"
        try:
            pages.append(usagebook.page_of(await client.get(kinds.CONFIG_MAPS, name, namespace)))
        except NotFound:
            # The open page was closed, or an old one was deleted, at this moment.
            continue
        except UnreadableError as error:
            sys.stderr.write(f"warning: ConfigMap {namespace}/{plain(name)}: {error}; it is left out\n")
    return pages


def _print(rows: Sequence[tuple[UsageKey, str, Sums]], fields: tuple[str, ...], form: Form, *, since: int, until: int) -> None:
    if form in {"json", "yaml"}:
        items = [
            {field: getattr(account, field) for field in fields} | {"tenantUid": uid} | _seconds(sums)
            for account, uid, sums in rows
        ]
        document({"since": _moment(since), "until": _moment(until), "items": items}, form)
        return
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        # The UID is last: earlier releases had the other columns at the same places.
        writer.writerow((*fields, *_seconds(Sums()), "tenantUid"))
        writer.writerows(_cells(rows, fields))
        return
    if not rows:
        sys.stderr.write("no tenant held or reserved a device in that time\n")
        return
    shared = _shared_names(rows)
    headers = [*(field.upper() for field in fields), "HOURS", "USED", "IDLE", "BORROWED", "RESERVED", "BUSY"]
    shown = [(*(getattr(account, field) for field in fields), *_hours(sums)) for account, _, sums in rows]
    if shared:
        headers.append("UID")
        shown = [(*row, uid if account.tenant in shared else "") for row, (account, uid, _) in zip(shown, rows, strict=True)]
    table(headers, shown)
    if shared:
        names = ", ".join(plain(name) for name in shared)
        sys.stderr.write(f"more than one tenant had this name, one after the other, and the UID tells them apart: {names}\n")
    sys.stderr.write(f"device-hours from {_moment(since)} to {_moment(until)}\n")


def _shared_names(rows: Iterable[tuple[UsageKey, str, Sums]]) -> list[str]:
    """Names that several tenants had."""
    holders: dict[str, set[str]] = {}
    for account, uid, _ in rows:
        holders.setdefault(account.tenant, set()).add(uid)
    return sorted(name for name, uids in holders.items() if len(uids) > 1)


def _cells(rows: Iterable[tuple[UsageKey, str, Sums]], fields: tuple[str, ...]) -> Iterator[list[str]]:
    for account, uid, sums in rows:
        # A tenant names its objects, and a cell that begins like a formula would be one in a spreadsheet.
        texts = (plain(getattr(account, field)) for field in fields)
        yield [
            *(f"'{cell}" if cell[:1] in {"=", "+", "-", "@"} else cell for cell in texts),
            *map(str, _seconds(sums).values()),
            uid,
        ]


def _seconds(sums: Sums) -> dict[str, float]:
    total = sums.used + sums.idle
    parts = {"seconds": total, "usedSeconds": sums.used, "idleSeconds": sums.idle, "borrowedSeconds": sums.borrowed}
    parts |= {"reservedSeconds": sums.reserved, "measuredSeconds": sums.measured, "busySeconds": sums.busy}
    return {name: amount / 1000 for name, amount in parts.items()}


def _hours(sums: Sums) -> list[str]:
    shown = (sums.used + sums.idle, sums.used, sums.idle, sums.borrowed, sums.reserved)
    # Of what was not measured, 0 would be a claim.
    return [*(f"{amount / HOUR:.2f}" for amount in shown), f"{sums.busy / HOUR:.2f}" if sums.measured else "-"]


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
