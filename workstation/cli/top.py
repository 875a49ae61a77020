"""`bulkhead top`: which tenants hold and borrow accelerators, and what waits; once, or repeatedly.

    View ──> by cohort: nominal, used, borrowed, lent, waiting ──> tables
         └─> by resource: nodes and their devices by tenant ──> a map that fits the terminal

Colours and redrawing are for terminals; a pipe gets plain text, one frame after the other with --watch.
"""

import argparse
import asyncio
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from bulkhead.api.ledger import line_name
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.ledger.model import Snapshot
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Form, Host, add_host, add_output, form_of, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document, is_terminal, plain
from workstation.cli.parsing import RAW, Parser
from workstation.cli.quotas import hostview, own, topmap
from workstation.cli.quotas.hostview import View
from workstation.cli.quotas.summary import Members, as_json, cohorts, is_device, number, waiting_pods
from workstation.cli.quotas.topmap import Block, Paint

_COLOURS: Final = (32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96, 31)
_HEADERS: Final = ("NOMINAL", "USED", "BORROWED", "LENT", "WAITING")
# A column that is shown if claims hold a part of what is used; they count as soon as they exist.
_OF_CLAIMS: Final = "BY CLAIMS"
_LEAST_LINES: Final = 3
_LEAST_ROWS: Final = 5
_LEGEND_LINES: Final = 4


@dataclass(frozen=True, slots=True)
class TopRequest:
    """`top`."""

    host: Host
    watch: bool
    interval_seconds: float
    # None for all devices.
    resource: str | None
    form: Form
    # Where to write the picture as a page; None for the terminal.
    html: Path | None = None


def add_arguments(parser: Parser) -> None:
    """`top`."""
    parser.description = (
        "The tenants of each cohort with their numbers for each device: nominal quota, used, borrowed, lent, waiting.\n"
        "Then a map of the nodes, with a letter for each device, by rack and NVLink domain if the nodes have such labels."
    )
    parser.epilog = (
        "examples:\n"
        "  bulkhead top                                     with a tenant's kubeconfig: its own quota and pods\n"
        "  bulkhead top --watch                             refreshed every two seconds\n"
        "  bulkhead top --resource nvidia.com/mig-1g.10gb\n"
        "  bulkhead top --html gpus.html                    one file for a browser or a mail; it loads nothing\n"
        "  bulkhead top -o json | jq '.nodes[] | select(.state == \"whole\") | .name'\n\n"
        "A node is whole if none of its devices is in use, partial if some are free, and full if none is. Gangs of whole\n"
        "nodes wait for whole ones. If there are more nodes than lines, they are drawn next to each other; if that is not\n"
        "enough, nodes that look alike are drawn once, with their number (12x........). NO_COLOR=1 turns colours off; a pipe\n"
        "gets none.\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    parser.add_argument("-w", "--watch", action="store_true", help="refresh until interrupted")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=values.decimal(0.5, 3600, "a number of seconds"),
        default=2.0,
        help="seconds between two frames; default 2",
    )
    parser.add_argument("--resource", metavar="NAME", help="only this resource, such as nvidia.com/gpu (default: all devices)")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write one HTML file with the map, quotas and queue instead")
    add_output(parser, more="; json and yaml use base units")
    parser.does(_request, show)


def _request(options: argparse.Namespace) -> TopRequest:
    if options.html and (options.watch or options.resource or options.output != "table"):
        raise CliError(
            "--html writes everything once, and goes with neither --watch, --resource nor -o",
            next_step="for a page that stays current: bulkhead console",
            code=Exit.USAGE,
        )
    return TopRequest(host_of(options), options.watch, options.interval, options.resource, form_of(options), options.html)


def show(request: TopRequest) -> int:
    """`bulkhead top [--watch] [--resource NAME] [-o table|json|yaml] [--html FILE]`."""
    return eventloop.run(_show(request))


async def _show(request: TopRequest) -> int:
    async with connection.host_client(request.host) as client:
        if request.html is not None:
            from workstation.cli.console import htmlfile  # noqa: PLC0415 - the terminal needs none of it

            await htmlfile.write(client, request.host, request.html)
            return Exit.DONE
        shown = own.Top(client, request.form, request.resource)
        its_own = await shown.show()
        if not request.watch:
            if not its_own:
                _print(await hostview.observe(client), request)
            return Exit.DONE
        if its_own:
            await _watch_own(shown, request)
        await _watch(client, request)
    return Exit.DONE


