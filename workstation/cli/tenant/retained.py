"""`bulkhead tenant retained`: the planes of deleted Tenants that are kept, and the end of one."""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from bulkhead.api import labels, names
from bulkhead.api.conditions import timestamp
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, NotFound
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Form, Host, add_host, add_output, form_of, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document, table
from workstation.cli.parsing import Actions
from workstation.cli.tenant import confirmation


@dataclass(frozen=True, slots=True)
class RetainedRequest:
    """`tenant retained`; `ends` is the tenant whose plane is to end now."""

    host: Host
    form: Form
    ends: str | None
    confirmed: bool


def add_retained(actions: Actions) -> None:
    """`tenant retained`."""
    parser = actions.add_parser(
        "retained",
        help="list the planes of deleted tenants that are kept, or end one",
        description="List the planes that are kept of deleted tenants. A Tenant of the same name gets one back by "
        "spec.adopt, with the identity that is listed here.",
    )
    parser.shows("bulkhead tenant retained", "bulkhead tenant retained --end red   deletes its data; asks before")
    add_host(parser)
    add_output(parser, "table", "json", "yaml")
    parser.add_argument("--end", metavar="TENANT", type=values.tenant_name, help="end this one now: its data is deleted")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.does(_request, retained)


def _request(options: argparse.Namespace) -> RetainedRequest:
    return RetainedRequest(host_of(options), form_of(options), options.end, options.yes)


def retained(request: RetainedRequest) -> int:
    """`bulkhead tenant retained`."""
    return eventloop.run(_retained(request))


async def _retained(request: RetainedRequest) -> int:
    async with connection.host_client(request.host) as client:
        found = planes((await client.list(kinds.NAMESPACES, label_selector=labels.RETAINED)).items)
        if request.ends is not None:
            return await _end(client, found, request)
    if request.form in {"json", "yaml"}:
        document(found, request.form)
    elif not found:
        sys.stderr.write("no plane of a deleted tenant is kept\n")
    else:
        table(["TENANT", "IDENTITY", "UNTIL", "NAMESPACE"], [[one[key] for key in one] for one in found])
    return Exit.DONE


async def _end(client: Client, found: Iterable[dict[str, str]], request: RetainedRequest) -> int:
    name = str(request.ends)
    plane = next((one for one in found if one["tenant"] == name), None)
    if plane is None:
        raise CliError(
            f"no plane of tenant {name} is kept", next_step="list them: bulkhead tenant retained", code=Exit.NOT_FOUND
        )
    if not request.confirmed:
        warning = f"This ends the plane {plane['identity']} that is kept of tenant {name}, with its data and its keys"
        confirmation.ask(name, "ending its retained plane destroys all its data", warning, "not ended")
    await _mark(client, plane)
    print(f"the retained plane {plane['identity']} of tenant {name} ends; see it go: kubectl get ns {plane['namespace']}")
    return Exit.DONE


async def _mark(client: Client, plane: dict[str, str]) -> None:
    """Let the plane end now, if it is still the one that was shown: a Tenant may have taken it up meanwhile."""
    changed = CliError(
        f"the plane {plane['identity']} of tenant {plane['tenant']} was taken up, or has ended, meanwhile; nothing was changed",
        next_step="look again: bulkhead tenant retained",
    )
    try:
        found = await client.get(kinds.NAMESPACES, plane["namespace"])
        if plane["identity"] not in {row["identity"] for row in planes([found])}:
            raise changed
        version = text(mapping(found.get("metadata")).get("resourceVersion"))
        note = {labels.RETAINED_UNTIL: timestamp(datetime.now(UTC))}
        await client.patch(
            kinds.NAMESPACES, plane["namespace"], {"metadata": {"resourceVersion": version, "annotations": note}}
        )
    except (NotFound, Conflict) as error:
        raise changed from error


def planes(namespaces: Iterable[Obj]) -> list[dict[str, str]]:
    """The planes that are kept, by the marks on their own namespaces."""
    rows = []
    for namespace in namespaces:
        meta = mapping(namespace.get("metadata"))
        marks, notes = mapping(meta.get("labels")), mapping(meta.get("annotations"))
        tenant, name = text(marks.get(labels.TENANT)), text(meta.get("name"))
        if not tenant or name.endswith(names.WORK_SUFFIX):
            continue
        until = text(notes.get(labels.RETAINED_UNTIL))
        rows.append({"tenant": tenant, "identity": text(marks.get(labels.RETAINED)), "until": until, "namespace": name})
    return sorted(rows, key=lambda row: row["tenant"])
