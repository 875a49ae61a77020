"""`bulkhead audit`: what users did in a tenant's plane, from the audit trail of its API servers.

    Tenant ──> pods of its plane ──┬─ container `audit` ──> the reader in it, by kubectl exec ──┐
                                   └─ trail on stdout ──> the container's log ─────────────────┴─> merged, newest last

Only an admin of the host can read it: no part of it is served by the tenant's own API. The tenant wrote parts of the trail, so
it is bounded, and printed without control characters.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bulkhead.api import labels, names
from bulkhead.api.auditevents import MOST_BYTES, MOST_EVENTS, Choice, Newest, moment, read, row
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, sequence
from bulkhead.kube import podlog
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from workstation.cli import access, connection, eventloop, hostfile, values
from workstation.cli.arguments import Form, Host, add_host, add_output, add_tenant, form_of, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document, plain, table
from workstation.cli.parsing import RAW, Parser

_READER = "audit"
_SERVER = "kube-apiserver"
_SECONDS = 60.0
_LOG_LINES = 50_000
_LOG_BYTES = 48 << 20
_PLANE_POD = re.compile(r"plane-[0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """`audit TENANT`; an empty user or verb matches all."""

    host: Host
    tenant: str
    since_seconds: float
    user: str
    verb: str
    # How many of the newest events to show.
    limit: int
    form: Form


def add_arguments(parser: Parser) -> None:
    """`audit TENANT`."""
    parser.description = (
        "Print the audit trail of a tenant's plane, the newest event last. The tenant's class must enable it (spec.audit)."
    )
    parser.epilog = (
        "examples:\n"
        "  bulkhead audit red --since 1h\n"
        "  bulkhead audit red --user alice@example.org --verb delete\n"
        "  bulkhead audit red --since 7d -o json | jq .objectRef\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    add_tenant(parser)
    parser.add_argument(
        "--since", metavar="TIME", type=values.since, default=3600.0, help="how far to go back: 30m, 1h, 7d; default 1h"
    )
    parser.add_argument(
        "--user", metavar="NAME", type=values.plain_name, help="only events of this user, or of others who impersonate it"
    )
    parser.add_argument("--verb", metavar="VERB", type=values.plain_name, help="only this verb, such as create, delete or get")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=values.between(1, MOST_EVENTS, "a number of events"),
        default=500,
        help="the newest N events; default 500",
    )
    add_output(parser, more="; json and yaml print whole events, json one object a line")
    parser.does(_request, print_trail)


def _request(options: argparse.Namespace) -> AuditRequest:
    return AuditRequest(
        host=host_of(options),
        tenant=options.tenant,
        since_seconds=options.since,
        user=options.user or "",
        verb=options.verb or "",
        limit=options.limit,
        form=form_of(options),
    )


def print_trail(request: AuditRequest) -> int:
    """`bulkhead audit TENANT [--since 1h] [--user U] [--verb V] [-o table|json|yaml]`."""
    since = f"{datetime.now(UTC) - timedelta(seconds=request.since_seconds):%Y-%m-%dT%H:%M:%S}"
    choice = Choice(since, request.user, request.verb, request.limit)
    trails, notes = eventloop.run(_collect(request, choice))
    show(request, choice, trails, notes)
    return Exit.DONE


def show(request: AuditRequest, choice: Choice, trails: Sequence[Newest], notes: Sequence[str]) -> None:
    """Print the newest events of all trails, and a warning for each note and for what is not shown."""
    warnings = list(notes)
    events = sorted(filter(None, (read(line) for trail in trails for line in trail.lines)), key=moment)
    _print(events[-choice.most :], request.form)
    older = sum(trail.left_out for trail in trails) + len(events[: -choice.most])
    if older:
        warnings.append(f"{older} older events are not shown: choose a shorter --since or a larger --limit")
    if any(trail.is_cut for trail in trails):
        warnings.append("the log has older lines than were read, and events of them are missing: choose a shorter --since")
    if large := sum(trail.large for trail in trails):
        warnings.append(f"{large} events are too large to show: read them in the trail itself")
    for note in warnings:
        sys.stderr.write(f"warning: {plain(note)}\n")


def _print(events: Sequence[Mapping[str, Any]], form: Form) -> None:
    if form == "json":
        for event in events:
            sys.stdout.write(json.dumps(event, ensure_ascii=True) + "\n")
        return
    if form == "yaml":
        document(list(events), form)
        return
    table(["TIME (UTC)", "USER", "VERB", "CODE", "FROM", "WHAT"], [_columns(event) for event in events])


def _columns(event: Mapping[str, Any]) -> tuple[str, ...]:
    time, user, verb, what, code, source = row(event)
    return time, user, verb, code, source, what


async def _collect(request: AuditRequest, choice: Choice) -> tuple[list[Newest], list[str]]:
    """The events of all pods of the plane, and a warning for each pod that gave none."""
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, request.tenant)
        namespace = names.plane_namespace(str(tenant["metadata"]["name"]))
        selector = f"{labels.TENANT}={request.tenant}"
        found = (await client.list(kinds.PODS, namespace, label_selector=selector)).items
        pods = [pod for pod in found if _PLANE_POD.fullmatch(str(pod["metadata"]["name"]))]
        if not pods:
            raise CliError(
                f"tenant {request.tenant}: its plane does not run",
                next_step=f"see why: bulkhead tenant describe {request.tenant}",
            )
        trails: list[Newest] = []
        failures: list[CliError] = []
        for pod in pods:
            try:
                trails.append(await _trail(client, request, pod, choice))
            except KubeError as error:
                failures.append(CliError(f"pod {pod['metadata']['name']}: {error}"))
            except CliError as error:
                failures.append(error)
    if not trails:
        raise failures[0]
    return trails, [error.cause for error in failures]


async def _trail(client: Client, request: AuditRequest, pod: Obj, choice: Choice) -> Newest:
    """The events of one pod; events that its reader left out count as left out here."""
    newest = Newest(choice)
    containers = {str(container.get("name")): container for container in mappings(mapping(pod.get("spec")).get("containers"))}
    if _READER in containers:
        *events, summary = await asyncio.to_thread(_read_files, request, pod, choice)
        told = mapping(read(summary))
        newest.add(events)
        newest.large += _number(told.get("large"))
        newest.left_out += _number(told.get("leftOut"))
        return newest
    flags = [str(flag) for flag in sequence(containers.get(_SERVER, {}).get("command"))]
    if "--audit-log-path=-" in flags:
        where = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        since = {"sinceSeconds": str(int(request.since_seconds) + 1)}
        tail = await podlog.newest(
            client, where, _SERVER, lines=_LOG_LINES, most_bytes=_LOG_BYTES, query=since, timeout=_SECONDS
        )
        newest.add(tail.data.split(b"\n"))
        newest.is_cut = tail.is_cut
        return newest
    if any(
        str(flag).startswith("--audit-webhook-config-file=") for flag in sequence(containers.get(_SERVER, {}).get("command"))
    ):
        raise CliError(
            f"tenant {request.tenant}: its audit trail is sent to the class's receiver, and is kept nowhere else",
            next_step="read it there, or set sink File in spec.audit of its TenantClass, which also keeps it here",
        )
    raise CliError(
        f"tenant {request.tenant}: its class keeps no audit trail that can be read here",
        next_step="set spec.audit of its TenantClass, for example to {sink: File, retain: true}; its planes then restart once",
    )


def _read_files(request: AuditRequest, pod: Obj, choice: Choice) -> list[bytes]:
    """The output of the reader in a pod's container."""
    path = hostfile.find_kubeconfig(request.host.kubeconfig)
    environment = access.environment_of(request.tenant, path)
    program = shutil.which("kubectl", path=environment.get("PATH", os.defpath))
    if program is None:
        raise CliError("kubectl: no such program on PATH", next_step="install it: the audit trail is read by kubectl exec")
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    words = [program, *(("--context", request.host.context) if request.host.context else ()), "-n", namespace]
    words += ["exec", "--quiet", name, "-c", _READER, "--", "python3", "-m", "bulkhead.auditreader", f"--most={choice.most}"]
    words += [f"--since={choice.since}", f"--user={choice.user}", f"--verb={choice.verb}"]
    try:
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CliError(f"pod {name}: reading its trail took longer than {_SECONDS:.0f} s", next_step="try again") from error
    lines = done.stdout[: 2 * MOST_BYTES].splitlines()
    if done.returncode or not lines:
        message = done.stderr[-500:].decode(errors="replace")
        raise CliError(
            f"pod {name}: its trail cannot be read: {message}", next_step=f"see why: bulkhead tenant describe {request.tenant}"
        )
    return lines


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