async def _watch_own(shown: own.Top, request: TopRequest) -> NoReturn:
    """Print further frames of a tenant's own quota and pods until the user interrupts."""
    while True:
        sys.stdout.flush()
        await asyncio.sleep(request.interval_seconds)
        sys.stdout.write("\x1b[H\x1b[J" if is_terminal(sys.stdout) else "\n")
        try:
            if not await shown.show():
                _not_read(own.no_picture())
        except KubeError as error:
            _not_read(error)


def _not_read(error: KubeError | CliError) -> None:
    sys.stderr.write(f"not read: {plain(error)}\n")


async def _watch(client: Client, request: TopRequest) -> NoReturn:
    """Print frames until the user interrupts. After the first frame, a failed read is reported and tried again."""
    terminal = is_terminal(sys.stdout)
    drawn = False
    while True:
        try:
            view = await hostview.observe(client)
        except KubeError as error:
            if not drawn:
                raise
            _not_read(error)
        else:
            drawn = True
            if terminal:
                sys.stdout.write("\x1b[H\x1b[J")
            _print(view, request)
            if not terminal and request.form == "table":
                sys.stdout.write("\n")
        sys.stdout.flush()
        await asyncio.sleep(request.interval_seconds)


def _print(view: View, request: TopRequest) -> None:
    found = cohorts(view.snapshot)
    resources = _resources(view.snapshot, found)
    if request.resource:
        if request.resource not in resources:
            known = ", ".join(resources) or "none"
            raise CliError(f"no node and no quota has {plain(request.resource, 100)}; devices: {known}", code=Exit.NOT_FOUND)
        resources = [request.resource]
    if request.form != "table":
        if request.watch and request.form == "yaml":
            sys.stdout.write("---\n")
        document(_as_json(view, found, resources), request.form)
        return
    size = shutil.get_terminal_size((100, 60))
    names = topmap.letters(_by_use(view.snapshot, resources))
    paint = _painter(list(names))
    lines = tables(found, resources, size.lines // 2 if is_terminal(sys.stdout) else None)
    room = max(_LEAST_LINES, (size.lines - len(lines) - 1) // max(1, len(resources)) - 3)
    for resource in resources:
        lines += ["", *_map(view.snapshot, resource, names, paint, room=room, width=size.columns)]
    sys.stdout.write("\n".join(lines) + "\n")


def _resources(snapshot: Snapshot, found: Sequence[Members]) -> list[str]:
    """Devices that a node has or a tenant has quota of, the most frequent first."""
    there: Counter[str] = Counter()
    for node in snapshot.nodes:
        there.update({name: amount for name, amount in node.allocatable.items() if "/" in name and amount > 0})
    lines = {row.line[1]: 0 for members in found for row in members.rows if is_device(row.line) and row.standing.ceiling}
    known = lines | {name: amount for name, amount in there.items() if name in lines or _is_vendors(name)}
    return sorted(known, key=lambda name: (-known[name], name))


def _is_vendors(resource: str) -> bool:
    """Whether a node's resource is a device, and not one of Kubernetes' own, such as attachable volumes."""
    domain = resource.partition("/")[0]
    return domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def tables(found: Sequence[Members], resources: Iterable[str], most: int | None) -> list[str]:
    """A table for each line of each cohort; about `lines` lines in total, if that is bounded."""
    asked = set(resources)
    wanted = [(members, line) for members in found for line in members.lines() if line[1] in asked]
    rows = None if most is None else max(_LEAST_ROWS, most // max(1, len(wanted)) - 3)
    parts = [_table(members, line, rows) for members, line in wanted]
    if not parts:
        return ["no tenant has a quota of devices"]
    return [line for at, part in enumerate(parts) for line in (["", *part] if at else part)]


def _table(members: Members, line: tuple[str, str], most: int | None) -> list[str]:
    title = f"cohort {members.name}" if members.name else "no cohort"
    rows = [row for row in members.rows if row.line == line]
    left = 0
    if most is not None and len(rows) > most:
        # The tenants with the largest numbers.
        busiest = sorted(rows, key=lambda row: (-row.standing.used - row.waiting, -row.standing.nominal, row.tenant))
        rows, left = sorted(busiest[:most], key=lambda row: row.tenant), len(rows) - most
    total = members.total(line)
    headers = (*_HEADERS, _OF_CLAIMS) if total.claims else _HEADERS
    cells = [
        (
            row.tenant,
            *(number(line, getattr(row.standing, field.lower())) for field in _HEADERS[:-1]),
            number(line, row.waiting),
            *((number(line, row.claims),) if total.claims else ()),
        )
        for row in ([*rows, total] if len(rows) + left > 1 else rows)
    ]
    total_name = f"all, including {left} more tenants" if left else "all"
    cells = [(f"{title}: {line_name(*line)}", *headers), *((cell[0] or total_name, *cell[1:]) for cell in cells)]
    widths = [max(len(cell[at]) for cell in cells) for at in range(len(cells[0]))]
    return [
        f"{cell[0]:<{widths[0]}}   {'   '.join(value.rjust(width) for value, width in zip(cell[1:], widths[1:], strict=True))}"
        for cell in cells
    ]


def _map(snapshot: Snapshot, resource: str, names: Mapping[str, str], paint: Paint, *, room: int, width: int) -> list[str]:
    shown = topmap.blocks(snapshot, resource)
    claimed = sum(claim.asks.get(resource, 0) for claim in snapshot.claims)
    undrawn = f", {claimed} more by claims for devices, on unknown nodes" if claimed else ""
    if not shown:
        return [f"{resource}: no node has any{undrawn}"]
    states = Counter(block.state for block in shown)
    free = {state: sum(block.free for block in shown if block.state == state) for state in ("whole", "partial")}
    total = sum(block.capacity for block in shown)
    head = (
        f"{resource}: {total} on {len(shown)} nodes, {states['whole']} whole ({free['whole']} free), "
        f"{states['partial']} partial ({free['partial']} free), {states['full']} full"
    )
    head += (f", {states['closed']} take no pods" if states["closed"] else "") + undrawn
    return [head, *topmap.picture(shown, names, lines=room, width=width, paint=paint), *_legend(shown, names, paint, width)]


def _legend(shown: Sequence[Block], names: Mapping[str, str], paint: Paint, width: int) -> list[str]:
    here = {tenant for block in shown for tenant, _ in block.held}
    marks = [f"{topmap.OTHERS} not a tenant's"] if "" in here else []
    marks += [f"{topmap.CLOSED} takes no pods"] if any(not block.usable for block in shown) else []
    words = [(f"{text}  ", len(text) + 2) for text in [f"{topmap.FREE} free", *marks]]
    for tenant in names:
        if tenant in here:
            letter = names[tenant]
            words.append((f"{paint(letter, tenant)} {tenant}  ", len(letter) + len(tenant) + 3))
    lines = [line.rstrip() for line in topmap.wrapped("", words, width)]
    if len(lines) <= _LEGEND_LINES:
        return lines
    return [*lines[:_LEGEND_LINES], f"and letters of more tenants: {len(names)} in total, -o json has them"]


def _by_use(snapshot: Snapshot, resources: Iterable[str]) -> list[str]:
    """Tenants, those with the most devices first, so that they get the letters that they would like."""
    asked = set(resources)
    used: Counter[str] = Counter(dict.fromkeys(snapshot.tenants, 0))
    for pod in snapshot.pods:
        if pod.tenant and topmap.where(pod):
            used[pod.tenant] += sum(amount for name, amount in pod.asks.items() if name in asked)
    return [tenant for tenant, _ in sorted(used.items(), key=lambda item: (-item[1], item[0]))]


def _painter(tenants: Sequence[str]) -> Paint:
    if not is_terminal(sys.stdout) or os.environ.get("NO_COLOR"):
        return lambda text, _: text
    colours = {tenant: _COLOURS[at % len(_COLOURS)] for at, tenant in enumerate(tenants)}

    def paint(text: str, tenant: str) -> str:
        colour = colours.get(tenant)
        return text if colour is None or not text else f"\x1b[{colour}m{text}\x1b[0m"

    return paint


def _as_json(view: View, found: Sequence[Members], resources: Sequence[str]) -> dict[str, Any]:
    snapshot = view.snapshot
    return {
        "cohorts": [
            {
                "name": members.name,
                "lines": [as_json(members.total(line)) for line in members.lines()],
                "tenants": [
                    {
                        "name": tenant,
                        "weight": snapshot.tenants[tenant].weight,
                        "lines": [as_json(row) for row in members.rows if row.tenant == tenant],
                        "waitingPods": sum(1 for pod in waiting_pods(snapshot.pods) if pod.tenant == tenant),
                    }
                    for tenant in members.tenants
                ],
            }
            for members in found
        ],
        "nodes": [_node(block, resource) for resource in resources for block in topmap.blocks(snapshot, resource)],
    }


def _node(block: Block, resource: str) -> dict[str, Any]:
    rack, domain = block.domain
    return {
        "name": block.node,
        "resource": resource,
        "rack": rack,
        "nvlinkDomain": domain,
        "usable": block.usable,
        "state": block.state,
        "allocatable": block.capacity,
        "free": block.free,
        "held": [{"tenant": tenant, "amount": amount} for tenant, amount in block.held],
    }
