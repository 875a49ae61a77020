"""`bulkhead tenant list`: all tenants, a line each, or as API objects."""

import argparse
import sys
from dataclasses import dataclass

from bulkhead.api import labels
from bulkhead.api.conditions import ConditionType, condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import NotFound
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Form, Host, add_host, add_output, form_of, host_of
from workstation.cli.failures import Exit
from workstation.cli.output import age, document, table
from workstation.cli.parsing import Actions


@dataclass(frozen=True, slots=True)
class ListRequest:
    """`tenant list`."""

    host: Host
    form: Form


def add_list(actions: Actions) -> None:
    """`tenant list`."""
    parser = actions.add_parser("list", aliases=["ls"], help="list tenants", description="List tenants.")
    parser.shows(
        "bulkhead tenant list",
        "bulkhead tenant list -o wide                         with class, reason and message of those that are not ready",
        "bulkhead tenant list -o json | jq -r '.items[].metadata.name'",
    )
    add_host(parser)
    add_output(parser, "table", "wide", "json", "yaml", more="; json and yaml print Tenants as API objects")
    parser.does(_request, list_tenants)


def _request(options: argparse.Namespace) -> ListRequest:
    return ListRequest(host_of(options), form_of(options))


def list_tenants(request: ListRequest) -> int:
    """`bulkhead tenant list`."""
    return eventloop.run(_list(request))


async def _list(request: ListRequest) -> int:
    async with connection.host_client(request.host) as client:
        try:
            items = (await client.list(kinds.TENANTS)).items
        except NotFound as error:
            raise connection.not_installed() from error
    if request.form in {"json", "yaml"}:
        document({"apiVersion": "v1", "kind": "List", "items": items}, request.form)
        return Exit.DONE
    if not items:
        sys.stderr.write("no tenants\nnext:  bulkhead tenant create NAME --gpus 8\n")
        return Exit.DONE
    wide = request.form == "wide"
    headers = [
        "NAME",
        "READY",
        "MODE",
        "VERSION",
        "GPUS",
        "ENDPOINT",
        "AGE",
        *(["CLASS", "SLICE", "REASON", "MESSAGE"] if wide else []),
    ]
    table(headers, [_row(item, wide=wide) for item in items])
    return Exit.DONE


def _row(tenant: Obj, *, wide: bool) -> list[object]:
    spec, status = tenant.get("spec") or {}, tenant.get("status") or {}
    ready = condition_of(tenant, ConditionType.READY)
    row: list[object] = [
        tenant["metadata"]["name"],
        ready.get("status", "Unknown"),
        (spec.get("scheduling") or {}).get("mode"),
        (status.get("versions") or {}).get("kubernetes"),
        gpus_of(tenant),
        status.get("endpoint"),
        age(tenant["metadata"].get("creationTimestamp")),
    ]
    if wide:
        row += [spec.get("class"), status.get("serviceSlice"), ready.get("reason"), ready.get("message")]
    return row


def gpus_of(tenant: Obj) -> str:
    """GPUs used of the limit, or what the spec requests until the controller has counted."""
    gpus = (tenant.get("status") or {}).get("gpus") or {}
    if gpus:
        return str(gpus.get("summary") or f"{gpus.get('used', 0)}/{gpus.get('limit', 0)}")
    resources = ((tenant.get("spec") or {}).get("quota") or {}).get("resources") or {}
    return f"-/{(resources.get(labels.GPU) or {}).get('nominal', 0)}"


def gpus_in_words(tenant: Obj) -> str:
    """The same in words: `8 in use, 4 of them borrowed (quota 4, 0 lent to others)`."""
    gpus = (tenant.get("status") or {}).get("gpus") or {}
    if not gpus:
        return f"not counted yet (quota {gpus_of(tenant).removeprefix('-/')})"
    borrowed, lent = gpus.get("borrowed") or 0, gpus.get("lent") or 0
    more = f", {borrowed} of them borrowed" if borrowed else ""
    given = f", {lent} lent to others" if lent else ""
    return f"{gpus.get('used', 0)} in use{more} (quota {gpus.get('limit', 0)}{given})"
