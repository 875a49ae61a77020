"""`bulkhead cohort [NAME]`: a cohort's members, what each lends and borrows, the rules, and the queue in order.

View ──> members, limits and standing of each line ──┐
     └─> decide ──> the queue, with its forecasts ───┴─> tables, or JSON
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from bulkhead.api.ledger import line_name, moment
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Line, Rules, Share
from bulkhead.ledger.verdict import clock, duration
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Form, Host, add_host, add_output, form_of, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import age, document, heading, plain, table
from workstation.cli.parsing import RAW, Parser
from workstation.cli.quotas import hostview, queued
from workstation.cli.quotas.guess import did_you_mean
from workstation.cli.quotas.hostview import View
from workstation.cli.quotas.queued import Waiting, waiting
from workstation.cli.quotas.summary import Members, as_json, cohorts, is_device, number, waiting_pods

_SHOWN_WORKLOADS: Final = 20  # workloads of the queue that the table shows


@dataclass(frozen=True, slots=True)
class CohortRequest:
    """`cohort [NAME]`; without a name all cohorts."""

    host: Host
    name: str | None
    form: Form


def add_arguments(parser: Parser) -> None:
    """`cohort [NAME]`."""
    parser.description = (
        "Tenants of one cohort lend each other idle quota. Without a name, the command lists all cohorts. With a name, it\n"
        "shows the members, what each may lend and borrow and has lent and borrowed, the rules, and the queue in order with\n"
        "forecasts."
    )
    parser.epilog = (
        "examples:\n  bulkhead cohort\n  bulkhead cohort research\n  bulkhead cohort research -o json | jq '.queue[0]'\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    parser.add_argument("name", metavar="NAME", nargs="?", help="the cohort (default: list all of them)")
    add_output(parser, more="; json and yaml use base units and are complete")
    parser.does(_request, show)


def _request(options: argparse.Namespace) -> CohortRequest:
    return CohortRequest(host_of(options), options.name, form_of(options))


def show(request: CohortRequest) -> int:
    """`bulkhead cohort [NAME] [-o table|json|yaml]`."""
    view = eventloop.run(_observe(request.host))
    found = [cohort for cohort in cohorts(view.snapshot) if cohort.name]
    if request.name is None:
        _list(view, found, request.form)
        return Exit.DONE
    members = next((cohort for cohort in found if cohort.name == request.name), None)
    if members is None:
        known = {cohort.name for cohort in found}
        if request.name in view.snapshot.rules:
            members = Members(request.name, (), ())
        else:
            raise CliError(
                f"no tenant is in a cohort {plain(request.name, 100)}",
                next_step=did_you_mean(request.name, known, "list them: bulkhead cohort"),
                code=Exit.NOT_FOUND,
            )
    queue = waiting(view.snapshot, decide(view.snapshot, view.now), members.name)
    if request.form != "table":
        document(_json(view, members, queue), request.form)
    else:
        _print(view, members, queue)
    return Exit.DONE


async def _observe(host: Host) -> View:
    async with connection.host_client(host) as client:
        return await hostview.observe(client)


def _list(view: View, found: Sequence[Members], form: Form) -> None:
    if form != "table":
        document([_json(view, members, None) for members in found], form)
        return
    if not found:
        sys.stderr.write("no tenant is in a cohort\nnext:  set spec.quota.cohort of a Tenant; its class must list the cohort\n")
        return
    rows = []
    for members in found:
        waits = sum(1 for pod in waiting_pods(view.snapshot.pods) if pod.tenant in members.tenants)
        for line in members.lines():
            total = members.total(line)
            counts = (number(line, getattr(total.standing, field)) for field in ("nominal", "used", "borrowed"))
            rows.append((members.name, len(members.tenants), line_name(*line), *counts, number(line, total.waiting), waits))
    table(["COHORT", "TENANTS", "RESOURCE", "NOMINAL", "USED", "BORROWED", "WAITING", "PODS WAITING"], rows)


def _print(view: View, members: Members, queue: Sequence[Waiting]) -> None:
    print(f"cohort {members.name}: {len(members.tenants)} tenants")
    rows = [
        (
            row.tenant,
            view.snapshot.tenants[row.tenant].weight,
            line_name(*row.line),
            *_limits(row.line, view.snapshot.tenants[row.tenant].shares[row.line]),
            *(number(row.line, getattr(row.standing, field)) for field in ("used", "borrowed", "lent", "borrowable")),
            number(row.line, row.waiting),
        )
        for row in members.rows
        if is_device(row.line) or row.standing.ceiling
    ]
    table(
        [
            "TENANT",
            "WEIGHT",
            "RESOURCE",
            "NOMINAL",
            "MAY BORROW",
            "MAY LEND",
            "USED",
            "BORROWED",
            "LENT",
            "BORROWABLE",
            "WAITING",
        ],
        rows,
    )
    heading("Rules")
    for line in _rules(view.snapshot.rules.get(members.name), members.name):
        print(f"  {line}")
    heading("Queue, in order")
    _queue(view, queue)


def _limits(line: Line, share: Share) -> tuple[str, str, str]:
    borrowing = "all" if share.borrowing is None else number(line, share.borrowing)
    lending = "all" if share.lending is None else number(line, share.lending)
    return number(line, share.nominal), borrowing, lending


def _rules(rules: Rules | None, name: str) -> list[str]:
    usual = rules is None
    rules = rules or Rules()
    fair = (
        "and by a tenant that would borrow from one that borrows more for its weight"
        if rules.fair_preemption
        else "and for nothing else"
    )
    over = (
        f"evicted {duration(rules.over_quota_grace)} after a quota was lowered"
        if rules.over_quota == "Reclaim"
        else "kept until they end"
    )
    within = duration(rules.reclaim_within)
    flavors = [f"{flavor.name} of {flavor.resource} ({_labels(flavor.node_labels)})" for flavor in rules.flavors]
    return [
        f"there is no Cohort {name}, so the default rules apply" if usual else f"rules of Cohort {name}",
        f"borrowed quota is reclaimed within {within}, not before a pod ran {duration(rules.min_runtime)}",
        f"it is reclaimed for work within its tenant's nominal quota, {fair}",
        f"pods over a lowered quota: {over}",
        f"a gang whose pods do not all have a node within {duration(rules.bind_within)} is admitted again",
        f"if no node has room: {_moves(rules)}",
        *([f"flavors: {', '.join(flavors)}"] if flavors else []),
    ]


def _moves(rules: Rules) -> str:
    if not rules.max_moves:
        return "no pod is moved to another node"
    return f"at most {rules.max_moves} {'pod is' if rules.max_moves == 1 else 'pods are'} moved to others for one workload"


def _labels(found: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(found.items()))


def _queue(view: View, queue: Sequence[Waiting]) -> None:
    if not queue:
        print("  no workload waits")
        return
    now = datetime.fromtimestamp(view.now, UTC)
    rows = [
        (
            each.place,
            each.first.tenant,
            each.name,
            len(each.pods),
            queued.devices(each.asks),
            each.first.priority,
            age(moment(each.since), now=now),
            "" if each.verdict.starts_by is None else clock(each.verdict.starts_by),
            each.verdict.why,
            each.verdict.message,
        )
        for each in queue[:_SHOWN_WORKLOADS]
    ]
    headers = ["#", "TENANT", "WORKLOAD", "PODS", "ASKS", "PRIORITY", "WAITS", "STARTS BY", "REASON", "MESSAGE"]
    table(headers, rows, indent=2)
    if len(queue) > _SHOWN_WORKLOADS:
        print(f"  and {len(queue) - _SHOWN_WORKLOADS} more: -o json has all of them")


def _json(view: View, members: Members, queue: Sequence[Waiting] | None) -> dict[str, Any]:
    snapshot = view.snapshot
    rules = snapshot.rules.get(members.name)
    made: dict[str, Any] = {
        "name": members.name,
        "hasObject": rules is not None,
        "rules": _rules_json(rules or Rules()),
        "lines": [as_json(members.total(line)) for line in members.lines()],
        "tenants": [
            {
                "name": tenant,
                "weight": snapshot.tenants[tenant].weight,
                "lines": [
                    as_json(row) | _share(snapshot.tenants[tenant].shares[row.line])
                    for row in members.rows
                    if row.tenant == tenant
                ],
            }
            for tenant in members.tenants
        ],
    }
    return made if queue is None else made | {"queue": [queued.as_json(waiting) for waiting in queue]}


def _share(share: Share) -> dict[str, int | None]:
    """The limit with its unit; "all" for None, which means no limit."""
    return {"borrowingLimit": share.borrowing, "lendingLimit": share.lending}


def _rules_json(rules: Rules) -> dict[str, Any]:
    return {
        "minRuntimeSeconds": rules.min_runtime,
        "reclaimWithinSeconds": rules.reclaim_within,
        "fairPreemption": rules.fair_preemption,
        "overQuota": rules.over_quota,
        "overQuotaGraceSeconds": rules.over_quota_grace,
        "bindWithinSeconds": rules.bind_within,
        "maxMoves": rules.max_moves,
        "flavors": [
            {"name": flavor.name, "resource": flavor.resource, "nodeLabels": dict(flavor.node_labels)}
            for flavor in rules.flavors
        ],
    }
