"""`bulkhead quota try TENANT RESOURCE=QUANTITY…`: what tenants would lose, and when, if a tenant's quota changed.

    View, changed numbers ──> the ledger's decisions with and without them ──> evicted pods, started pods, quotas

The command changes nothing.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from bulkhead.api.ledger import line_name, line_named, moment
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import Amount, base_units, readable, unit_of
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, NotFound
from bulkhead.ledger.model import Line, Share, Standing, Tenant
from bulkhead.ledger.trial import Trial, try_quota
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Form, Host, add_host, add_output, add_tenant, form_of, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document, heading, plain, table
from workstation.cli.parsing import RAW, Parser
from workstation.cli.quotas import hostview, own, queued
from workstation.cli.quotas.guess import did_you_mean
from workstation.cli.quotas.hostview import View
from workstation.cli.quotas.summary import number
from workstation.cli.quotas.why import tenant_of

_SHOWN_ROWS = 50


@dataclass(frozen=True, slots=True)
class TryRequest:
    """`quota try TENANT RESOURCE=QUANTITY…`."""

    host: Host
    tenant: str
    # Nominal quotas by resource, or by resource@flavor.
    quota: Mapping[str, str]
    form: Form


def add_arguments(parser: Parser) -> None:
    """`quota show` and `quota try TENANT RESOURCE=QUANTITY…`."""
    actions = parser.actions("ACTION")
    own.add_show(actions)
    trial = actions.add_parser(
        "try",
        help="show which tenants would lose quota, and when",
        description="Show what would happen if a tenant's nominal quota changed: which tenants' pods would be evicted and\n"
        "by when, which pods would start, and what quota each tenant would have. The ledger decides so for what runs now.\n"
        "The command changes nothing.",
        epilog="examples:\n"
        "  bulkhead quota try red nvidia.com/gpu=16\n"
        "  bulkhead quota try red nvidia.com/gpu@h100=8 cpu=64\n"
        "  bulkhead quota try red nvidia.com/gpu=0 -o json | jq '.losses | length'\n"
        "Then change it: kubectl edit tenant red\n",
        formatter_class=RAW,
    )
    add_host(trial)
    add_tenant(trial)
    trial.add_argument(
        "quota",
        metavar="RESOURCE=QUANTITY",
        nargs="+",
        type=values.quota,
        help="nominal quota of a resource, or of resource@flavor",
    )
    add_output(trial, more="; json and yaml use base units and are complete")
    trial.does(_request, try_it)


def _request(options: argparse.Namespace) -> TryRequest:
    return TryRequest(host_of(options), options.tenant, values.each_once(options.quota), form_of(options))


def try_it(request: TryRequest) -> int:
    """`bulkhead quota try TENANT RESOURCE=QUANTITY… [-o table|json|yaml]`."""
    view, bounds = eventloop.run(_observe(request))
    tenant_of(view, request.tenant)
    tenant = view.snapshot.tenants.get(request.tenant)
    if tenant is None:
        raise CliError(
            f"tenant {request.tenant} has no quota on the host yet",
            next_step=f"see why: bulkhead tenant describe {request.tenant}",
        )
    shares = changed(tenant, request.quota)
    for warning in beyond(tenant, shares, bounds):
        sys.stderr.write(f"warning: {warning}\n")
    found = try_quota(view.snapshot, tenant.name, shares, view.now)
    if request.form != "table":
        document(as_json(tenant, shares, found), request.form)
    else:
        _print(tenant, shares, found, view.now)
    return Exit.DONE


async def _observe(request: TryRequest) -> tuple[View, Mapping[str, Any]]:
    """The host, and the quota that the tenant's class allows."""
    async with connection.host_client(request.host) as client:
        view = await hostview.observe(client)
        return view, await bounds_of(client, tenant_of(view, request.tenant))


async def bounds_of(client: Client, tenant: Obj) -> Mapping[str, Any]:
    """The quota that the tenant's class allows, by resource; empty if the class may not be read."""
    try:
        found = await client.get(kinds.TENANT_CLASSES, str(mapping(tenant.get("spec")).get("class") or ""))
    except (NotFound, Forbidden, ValueError):
        # It is then unknown whether the class would allow the quota; its effects can still be computed.
        return {}
    return mapping(mapping(mapping(found.get("spec")).get("quota")).get("resources"))


def changed(tenant: Tenant, asked: Mapping[str, str]) -> dict[Line, Share]:
    """The tenant's changed shares. Raises CliError for a line that the ledger does not count for it."""
    found: dict[Line, Share] = {}
    for name, quantity in asked.items():
        line = line_named(name)
        share = tenant.shares.get(line)
        if share is None:
            raise _no_line(tenant, name, line)
        amount = Amount.read(quantity)
        if "/" in line[1] and not amount.is_whole:
            raise CliError(f"{name} must be a whole number, not {quantity}", code=Exit.USAGE)
        nominal = base_units(line[1], amount.number, "down")
        lending = share.lending if share.lending is None else min(share.lending, nominal)
        found[line] = replace(share, nominal=nominal, lending=lending)
    return found


