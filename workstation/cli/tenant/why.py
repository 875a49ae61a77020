"""`bulkhead tenant why`: the first cause of what is wrong with a tenant, and what to type next. Read-only.

`describe` shows everything; this shows the one line that explains the rest.
"""

import argparse
import asyncio
import sys
from dataclasses import asdict, dataclass

from bulkhead.api import labels, names
from bulkhead.kube import resources as kinds
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Form, Host, add_host, add_output, add_tenant, form_of, host_of
from workstation.cli.failures import Exit
from workstation.cli.output import age, document, plain, told
from workstation.cli.parsing import RAW, Actions
from workstation.cli.tenant import waiting
from workstation.cli.tenant.cause import Cause, first_cause
from workstation.cli.tenant.reading import known, readable
from workstation.cli.trouble import troubles


@dataclass(frozen=True, slots=True)
class WhyRequest:
    """`tenant why NAME`."""

    host: Host
    name: str
    form: Form


def add_why(actions: Actions) -> None:
    """`tenant why`."""
    parser = actions.add_parser(
        "why",
        help="name the first cause of what is wrong with a tenant, and the next step",
        description="Name the first cause of what is wrong with a tenant, since when, and what to type next. `describe`\n"
        "shows everything else. For one pod of a tenant: bulkhead why TENANT POD.",
        epilog="exit codes:\n  0 nothing is wrong   1 something is   3 no such tenant\n\n"
        "examples:\n  bulkhead tenant why red\n",
        formatter_class=RAW,
    )
    add_host(parser)
    add_tenant(parser, "name")
    add_output(parser)
    parser.does(_request, why_tenant)


def _request(options: argparse.Namespace) -> WhyRequest:
    return WhyRequest(host_of(options), options.name, form_of(options))


def why_tenant(request: WhyRequest) -> int:
    """`bulkhead tenant why NAME [-o table|json|yaml]`."""
    found = eventloop.run(_find(request))
    if request.form == "table":
        told(sys.stdout, lambda: _print(request.name, found))
    else:
        fields = asdict(found)
        whole = {"tenant": request.name, "nextStep": fields.pop("next_step") or None, **fields}
        told(sys.stdout, lambda: document(whole, request.form))
    return Exit.DONE if found.healthy else Exit.FAILED


def _print(name: str, found: Cause) -> None:
    since = f" for {age(found.since)}" if found.since else ""
    if found.healthy:
        print(f"tenant {name}: {found.what}; ready{since}")
        return
    print(f"tenant {name}: {plain(found.reason)}{since}\n  cause:  {plain(found.what)}")
    if found.next_step:
        print(f"  next:   {plain(found.next_step)}")


async def _find(request: WhyRequest) -> Cause:
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, request.name)
        plane = names.plane_namespace(request.name)
        # Side by side: one kind that hangs costs its deadline, and not that of each kind.
        pods, events, controllers = await asyncio.gather(
            readable(client, kinds.PODS, plane),
            readable(client, kinds.EVENTS, plane, field_selector="type=Warning"),
            known(client, kinds.DEPLOYMENTS, None, label_selector=labels.CONTROLLER),
        )
    return first_cause(tenant, controllers, troubles(pods, waiting.current(events, pods)))
