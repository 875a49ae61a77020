"""`bulkhead tenant describe`: one tenant from outside (the host) and, if it answers, from inside (its own API).

    Tenant, pods and events of its plane, its quotas, its own pods ──> Description ──> describetext, or describedocument

Read-only. The tenant's plane gets a short deadline and is treated as hostile: its answers are bounded and printed as plain
text. If it does not answer, the description says so.
"""

import argparse
import asyncio
from dataclasses import dataclass

from bulkhead.api import names
from bulkhead.api.conditions import HOPELESS
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Form, Host, add_host, add_output, add_tenant, form_of, host_of
from workstation.cli.credentials import certificate
from workstation.cli.credentials import document as kubeconfigs
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document
from workstation.cli.parsing import Actions
from workstation.cli.tenant import describedocument, describetext, waiting
from workstation.cli.tenant.description import Description, Inside, about, without_startup
from workstation.cli.tenant.reading import readable
from workstation.cli.trouble import troubles, unscheduled

_PLANE_SECONDS = 5.0
_ANSWER_LIMIT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """`tenant describe NAME`."""

    host: Host
    name: str
    form: Form


def add_describe(actions: Actions) -> None:
    """`tenant describe`."""
    parser = actions.add_parser(
        "describe",
        help="show a tenant: conditions, pods, what was refused and why",
        description="Show one tenant: its conditions, the pods of its plane, recent events, "
        "and which of its own pods may not run and why.",
    )
    parser.shows(
        "bulkhead tenant describe red",
        "bulkhead tenant describe red -o json | jq '.conditions[] | select(.status != \"True\")'",
        "bulkhead tenant why red                              the first cause alone",
    )
    add_host(parser)
    add_tenant(parser, "name")
    add_output(parser)
    parser.does(_request, describe_tenant)


def _request(options: argparse.Namespace) -> DescribeRequest:
    return DescribeRequest(host_of(options), options.name, form_of(options))


def describe_tenant(request: DescribeRequest) -> int:
    """`bulkhead tenant describe NAME [-o table|json|yaml]`."""
    found = eventloop.run(_describe(request))
    if request.form == "table":
        describetext.show(found)
    else:
        document(describedocument.document_of(found), request.form)
    return Exit.DONE


async def _describe(request: DescribeRequest) -> Description:
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, request.name)
        name = str(tenant["metadata"]["name"])
        plane, work = names.plane_namespace(name), names.work_namespace(name)
        # Side by side: one kind that hangs costs its deadline, and not that of each kind.
        pods, events, quotas, own, inside = await asyncio.gather(
            readable(client, kinds.PODS, plane),
            readable(client, kinds.EVENTS, plane),
            readable(client, kinds.RESOURCE_QUOTAS, work),
            readable(client, kinds.EVENTS, None, field_selector="involvedObject.kind=Tenant"),
            _inside(client, tenant, request.host),
        )
        return Description(
            tenant=tenant,
            plane=plane,
            pods=tuple(pods),
            troubles=tuple(troubles(pods, waiting.current(events, pods))),
            quotas=tuple(quotas),
            events=(*about(tenant, own), *without_startup(events, pods)),
            inside=inside,
        )


async def _inside(client: Client, tenant: Obj, host: Host) -> Inside:
    """The tenant's own pods that do not run, with the messages that the tenant sees."""
    ready = waiting.ready_condition(tenant) or {}
    if ready.get("reason") in HOPELESS and not (tenant.get("status") or {}).get("endpoint"):
        return Inside(unknown=f"the tenant has no plane, because its spec is refused ({ready['reason']})")
    try:
        found = await certificate.current(client, host, tenant, patience=_PLANE_SECONDS)
        data = kubeconfigs.with_certificate(tenant, found)
        async with connection.plane_client(data, seconds=_PLANE_SECONDS, answer_bytes=_ANSWER_LIMIT_BYTES) as plane:
            pending = (await plane.list(kinds.PODS, field_selector="status.phase=Pending")).items
    except (CliError, KubeError) as error:
        return Inside(unknown=str(error))
    refused = unscheduled(pending)
    listed = {str(pod["metadata"]["name"]) for pod, _ in refused}
    others = (pod for pod in pending if str(pod["metadata"]["name"]) not in listed)
    return Inside(tuple(refused), tuple(troubles(others, ())))
