"""Two more forms of `bulkhead usage`: owners that hold devices without work, and the bill in FOCUS; and whose usage it is.

Both are computed by `bulkhead.metering`; here they are printed, and the prices read.
"""

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.metering import focus, prices
from bulkhead.metering.idling import BELOW, Idling
from bulkhead.metering.meter import HOUR, UsageKey
from bulkhead.metering.prices import Prices, PricesError
from bulkhead.metering.usagebook import Page, Sums
from workstation.cli.arguments import Form
from workstation.cli.failures import CliError
from workstation.cli.output import document, plain, table

_FIELDS = ("tenant", "namespace", "owner", "resource", "flavor")


async def read_prices(client: Client, namespace: str) -> Prices:
    """The installation's prices; without the ConfigMap no prices, and a warning."""
    try:
        found = await client.get(kinds.CONFIG_MAPS, prices.CONFIG_MAP, namespace)
    except NotFound:
        sys.stderr.write(f"warning: there is no ConfigMap {namespace}/{prices.CONFIG_MAP}, so every cost is 0\n")
        return Prices()
    try:
        return prices.read(found)
    except PricesError as error:
        raise CliError(
            f"ConfigMap {namespace}/{prices.CONFIG_MAP}: {plain(str(error))}",
            next_step="correct it; docs/usage.md shows its form",
        ) from error


def billed(
    pages: Sequence[Page], since_then: Iterable[tuple[int, UsageKey, Sums]], tenant: str | None
) -> Iterator[focus.Billed]:
    """The usage of pages and of the time since then, with the UID of the tenant that had the name."""
    present = pages[-1].holders if pages else {}
    for rows, holders in (*((page.rows(), page.holders) for page in pages), (since_then, present)):
        for hour, account, sums in rows:
            if not tenant or tenant == account.tenant:
                yield hour, account, sums, plain(holders.get(account.tenant, ""))


def told_apart(usage: Iterable[focus.Billed], since: int) -> list[focus.Billed]:
    """The usage from `since` on, with a UID where the name says too little: of two tenants that had it one after the other.

    What an older release counted has no UID; it goes to the tenant of the name where only one is known.
    """
    rows = [row for row in usage if row[0] >= since // HOUR]
    known: dict[str, set[str]] = {}
    for _, account, _, uid in rows:
        known.setdefault(account.tenant, set()).update({uid} - {""})
    only = {tenant: next(iter(uids)) for tenant, uids in known.items() if len(uids) == 1}
    return [(hour, account, sums, only.get(account.tenant, uid)) for hour, account, sums, uid in rows]


def of_present(rows: Iterable[focus.Billed]) -> list[tuple[int, UsageKey, Sums]]:
    """Without what another tenant held that had the name before; `rows` in the order of `billed`."""
    listed = list(rows)
    last = {account.tenant: uid for _, account, _, uid in listed if uid}
    return [row[:3] for row in listed if row[3] in {"", last.get(row[1].tenant)}]


def print_focus(usage: Iterable[focus.Billed], *, since: int, until: int, listed: Prices, account: str) -> None:
    """The bill as CSV."""
    writer = csv.DictWriter(sys.stdout, focus.COLUMNS, lineterminator="\n")
    writer.writeheader()
    unpriced = set()
    for row in focus.rows(usage, since=since, until=until, prices=listed, account=account):
        writer.writerow(row)
        if not row["ListUnitPrice"]:
            unpriced.add(plain(row["SkuId"]))
    if unpriced and listed.per_hour is not None:
        sys.stderr.write(f"warning: no price, so a cost of 0: {', '.join(sorted(unpriced))}\n")


def print_idle(found: Idling, form: Form, *, measured: bool) -> None:
    """Print the owners whose devices were below 5 % for an hour."""
    if not measured:
        raise CliError(
            "no utilisation is measured, so nothing tells which devices are idle",
            next_step="the chart's gpuMetrics.enabled measures it, with dcgm-exporter on the nodes; docs/gpus.md shows how. "
            "`bulkhead usage` shows devices on which no container runs",
        )
    unmeasured = [dict(zip(_FIELDS, account, strict=True)) for account in found.unmeasured]
    if form in {"json", "yaml"}:
        items = [
            dict(zip(_FIELDS, one.account, strict=True))
            | {"devices": round(one.devices, 2), "utilisation": round(one.utilisation, 4), "hours": one.hours}
            for one in found.idle
        ]
        document({"below": BELOW, "items": items, "unmeasured": unmeasured}, form)
        return
    if found.idle:
        headers = ["TENANT", "NAMESPACE", "OWNER", "RESOURCE", "FLAVOR", "DEVICES", "BUSY", "HOURS"]
        shown = [(*one.account, f"{one.devices:.1f}", f"{one.utilisation:.1%}", f"{one.hours}") for one in found.idle]
        table(headers, shown)
    else:
        sys.stderr.write(f"no measured device was below {BELOW:.0%} for the last whole hour\n")
    if unmeasured:
        names = ", ".join(sorted({plain(f"{one['tenant']}/{one['namespace']}/{one['owner']}") for one in unmeasured})[:20])
        sys.stderr.write(f"not measured for most of that hour, so not judged: {names}\n")