def _no_line(tenant: Tenant, name: str, line: Line) -> CliError:
    there = sorted(line_name(*counted) for counted in tenant.shares)
    flavors = [flavor for flavor in there if line_named(flavor)[1] == line[1]]
    if flavors:
        how = "for all flavors together, not for each one" if ("", line[1]) in tenant.shares else "for each flavor of it"
        return CliError(
            f"{plain(name, 100)}: tenant {tenant.name} has a quota {how}",
            next_step=f"name one: {', '.join(flavors)}",
            code=Exit.USAGE,
        )
    known = f"the ledger counts for it: {', '.join(there)}" if there else "the ledger counts nothing for it"
    return CliError(
        f"{plain(name, 100)}: the ledger keeps no quota of that for tenant {tenant.name}, so no pod would be evicted; "
        "with a lower quota the host only refuses new pods",
        next_step=did_you_mean(name, there, known),
        code=Exit.USAGE,
    )


def beyond(tenant: Tenant, shares: Mapping[Line, Share], bounds: Mapping[str, Any]) -> list[str]:
    """Warnings about quotas that the tenant's class does not allow, so that the Tenant would be refused."""
    found = []
    for resource in sorted({resource for _, resource in shares}):
        most = readable(mapping(bounds.get(resource)).get("maxNominal"))
        total = sum(share.nominal for (_, name), share in {**tenant.shares, **shares}.items() if name == resource)
        if most is not None and total > base_units(resource, most, "down"):
            allowed = number(("", resource), base_units(resource, most, "down"))
            found.append(
                f"{resource}: {number(('', resource), total)} is more than its class allows ({allowed}): it would be refused"
            )
    return found


def _print(tenant: Tenant, shares: Mapping[Line, Share], found: Trial, now: float) -> None:
    changes = ", ".join(
        f"{line_name(*line)} {number(line, tenant.shares[line].nominal)} -> {number(line, share.nominal)}"
        for line, share in shares.items()
    )
    print(f"if tenant {tenant.name} had {changes} (nothing is changed):")
    heading("Pods that would be evicted")
    rows = [
        (
            loss.pod.tenant,
            f"{loss.pod.virtual_namespace}/{loss.pod.virtual_name}",
            queued.devices(loss.pod.asks),
            loss.pod.node,
            loss.cause,
            _when(loss.by, now),
        )
        for loss in found.losses
    ]
    _listed(["TENANT", "POD", "ASKS", "NODE", "WHY", "GONE BY"], rows)
    heading("Pods that would start at once")
    starts = [(pod.tenant, f"{pod.virtual_namespace}/{pod.virtual_name}", queued.devices(pod.asks)) for pod in found.starts]
    _listed(["TENANT", "POD", "ASKS"], starts)
    for name, lines in sorted(found.kept.items()):
        over = ", ".join(f"{number(line, amount)} {line_name(*line)}" for line, amount in lines.items())
        print(f"\n{name} would hold {over} more than it may, and would keep it until its pods end (overQuota: Keep)")
    heading("Quotas that would change")
    _listed(["TENANT", "RESOURCE", "", "NOMINAL", "AT MOST", "USED", "BORROWED", "LENT"], _standings(found))


def _listed(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if not rows:
        print("  none")
        return
    table(headers, rows[:_SHOWN_ROWS], indent=2)
    if len(rows) > _SHOWN_ROWS:
        print(f"  and {len(rows) - _SHOWN_ROWS} more: -o json has all of them")


def _standings(found: Trial) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for name, line, before, after in _differences(found):
        for when, standing in (("before", before), ("after", after)):
            counts = (number(line, getattr(standing, field)) for field in ("nominal", "ceiling", "used", "borrowed", "lent"))
            rows.append((name, line_name(*line), when, *counts))
    return rows


def _differences(found: Trial) -> list[tuple[str, Line, Standing, Standing]]:
    return [
        (name, line, found.before[name][line], after)
        for name, lines in sorted(found.after.items())
        for line, after in sorted(lines.items())
        if line in found.before.get(name, {}) and found.before[name][line] != after
    ]


def _when(by: float, now: float) -> str:
    seconds = max(0, round(by - now))
    stamp = datetime.fromtimestamp(by, UTC).strftime("%H:%M:%SZ")
    return f"{stamp} (in {seconds} s)" if seconds < 600 else f"{stamp} (in {round(seconds / 60)} min)"


def as_json(tenant: Tenant, shares: Mapping[Line, Share], found: Trial) -> dict[str, Any]:
    """What the trial found, in base units and complete."""

    def pod(asked: Any) -> dict[str, Any]:
        return {
            "tenant": asked.tenant,
            "namespace": asked.virtual_namespace,
            "pod": asked.virtual_name,
            "asks": dict(asked.asks),
            "node": asked.node,
        }

    return {
        "tenant": tenant.name,
        "tried": [
            {
                "resource": line[1],
                "flavor": line[0],
                "unit": unit_of(line[1]),
                "nominal": share.nominal,
                "was": tenant.shares[line].nominal,
            }
            for line, share in shares.items()
        ],
        "losses": [pod(loss.pod) | {"cause": str(loss.cause), "by": moment(loss.by)} for loss in found.losses],
        "starts": [pod(started) for started in found.starts],
        "kept": [
            {"tenant": name, "resource": line[1], "flavor": line[0], "unit": unit_of(line[1]), "over": amount}
            for name, lines in sorted(found.kept.items())
            for line, amount in lines.items()
        ],
        "standings": [
            {
                "tenant": name,
                "resource": line[1],
                "flavor": line[0],
                "unit": unit_of(line[1]),
                "before": asdict(before),
                "after": asdict(after),
            }
            for name, line, before, after in _differences(found)
        ],
    }
